"""Twelve questions of six classes, two each. They never change: a figure of the suite is over these and no others."""

from typing import Final

QUESTIONS: Final[tuple[tuple[str, int, str], ...]] = (
    (
        "code",
        1,
        '''from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A half-open interval [start, end) of integers; start < end."""

    start: int
    end: int


def merged(intervals: list[Interval]) -> list[Interval]:
    """The union of the intervals as the fewest intervals, sorted by start. Intervals that touch become one.

    Takes O(n log n) time. Does not change its argument.
    """
''',
    ),
    (
        "code",
        2,
        """A reviewer reads this function of a C program that runs on a small controller:

    int parse_level(const char *text) {
        char buffer[8];
        int level = 0;
        strcpy(buffer, text);
        for (int i = 0; i <= strlen(buffer); i++) {
            level = level * 10 + (buffer[i] - '0');
        }
        return level;
    }

The reviewer lists every fault with the input that shows it, and then gives a corrected version.

Faults:
1.""",
    ),
    (
        "mathematics",
        1,
        """Problem. A tank is filled by two pipes. The first alone fills it in 6 hours, the second alone in 4
hours. A drain empties the full tank in 12 hours. The tank is empty, and both pipes and the drain are opened at
noon. At 13:30 the drain is closed. At what time is the tank full?

Solution. We count what is filled as a fraction of the tank, and write down each rate per hour.
""",
    ),
    (
        "mathematics",
        2,
        """Theorem. For every natural number n, the sum of the cubes of the first n natural numbers is the
square of their sum: 1^3 + 2^3 + ... + n^3 = (1 + 2 + ... + n)^2.

We prove the theorem by induction over n, and then check it by hand for n = 1, 2, 3, 4.

Proof.""",
    ),
    (
        "prose",
        1,
        """# How a heat pump works

A heat pump moves heat from a cold place to a warm one, which heat does not do by itself. This chapter
explains, for readers without training in physics, what happens in each of the four parts of the circuit, why a
pump delivers more heat than it takes in electric power, and why it does worse the colder it is outside.

## The evaporator

""",
    ),
    (
        "prose",
        2,
        """Report on the inspection of the bridge over the mill stream, carried out in October.

The bridge is a steel truss of 1931 with a span of 42 metres. It carries one lane of road and a footpath. The
inspection found the main trusses sound, corrosion in the bearings at the northern end, two cracked welds in
the handrail, and a drain that is blocked by leaves and feeds water onto the northern bearings. The load limit
of 12 tonnes can remain for the time being.

The findings in detail, with their causes, and what is recommended:

1. Main trusses.""",
    ),
    (
        "structured",
        1,
        """The following order, written in plain words, is turned into JSON. Each position has the keys
"article", "quantity", "unit" and "remark" (null where there is none); the order has "customer",
"delivery_date" (ISO 8601) and "positions".

Order: The Harbour Bakery needs, by the third of March 2025, forty kilograms of rye flour, twelve kilograms of
wheat flour of the fine kind, two hundred eggs (only from free range), five litres of rapeseed oil, one
kilogram of sea salt, thirty packets of dry yeast, eight kilograms of butter (unsalted), fifteen litres of milk
and four kilograms of poppy seed, ground on the same day.

JSON:
{
  "customer":""",
    ),
    (
        "structured",
        2,
        """Timetable of the ferry, as a Markdown table. The ferry leaves the mainland at 06:30 and then every
75 minutes until the last departure at 20:15. It needs 20 minutes to the first island, stays for 5 minutes, and
needs 15 minutes to the second island.

| Departure mainland | Arrival first island | Departure first island | Arrival second island |
|---|---|---|---|
| 06:30 | 06:50 | 06:55 | 07:10 |
""",
    ),
    (
        "dialogue",
        1,
        """A customer writes to the support of a shop for bicycle parts. The support is friendly, asks for what
it needs to know, and does not promise what it cannot keep.

Customer: The rear wheel I got from you on Tuesday wobbles. I tightened everything, it still touches the brake
on one side once per turn.
Support: I am sorry to hear that. Does the rim itself run out of true, or does the whole wheel move sideways
when you push it?
Customer: When I hold the frame and push at the rim I can move it a little, maybe two millimetres.
Support:""",
    ),
    (
        "dialogue",
        2,
        """Interview on the radio. The guest has kept the lighthouse for thirty years and is asked about the
work, the weather and what has changed since the lamp was made automatic.

Host: Good evening, and welcome. When you came to the lighthouse, what did a day look like?
Guest: The day began in the evening, really. An hour before sunset I went up, cleaned the lenses and wound the
clockwork.
Host: By hand?
Guest:""",
    ),
    (
        "reasoning",
        1,
        """Five boats lie side by side at a pier, numbered 1 to 5 from left to right. Each has one colour:
blue, green, red, white, yellow.
 - The red boat lies directly to the left of the white one.
 - The blue boat lies at one end of the row.
 - The green boat has an odd number.
 - The yellow boat lies somewhere to the right of the white one.
 - The blue boat is not next to the green one.

Which boat has which number? We go through the conditions one after the other, note what each of them rules
out, and say whether there is more than one answer.

Step 1:""",
    ),
    (
        "reasoning",
        2,
        """A web shop became slow at 09:40. What is known:
 - At 09:30 a new version of the search was installed.
 - At 09:35 the nightly copy of the database, which usually ends at 08:00, was still running.
 - The processors of the web servers are at 20 percent, as on every day.
 - The database answers most queries in 3 milliseconds, but queries on the table of articles take 900.
 - After the search was set back to the old version at 09:55, nothing changed.
 - At 10:05 the copy ended, and at 10:06 the shop was as fast as ever.

What was the cause, which explanations are ruled out by which fact, and what should be done so that it does not
happen again? The engineer thinks aloud.

""",
    ),
)
"""Class, number within the class, text."""
