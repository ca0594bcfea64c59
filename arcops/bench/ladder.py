"""`ladder`: more and more users at once, in passes: the first cold, the later ones warm.

A server that does not speculate is its own oracle: what each prompt gets when it is asked alone comes first, and cold.
The passes have another salt for the server's prefix cache, so the first of them is cold all the same, and its blocks
are not those of the oracle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

from arcops.bench import course
from arcops.bench.content.cut import LEAST, Content
from arcops.bench.content.texts import KINDS
from arcops.bench.course import Planned, Ready
from arcops.bench.drive import Progress
from arcops.bench.server import BenchServer
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.run import Run
from arcops.core.evidence.work import Item, workload

NAME: Final = "ladder"
RUNGS: Final = (1, 2, 4, 8, 16, 32, 64)
MOST_USERS: Final = 128
LEAST_PASSES: Final = 2
"""A cold one and a warm one."""
SEQUENTIAL: Final = "sequential"
"""The stage in which a run makes its own oracle."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may choose."""

    rungs: tuple[int, ...] = RUNGS
    """Users at once."""
    passes: int = LEAST_PASSES
    output: int = 128
    """Tokens of each answer."""
    tokens: int = 96
    """Of each prompt: small contexts, so that decoding is what is measured."""
    requests: int = 1
    """Of each user, one after the other."""
    sequential: bool = True
    """Make an own oracle where the server does not speculate."""
    salt: str = ""
    keep_going: bool = False


def options_of(words: Mapping[str, str], *, keep_going: bool = False, sequential: bool = True) -> Options:
    """What was chosen, by the options' names; what is not there is as ever. Raises ArcopsError (usage)."""
    return Options(
        rungs=course.wholes(words, "rungs") or RUNGS,
        passes=course.whole(words, "passes", LEAST_PASSES),
        output=course.whole(words, "output", 128),
        tokens=course.whole(words, "tokens", 96),
        requests=course.whole(words, "requests", 1),
        sequential=sequential,
        salt=words.get("salt", ""),
        keep_going=keep_going,
    )


async def measure(server: BenchServer, options: Options, tell: Progress, *, ready: Ready = course.nothing) -> Run:
    """A warm-up, the own oracle, then pass after pass over all rungs; each rung has prompts of its own.

    Raises ArcopsError for what cannot be asked at all; what fails on the way is in the run.
    """
    rungs = _checked(options)
    course.check_fits(server.facts, options.tokens, options.output, f"a prompt of {options.tokens} tokens")
    tell(f"cutting {sum(rungs) * options.requests + 1:,} prompts of {options.tokens} tokens")
    prompts = _Prompts(Content(server.tokenize, options.salt), options)
    warm_up = await prompts.next("warm-up")
    by_rung: dict[int, tuple[Item, ...]] = {}
    for users in rungs:
        by_rung[users] = tuple([await prompts.next(f"c{users}-{n}") for n in range(users * options.requests)])
    everything = tuple(item for items in by_rung.values() for item in items)
    salt = course.new_salt()
    planned = [Planned("warm-up", 0, (course.salted([warm_up], salt),))]
    if options.sequential and server.facts.speculates is False:
        planned.append(Planned(SEQUENTIAL, 0, (course.salted(everything, course.new_salt()),), depth=options.tokens))
    for number in range(1, options.passes + 1):
        for users, items in by_rung.items():
            shared = _shared_out(course.salted(items, salt), users)
            planned.append(Planned(f"c{users}", number, shared, depth=options.tokens, warm=number > 1))
    items = (warm_up, *everything)
    work = workload(NAME, _words(options, rungs), items)
    return await course.run(server, work, items, planned, tell, ready=ready, keep_going=options.keep_going)


class _Prompts:
    """Items of one size, of each kind of content in turn."""

    def __init__(self, content: Content, options: Options) -> None:
        self._content = content
        self._options = options
        self._kinds = cycle(KINDS)

    async def next(self, name: str) -> Item:
        kind = next(self._kinds)
        prompt = await self._content.cut(kind, name, self._options.tokens)
        return Item(name, kind.value, prompt, self._options.output, to_the_end=True)


def _checked(options: Options) -> tuple[int, ...]:
    """The rungs in rising order. Raises ArcopsError (usage)."""
    rungs = tuple(sorted(set(options.rungs)))
    if not rungs or rungs[0] < 1 or rungs[-1] > MOST_USERS:
        problem = f"rungs are numbers of users from 1 to {MOST_USERS}"
        raise ArcopsError(problem, hint="--rungs 1,2,4,8", exit_code=ExitCode.USAGE)
    course.check_least(options.passes, LEAST_PASSES, "passes")
    course.check_least(options.output, 1, "output")
    course.check_least(options.requests, 1, "requests")
    course.check_least(options.tokens, LEAST, "tokens")
    return rungs


def _shared_out(items: Sequence[Item], users: int) -> tuple[tuple[Item, ...], ...]:
    """As many for each user."""
    each = len(items) // users
    rest = iter(items)
    return tuple(tuple(islice(rest, each)) for _ in range(users))


def _words(options: Options, rungs: Sequence[int]) -> dict[str, str]:
    return {
        "rungs": ",".join(str(users) for users in rungs),
        "passes": str(options.passes),
        "output": str(options.output),
        "tokens": str(options.tokens),
        "requests": str(options.requests),
        "salt": options.salt,
    }
