"""`suite`: twelve fixed questions of six classes, one after the other, over fresh servers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from arcops.bench import course
from arcops.bench.content.suite import QUESTIONS
from arcops.bench.course import Fresh, Planned, Ready
from arcops.bench.drive import Heard, Progress
from arcops.bench.server import BenchServer
from arcops.core.errors import ArcopsError
from arcops.core.evidence.run import Canary, Run, Stage
from arcops.core.evidence.work import Item, workload

NAME: Final = "suite"


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may choose."""

    output: int = 512
    """The most tokens of an answer."""
    servers: int = 2
    """Fresh ones, each of which is asked everything."""
    keep_going: bool = False


def options_of(words: Mapping[str, str], *, keep_going: bool = False) -> Options:
    """What was chosen, by the options' names; what is not there is as ever. Raises ArcopsError (usage)."""
    return Options(
        output=course.whole(words, "output", 512), servers=course.whole(words, "servers", 2), keep_going=keep_going
    )


async def measure(
    server: BenchServer,
    options: Options,
    tell: Progress,
    *,
    ready: Ready = course.nothing,
    fresh: Fresh | None = None,
) -> Run:
    """All questions to each server, with canaries before and after on each.

    `fresh` brings up each of them; without it there is the one that is there, whatever `options.servers` says. Raises
    ArcopsError for what cannot be asked at all, or a server that does not come up; what fails on the way is in the run.
    """
    course.check_least(options.output, 1, "output")
    course.check_least(options.servers, 1, "servers")
    salt = course.new_salt()
    items = tuple(
        Item(f"{kind}-{number}", kind, prompt, options.output, cache_salt=salt) for kind, number, prompt in QUESTIONS
    )
    await _check_room(server, items)
    servers = 1 if fresh is None else options.servers
    if servers < options.servers:
        tell("without a daemon nobody can bring up fresh servers: the one that is there is asked alone")
    work = workload(NAME, {"output": str(options.output), "servers": str(servers)}, items)
    ready(work, items)
    heard = Heard()
    stages: list[Stage] = []
    questions: list[Canary] = []
    for number in range(1, servers + 1):
        if fresh is not None:
            await fresh(number)
        questions += await course.canaries(server, heard, "before", tell)
        planned = Planned(f"server-{number}", 1, (items,), warm=False)
        stages.append(await course.ask(server, heard, planned, tell, place=f"{number}/{servers}"))
        questions += await course.canaries(server, heard, "after", tell)
        if course.failed(stages[-1]) and not options.keep_going:
            tell("a request failed: what is left is not asked (--keep-going asks it all the same)")
            break
    return Run(work, tuple(stages), dict(heard.answers), tuple(questions))


async def _check_room(server: BenchServer, items: tuple[Item, ...]) -> None:
    """Raises ArcopsError (usage) where a question and its answer do not fit, as far as the server counts tokens."""
    if server.facts.max_model_len is None:
        return
    for item in items:
        try:
            tokens = len(await server.tokenize(item.prompt)) if isinstance(item.prompt, str) else len(item.prompt)
        except ArcopsError:
            return
        course.check_fits(server.facts, tokens, item.max_tokens, f"the question {item.name}")
