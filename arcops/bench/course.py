"""What the four benchmarks have in common: what is planned is told, asked stage after stage, and framed by canaries."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from arcops.bench import drive
from arcops.bench.drive import Heard, Progress
from arcops.bench.server import BenchServer
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.figures import StageFigures, of_stage
from arcops.core.evidence.run import Canary, Run, Stage
from arcops.core.evidence.setting import ServerFacts
from arcops.core.evidence.work import Item, Workload

Ready = Callable[[Workload, Sequence[Item]], None]
"""Called with what will be asked before it is; it may raise."""
Fresh = Callable[[int], Awaitable[None]]
"""Brings up a fresh server at the same place, the n-th from 1, and returns when it serves."""

_MOST_SAID: Final = 160
"""Characters of a request's problem in a line of progress."""
_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class Planned:
    """A stage that will be asked."""

    name: str
    pass_number: int
    users: tuple[tuple[Item, ...], ...]
    depth: int | None = None
    warm: bool | None = None


def nothing(workload: Workload, items: Sequence[Item]) -> None:
    """Nobody wants to know the workload beforehand."""


async def run(
    server: BenchServer,
    workload: Workload,
    items: Sequence[Item],
    planned: Sequence[Planned],
    tell: Progress,
    *,
    ready: Ready = nothing,
    keep_going: bool = False,
) -> Run:
    """Canaries, each stage in turn, canaries again. A stage with a failed request is the last, unless `keep_going`."""
    ready(workload, items)
    heard = Heard()
    before = await canaries(server, heard, "before", tell)
    stages: list[Stage] = []
    for number, one in enumerate(planned, 1):
        stages.append(await ask(server, heard, one, tell, place=f"{number}/{len(planned)}"))
        if failed(stages[-1]) and not keep_going:
            tell("a request failed: what is left is not asked (--keep-going asks it all the same)")
            break
    after = await canaries(server, heard, "after", tell)
    return Run(workload, tuple(stages), dict(heard.answers), (*before, *after))


async def canaries(server: BenchServer, heard: Heard, when: str, tell: Progress) -> tuple[Canary, ...]:
    """The questions whose answers have to be the same before and after; `when` is one of the two."""
    found = await drive.canaries(server, heard, "before" if when == "before" else "after")
    answered = sum(one.answer is not None for one in found)
    tell(f"canaries {when} the run: {answered} of {len(found)} answered")
    return found


async def ask(server: BenchServer, heard: Heard, planned: Planned, tell: Progress, place: str) -> Stage:
    """One stage, and a line about it before and after."""
    tell(f"[{place}] {_title(planned)}: {_amount(planned)}")
    stage = await drive.stage(
        server,
        heard,
        name=planned.name,
        pass_number=planned.pass_number,
        users=planned.users,
        depth=planned.depth,
        warm=planned.warm,
    )
    tell(f"[{place}] {_title(planned)}: {_outcome(stage)}")
    return stage


def failed(stage: Stage) -> bool:
    """A request of it has no complete answer."""
    return any(one.problem or one.ended is None for one in stage.requests)


def salted(items: Iterable[Item], salt: str) -> tuple[Item, ...]:
    """The same items, answered by the server's prefix cache only where they were asked with the same salt before."""
    return tuple(replace(item, cache_salt=salt) for item in items)


def new_salt() -> str:
    """One that no server has seen: what is asked with it is cold."""
    return secrets.token_hex(16)


def check_fits(facts: ServerFacts, tokens: int, output: int, what: str) -> None:
    """Prompt and answer within the server's longest context. Raises ArcopsError (usage); an unknown length passes."""
    longest = facts.max_model_len
    if longest is not None and tokens + output > longest:
        raise ArcopsError(
            f"{what} does not fit: {tokens:,} and {output:,} tokens of answer are more than max_model_len {longest:,}",
            hint=f"the longest prompt with such an answer has {max(0, longest - output):,} tokens",
            exit_code=ExitCode.USAGE,
        )


def check_least(number: int, least: int, name: str) -> None:
    """Raises ArcopsError (usage) for an option with too small a number."""
    if number < least:
        raise ArcopsError(f"--{name} is {number}, and {least} is the least", exit_code=ExitCode.USAGE)


def whole(words: Mapping[str, str], name: str, default: int) -> int:
    """A number among the chosen options. Raises ArcopsError (usage) for a word that is none."""
    word = words.get(name)
    return default if word is None else _number(word, name)


def wholes(words: Mapping[str, str], name: str) -> tuple[int, ...] | None:
    """Numbers with commas between them; None where nothing was chosen. Raises ArcopsError (usage)."""
    word = words.get(name)
    return None if word is None else tuple(_number(part, name) for part in word.split(","))


def _number(word: str, name: str) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > _DIGITS:
        raise ArcopsError(f"--{name}: {word!r} is no whole number", exit_code=ExitCode.USAGE)
    return int(word)


def _title(planned: Planned) -> str:
    return planned.name if planned.pass_number == 0 else f"{planned.name}, pass {planned.pass_number}"


def _amount(planned: Planned) -> str:
    items = [item for user in planned.users for item in user]
    output = max((item.max_tokens for item in items), default=0)
    users = len(planned.users)
    who = "one after the other" if users == 1 else f"by {users} users at once"
    plural = "" if len(items) == 1 else "s"
    return f"{len(items)} request{plural} {who}, up to {output:,} tokens each"


def _outcome(stage: Stage) -> str:
    found = of_stage(stage)
    answered = found.requests - found.failed
    parts = [f"{answered} of {found.requests} answered", *_figures(found)]
    problem = next((one.problem for one in stage.requests if one.problem), "")
    return ", ".join(parts) + (f"; first failure: {problem[:_MOST_SAID]}" if problem else "")


def _figures(found: StageFigures) -> list[str]:
    figures = (
        ("{:.1f} s", found.wall),
        ("TTFT {:.2f} s", None if found.ttft is None else found.ttft.p50),
        ("decode {:,.1f} tok/s a user", None if found.decode is None else found.decode.median),
        ("{:,.1f} tok/s in all", found.throughput if found.requests > 1 else None),
    )
    return [words.format(value) for words, value in figures if value is not None]
