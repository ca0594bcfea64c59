"""`context`: decoding over exact active depths of real content, three requests a depth. Nothing is interpolated."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from arcops.bench import course
from arcops.bench.content.cut import LEAST, Content
from arcops.bench.content.texts import KINDS
from arcops.bench.course import Planned, Ready
from arcops.bench.drive import Progress
from arcops.bench.server import BenchServer
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.run import Run
from arcops.core.evidence.setting import ServerFacts
from arcops.core.evidence.work import Item, workload

NAME: Final = "context"
DEPTHS: Final = (2048, 4096, 8192, 16_384, 24_576, 32_768)
"""Tokens in the cache when decoding begins."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may choose."""

    depths: tuple[int, ...] | None = None
    """None: those of DEPTHS that fit."""
    output: int = 128
    """Tokens of each answer."""
    salt: str = ""
    keep_going: bool = False


def options_of(words: Mapping[str, str], *, keep_going: bool = False) -> Options:
    """What was chosen, by the options' names; what is not there is as ever. Raises ArcopsError (usage)."""
    return Options(
        depths=course.wholes(words, "depths"),
        output=course.whole(words, "output", 128),
        salt=words.get("salt", ""),
        keep_going=keep_going,
    )


async def measure(server: BenchServer, options: Options, tell: Progress, *, ready: Ready = course.nothing) -> Run:
    """One request of each kind of content at each depth, one after the other.

    Raises ArcopsError for what cannot be asked at all; what fails on the way is in the run.
    """
    course.check_least(options.output, 1, "output")
    depths = _depths(server.facts, options, tell)
    tell(f"cutting {len(KINDS) * len(depths)} prompts, {len(KINDS) * sum(depths):,} tokens in all")
    content = Content(server.tokenize, options.salt)
    salt = course.new_salt()
    planned: list[Planned] = []
    items: list[Item] = []
    for depth in depths:
        here: list[Item] = []
        for kind in KINDS:
            name = f"{depth}-{kind.value}"
            prompt = await content.cut(kind, name, depth)
            here.append(Item(name, kind.value, prompt, options.output, to_the_end=True, cache_salt=salt))
        planned.append(Planned(str(depth), 1, (tuple(here),), depth=depth, warm=False))
        items += here
    chosen = {"depths": ",".join(str(depth) for depth in depths), "output": str(options.output), "salt": options.salt}
    work = workload(NAME, chosen, tuple(items))
    return await course.run(server, work, items, planned, tell, ready=ready, keep_going=options.keep_going)


def _depths(facts: ServerFacts, options: Options, tell: Progress) -> tuple[int, ...]:
    """In rising order. Raises ArcopsError (usage) for one that was asked for and does not fit."""
    if options.depths is not None:
        depths = tuple(sorted(set(options.depths)))
        if not depths:
            raise ArcopsError("no depth was given", hint="--depths 2K,4K", exit_code=ExitCode.USAGE)
        course.check_least(depths[0], LEAST, "depths")
        for depth in depths:
            course.check_fits(facts, depth, options.output, f"the depth {depth:,}")
        return depths
    longest = facts.max_model_len
    fitting = tuple(depth for depth in DEPTHS if longest is None or depth + options.output <= longest)
    if not fitting:
        course.check_fits(facts, DEPTHS[0], options.output, f"even the depth {DEPTHS[0]:,}")
    left_out = ", ".join(f"{depth:,}" for depth in DEPTHS[len(fitting) :])
    if left_out:
        tell(f"left out, since max_model_len is {longest:,}: the depths {left_out}")
    return fitting
