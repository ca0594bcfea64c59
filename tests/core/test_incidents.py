"""What befell a card: each recorded log is so many incidents of such a kind, and none of them is counted twice."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.cards.incidents import (
    CLOSING,
    FATAL,
    KEPT,
    MOST_CARDS,
    TOGETHER,
    Incident,
    Kind,
    Ledger,
    Source,
    fatal,
    graver,
    joined,
)
from arcops.core.cards.news import News
from arcops.core.diagnosis.kernel import KernelLine, events, parse_record
from arcops.core.diagnosis.notices import of_line

SAMPLES = Path(__file__).parents[1] / "data" / "kmsg"
B70, OTHER = "0000:03:00.0", "0000:3d:00.0"


def lines_of(name: str) -> list[KernelLine]:
    """A sample's lines, at the times that it says (those without one together), as the kernel prints them."""
    if name.endswith(".kmsg"):
        return [line for line in map(parse_record, (SAMPLES / name).read_text().splitlines()) if line is not None]
    found: list[KernelLine] = []
    for text in (SAMPLES / name).read_text().splitlines():
        start = max(0, text.find("xe "))
        clock = text[:start].strip().rstrip("]")
        at = int(clock[-2:]) if clock[-2:].isdigit() and "T" in clock else 100.0
        found.append(KernelLine(at, text[start:]))
    return found


def noted(lines: list[KernelLine], *, past: bool = False) -> tuple[Ledger, list[str | None]]:
    """The ledger after these lines, and the cards that they name."""
    ledger, cards = Ledger(), dict[str | None, None]()
    for event in events(lines):
        incident = of_line(event, past=past)
        if incident is not None:
            ledger.note(incident)
            cards[incident.card] = None
    return ledger, list(cards)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("CONSTRUCTED_devcoredump_head.txt", []),
        ("oom_memcg.kmsg", []),
        ("udev_wedged_event.txt", []),
        ("xe_b580_probe.txt", []),
        ("xe_b70_page_fault_block.txt", []),
        (
            "xe_b70_engine_reset.txt",
            [(OTHER, Kind.RESET, "ccs", 2693, "python", 2), (OTHER, Kind.RESET, "bcs", None, None, 2)],
        ),
        ("xe_b70_kernel_job_timeout_gt_reset.txt", [("0000:2b:00.0", Kind.RESET, None, None, None, 1)]),
        ("xe_cat_error.txt", [(None, Kind.RESET, "bcs", None, None, 1)]),
        ("xe_wedged_llama_server.txt", [("0000:0c:00.0", Kind.WEDGED, None, None, None, 0)]),
        ("xe_wedged_runtime_survivability.txt", [(B70, Kind.WEDGED, None, None, None, 0)]),
    ],
)
def test_every_recorded_log_is_so_many_incidents(
    name: str, found: list[tuple[str | None, Kind, str | None, int | None, str | None, int]]
) -> None:
    ledger, cards = noted(lines_of(name))
    got = [
        (one.card, one.kind, one.engine, one.pid, one.command, ledger.resets(one.card or "") or int(one.reset))
        for card in cards
        for one in ledger.of(card)
    ]
    assert got == found


def test_every_sample_is_in_the_table() -> None:
    table = test_every_recorded_log_is_so_many_incidents.pytestmark[0].args[1]  # pyright: ignore[reportFunctionMemberAccess] - pytest puts it there
    assert {row[0] for row in table} == {file.name for file in SAMPLES.iterdir()}


def test_a_page_fault_is_told_with_its_engine_where_the_driver_prints_it_as_one_message() -> None:
    """The recorded block is what a person copied: the kernel has it as one record, its lines escaped."""
    block = r"\x0a".join((SAMPLES / "xe_b70_page_fault_block.txt").read_text().splitlines())
    line = parse_record(f"3,9,5000000,-;xe {B70}: [drm] Tile0: GT0: \\x0a{block}\n")
    assert line is not None
    (event,) = events([line])
    incident = of_line(event)
    assert incident is not None
    assert (incident.card, incident.kind, incident.engine) == (B70, Kind.PAGE_FAULT, "bcs")


def told(
    kind: Kind = Kind.RESET, at: float = 100.0, card: str | None = B70, *, closes: bool = False, past: bool = False
) -> Incident:
    text = f"{kind.label} at {at}"
    return Incident(at, card, kind, text, Source.KERNEL_LOG, reset=kind is Kind.RESET, closes=closes, past=past)


def test_one_reset_that_prints_ten_lines_and_sends_events_is_counted_once() -> None:
    ledger = Ledger()
    kinds = (Kind.JOB_TIMEOUT, Kind.COREDUMP, Kind.RESET, Kind.RESET, Kind.PAGE_FAULT) * 2
    for number, kind in enumerate(kinds):
        ledger.note(told(kind, 100.0 + number / 10))
    (one,) = ledger.of(B70)
    assert (one.kind, one.at, one.text, ledger.resets(B70)) == (Kind.RESET, 100.0, "reset at 100.2", 1)


def test_what_comes_later_or_befalls_another_card_is_another_incident() -> None:
    ledger = Ledger()
    for at, card in ((100.0, B70), (100.0 + TOGETHER + 0.1, B70), (100.0, OTHER)):
        ledger.note(told(at=at, card=card))
    assert (ledger.resets(B70), ledger.resets(OTHER), len(ledger.of(B70))) == (2, 1, 2)
    assert ledger.resets("0000:99:00.0") == 0


def test_the_end_of_a_long_reset_belongs_to_it_and_another_beginning_does_not() -> None:
    ledger = Ledger()
    ledger.note(told(at=100.0))
    ledger.note(told(at=100.0 + CLOSING - 1, closes=True))
    assert ledger.resets(B70) == 1
    ledger.note(told(at=100.0 + CLOSING - 1))
    assert ledger.resets(B70) == 2


def test_a_card_that_was_brought_back_is_forgiven_at_once_and_may_be_given_up_again() -> None:
    ledger = Ledger()
    for kind, at in ((Kind.WEDGED, 100.0), (Kind.RECOVERY, 100.5)):
        ledger.note(told(kind, at))
    assert [one.kind for one in ledger.of(B70)] == [Kind.WEDGED, Kind.RECOVERY]
    assert fatal(ledger.of(B70), 0.0) is None
    ledger.note(told(Kind.GONE, 101.0))
    last = fatal(ledger.of(B70), 0.0)
    assert last is not None
    assert (last.kind, last.at) == (Kind.GONE, 101.0)
    assert fatal(ledger.of(B70), 101.5) is None, "before the backend was launched"


def test_one_card_brought_back_says_nothing_of_another() -> None:
    wedged = told(Kind.WEDGED, 100.0, OTHER)
    assert fatal((wedged, told(Kind.RECOVERY, 101.0, B70)), 0.0) == wedged


def test_the_line_that_names_engine_and_process_lends_them_to_the_gravest() -> None:
    job = Incident(1.0, B70, Kind.JOB_TIMEOUT, "job", Source.KERNEL_LOG, "xe", "ccs", 7, "python")
    both = joined(job, Incident(1.5, B70, Kind.WEDGED, "wedged", Source.UEVENT))
    assert both is not None
    assert (both.kind, both.text, both.source) == (Kind.WEDGED, "wedged", Source.UEVENT)
    assert (both.driver, both.engine, both.pid, both.command, both.at) == ("xe", "ccs", 7, "python", 1.0)
    assert str(both) == f"card {B70}: the driver has given the card up (engine ccs, python [7])"
    assert str(told(card=None)).startswith("a card that the line does not name: the driver reset")


def test_lines_that_name_no_card_are_no_cards() -> None:
    ledger = Ledger()
    ledger.note(told(card=None))
    assert (ledger.of(B70), ledger.resets(B70), len(ledger.of(None))) == ((), 0, 1)


def test_a_flood_takes_no_more_than_so_much_memory() -> None:
    ledger = Ledger()
    for number in range(1000):
        ledger.note(told(at=number * 10.0))
    for number in range(500):
        ledger.note(told(card=f"0000:{number // 256:02x}:{number % 256:02x}.0"))
    assert (len(ledger.of(B70)), ledger.resets(B70)) == (KEPT, 1000)
    kept = [number for number in range(500) if ledger.of(f"0000:{number // 256:02x}:{number % 256:02x}.0")]
    assert len(kept) < MOST_CARDS


def test_a_card_that_was_given_up_stays_so_however_much_befalls_it_afterwards() -> None:
    ledger = Ledger()
    ledger.note(told(Kind.WEDGED, 0.0))
    for number in range(1, 3 * KEPT):
        ledger.note(told(Kind.JOB_TIMEOUT, number * 10.0))
    still = fatal(ledger.of(B70), 0.0)
    assert (still is not None and still.kind, len(ledger.of(B70))) == (Kind.WEDGED, KEPT + 1)
    ledger.note(told(Kind.RECOVERY, 5000.0))
    assert fatal(ledger.of(B70), 0.0) is None
    for number in range(3 * KEPT):
        ledger.note(told(Kind.JOB_TIMEOUT, 6000.0 + number * 10.0))
    assert (fatal(ledger.of(B70), 0.0), len(ledger.of(B70))) == (None, KEPT)


def test_news_are_told_once_and_once_more_where_they_are_graver() -> None:
    ledger, news = Ledger(), News()

    def note(incident: Incident) -> bool:
        noted = ledger.note(incident)
        return noted is not None and news.note(noted)

    assert note(told(Kind.JOB_TIMEOUT, 100.0))
    assert note(told(Kind.RESET, 100.1)), "it was not told yet, and is graver now"
    assert [one.kind for one in news.take()] == [Kind.RESET]
    assert not note(told(Kind.RESET, 100.2))
    assert not note(told(Kind.COREDUMP, 100.2))
    assert note(told(Kind.WEDGED, 101.0))
    assert [(one.kind, one.at) for one in news.take()] == [(Kind.WEDGED, 100.0)]
    assert not note(told(Kind.WEDGED, 200.0, past=True))
    assert news.take() == ()


def test_what_was_past_and_goes_on_is_told() -> None:
    ledger, news = Ledger(), News()
    for incident in (told(Kind.JOB_TIMEOUT, 100.0, past=True), told(Kind.RESET, 101.0)):
        noted = ledger.note(incident)
        assert noted is not None
        news.note(noted)
    assert [(one.kind, one.past) for one in news.take()] == [(Kind.RESET, False)]


words = st.builds(
    told, st.sampled_from(Kind), st.floats(0, 400), st.sampled_from([B70, OTHER, None]), closes=st.booleans()
)


@given(st.lists(words, max_size=60))
def test_nothing_is_lost_and_nothing_is_counted_twice(said: list[Incident]) -> None:
    ledger, news, heard = Ledger(), News(), list[Incident]()
    for incident in said:
        noted = ledger.note(incident)
        assert noted is not None
        news.note(noted)
        assert not graver(incident, noted.incident), "the gravest word stands"
        heard += news.take()
    for card in (B70, OTHER, None):
        own = [one for one in said if one.card == card]
        assert ledger.resets(card or "") <= sum(one.reset for one in own)
        assert (len(ledger.of(card)) > 0) == (len(own) > 0)
    graves = [one for one in said if one.kind in FATAL]
    assert {one.card for one in graves} <= {one.card for one in heard if one.kind in FATAL}
