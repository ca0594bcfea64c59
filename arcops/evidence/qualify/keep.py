"""Verdicts and facts as one record."""

import asyncio
import time
from dataclasses import dataclass, replace

from arcops import __version__
from arcops.core.evidence.environment import Environment, digest_of
from arcops.core.evidence.judge import judge
from arcops.core.evidence.qualification import UNKNOWN_ENVIRONMENT, Gate, Qualification
from arcops.core.evidence.run import Counters, Run
from arcops.evidence import shelf
from arcops.evidence.qualify import gates
from arcops.evidence.qualify.hold import Facts, Found
from arcops.evidence.qualify.seen import Seen, not_asked
from arcops.evidence.qualify.wanted import Asked
from arcops.evidence.record import FORMAT, Record
from arcops.evidence.setting import concealed
from arcops.evidence.shelf import Stored


@dataclass(frozen=True, slots=True)
class Started:
    """How it came to be asked."""

    gate: Gate
    environment: Environment | None
    began: float
    """Seconds since the epoch."""


async def kept(facts: Facts, found: Found, started: Started) -> Stored:
    """All gates, and the record of them. Raises ArcopsError where it cannot be written."""
    environment = started.environment
    digest = digest_in(environment)
    known = None if environment is None else digest
    configuration = replace(found.setting.configuration, environment_digest=known)
    found = replace(found, setting=replace(found.setting, configuration=configuration))
    unjudged = _record(facts.asked, started, Qualification(facts.profile, digest, ()), found)
    given = Qualification(facts.profile, digest, (started.gate, *_gates(facts, found, unjudged)))
    record = _record(facts.asked, started, given, found)
    return await asyncio.to_thread(shelf.write, facts.asked.place, record)


async def kept_failure(asked: Asked, started: Started) -> Stored:
    """The record of one that could not be asked. Raises ArcopsError where it cannot be written."""
    given = Qualification(asked.profile, digest_in(started.environment), not_asked(started.gate))
    return await asyncio.to_thread(shelf.write, asked.place, _record(asked, started, given, None))


def digest_in(environment: Environment | None) -> str:
    return UNKNOWN_ENVIRONMENT if environment is None else digest_of(environment)


def _gates(facts: Facts, found: Found, record: Record) -> tuple[Gate, ...]:
    seen, setting, wanted = found.seen, found.setting, facts.wanted
    beside = found.beside
    return (
        gates.chat(wanted.question, seen.chat),
        gates.tools(seen.tools, named=seen.named),
        gates.long_request(seen.long),
        gates.identity(
            beside.stage,
            _unanswered(seen.run),
            nothing=beside.nothing,
            otherwise=len(beside.otherwise),
            accepted=wanted.accepted,
        ),
        gates.image(seen.image),
        gates.soak(seen.soak, setting),
        gates.memory(setting, found.cards, wanted.headroom),
        gates.undisturbed(judge(record), counted(seen), found.course),
    )


def counted(seen: Seen) -> tuple[Counters, ...]:
    """What the server had counted, from before the first question to after the last."""
    between = (counters for stage in seen.run.stages for counters in (stage.before, stage.after))
    return (seen.first, *between, seen.last)


def _unanswered(run: Run) -> int:
    return sum(bool(one.problem) or one.ended is None for stage in run.stages for one in stage.requests)


def _record(asked: Asked, started: Started, given: Qualification, found: Found | None) -> Record:
    return Record(
        arcops_record=FORMAT,
        kind="qualification",
        arcops=__version__,
        began=started.began,
        ended=max(started.began, time.time()),
        command=concealed(asked.command),
        note=asked.note,
        run=None if found is None else found.seen.run,
        setting=None if found is None else found.setting,
        identity=None if found is None else found.beside.identity,
        soak=None if found is None else found.seen.soak,
        environment=started.environment,
        qualification=given,
    )
