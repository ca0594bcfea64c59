"""Everything asked of one server that serves, with a witness beside, and held against the last qualified record."""

import asyncio
from dataclasses import dataclass
from typing import Final

from arcops.bench.drive import Progress
from arcops.bench.server import BenchServer
from arcops.config.paths import Paths
from arcops.core.evidence.identity import (
    Divergence,
    Identity,
    Margin,
    StageIdentity,
    asked_otherwise,
    compare,
    open_questions,
    same_questions,
    with_margins,
)
from arcops.core.evidence.run import Run
from arcops.core.evidence.setting import Setting
from arcops.evidence import shelf
from arcops.evidence.qualify.ask import ask, suite_items
from arcops.evidence.qualify.daemon import mark
from arcops.evidence.qualify.seen import Course, Mark, Seen, Wanted
from arcops.evidence.qualify.wanted import Asked
from arcops.evidence.shelf import Stored
from arcops.evidence.soak import memory_of
from arcops.evidence.target import Target
from arcops.evidence.witness import Witness

NOTHING_YET: Final = "nothing to compare with: this profile has no qualified record yet"
_PARSER: Final = "--tool-call-parser"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is asked, of whom."""

    asked: Asked
    wanted: Wanted
    target: Target
    profile: str
    """As the record names it."""
    argv: tuple[str, ...] = ()
    """Of its launch, where the witness knows none."""
    cards: tuple[str, ...] | None = None
    """PCI addresses by its profile; None: only the witness may know."""
    begun: Mark | None = None
    """What the daemon ran, and by whose order, when it came up; None where the server is not the daemon's."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The suite's answers beside those of the last qualified record."""

    identity: Identity | None = None
    otherwise: tuple[str, ...] = ()
    """Questions that were asked otherwise then."""
    nothing: str = ""
    """Why there is none."""

    @property
    def stage(self) -> StageIdentity | None:
        return self.identity.stages[0] if self.identity is not None and self.identity.stages else None


@dataclass(frozen=True, slots=True)
class Found:
    """What came of it."""

    seen: Seen
    setting: Setting
    cards: tuple[str, ...] | None
    course: Course | None
    beside: Beside


async def hold(facts: Facts, paths: Paths, tell: Progress) -> Found:
    """Ask it all. Raises ArcopsError where nobody answers, the key is refused, or it is not clear which model is meant;
    what the server does wrong after that is in what comes back."""
    target = facts.target
    async with BenchServer(target.url, model=facts.asked.model, api_key=target.api_key) as server:
        told = await server.open()
        tell(f"asking {told.model} at {told.url}")
        server.begin()
        memory = await asyncio.to_thread(memory_of, told.url)
        async with Witness(told, target.socket, server.now) as witness:
            known = witness.known
            watched = target.socket if known.by_daemon or facts.begun is not None else None
            begun = facts.begun
            if begun is None and watched is not None:
                begun = await asyncio.to_thread(mark, watched)
            argv = known.configuration.argv or facts.argv
            parses = not argv or _PARSER in {word.partition("=")[0] for word in argv}
            seen = await ask(server, facts.wanted, tell, parses_tools=parses, memory=memory)
            course = None if watched is None else Course(begun, await asyncio.to_thread(mark, watched))
        oracle = await asyncio.to_thread(shelf.latest_qualified, paths.records, facts.profile)
        beside = await _beside(server, seen.run, oracle, tell)
    return Found(seen, witness.setting(), _cards(facts.cards, known.cards), course, beside)


def _cards(of_profile: tuple[str, ...] | None, of_witness: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """All that either knows of: a card that only one of them names has to be looked at as well."""
    if of_profile is None or of_witness is None:
        return of_witness if of_profile is None else of_profile
    return tuple(dict.fromkeys((*of_profile, *of_witness)))


async def _beside(server: BenchServer, run: Run, oracle: Stored | None, tell: Progress) -> Beside:
    if oracle is None or oracle.record.run is None:
        return Beside(nothing=NOTHING_YET)
    answers = same_questions(oracle.record.run, run)
    stages = compare(run, answers)
    stages = with_margins(stages, await _margins(server, stages, answers, tell))
    return Beside(Identity(oracle.digest, stages), asked_otherwise(oracle.record.run, run))


async def _margins(
    server: BenchServer, stages: tuple[StageIdentity, ...], answers: dict[str, tuple[int, ...]], tell: Progress
) -> dict[Divergence, Margin]:
    prompts = {item.name: item.prompt for item in suite_items()}
    found: dict[Divergence, Margin] = {}
    for one in open_questions(stages):
        if one.oracle_token is not None and one.token is not None:
            tell(f"asking for the margin of {one.item} at token {one.position}")
            shared = answers[one.item][: one.position]
            found[one] = await server.margin(prompts[one.item], shared, one.oracle_token, one.token)
    return found
