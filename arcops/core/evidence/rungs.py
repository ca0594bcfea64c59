"""Which rungs may be called exact: each rung's identity over all runs of one configuration, by the two-run rule.

A rung is qualified where it was exact in at least two passes of each of two runs, on different starts of the server.
One that is not is shown with its figures, and never averaged in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from arcops.core.evidence.comparable import comparable, differences
from arcops.core.evidence.identity import Divergence, StageIdentity
from arcops.core.evidence.judge import judge, spoils_stage
from arcops.core.evidence.measured import Measured
from arcops.core.evidence.run import Stage

PASSES: Final = 2
"""Of a run, in which a rung has to be exact."""
RUNS: Final = 2
_SUITE: Final = "suite"


class Standing(Enum):
    """What a rung's identity comes to."""

    QUALIFIED = "qualified"
    EXACT = "exact, awaits a second run"
    NOT_EXACT = "not exact: measured but not qualified"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Passed:
    """A rung in one pass of one run."""

    run: int
    """Which of the records, from 0."""
    stage: Stage
    identity: StageIdentity | None
    """None where it was not compared."""
    spoiled: str
    """Why it counts for nothing, in words; empty where it counts."""

    @property
    def share(self) -> str:
        """`64/64`, `63/64`, `unknown`; `sampled` where nothing greedy was asked."""
        found = self.identity
        if found is not None and found.asked == 0:
            return "sampled"
        if found is None or (found.unknown and not found.divergences):
            return "unknown"
        return f"{found.exact}/{found.asked}"


@dataclass(frozen=True, slots=True)
class Rung:
    """One condition over all passes of all runs."""

    name: str
    standing: Standing
    words: str
    """Why, in one sentence with its figures."""
    passes: tuple[Passed, ...]


def rungs_of(records: Sequence[Measured]) -> tuple[Rung, ...]:
    """The rungs of one run, or of several of one configuration; those that do not compare with the first count nothing.

    In the order of the first run's stages.
    """
    found: dict[str, list[Passed]] = {}
    for number, record in enumerate(records):
        apart = "" if number == 0 else _apart(records[0], record)
        for passed in _passes(number, record, apart):
            found.setdefault(_rung_of(record.kind, passed.stage), []).append(passed)
    reason = next((record.identity.not_compared for record in records if record.identity is not None), "")
    return tuple(_rung(name, tuple(passes), reason) for name, passes in found.items())


def first_divergence(passes: Iterable[Passed]) -> Divergence | None:
    """The earliest in its answer: where answers part soonest."""
    places = (one for passed in passes if passed.identity is not None for one in passed.identity.divergences)
    return min(places, key=lambda one: one.position, default=None)


def words_of(divergence: Divergence) -> str:
    """`c64-17 at token 41: 318 in place of 262, by 0.0121 nats`."""
    said = ["the end" if token is None else str(token) for token in (divergence.token, divergence.oracle_token)]
    place = f"{divergence.item} at token {divergence.position}: {said[0]} in place of {said[1]}"
    margin = divergence.margin
    if margin is None:
        return place
    if margin.nats is None:
        return f"{place}, by an unknown margin{f': {margin.unknown}' if margin.unknown else ''}"
    return f"{place}, by {margin.nats:.4f} nats"


def _apart(first: Measured, other: Measured) -> str:
    found = differences(first, other)
    return "" if comparable(found) else f"another configuration than the first run's: {found[0].words}"


def _passes(number: int, record: Measured, apart: str) -> list[Passed]:
    if record.run is None:
        return []
    judgements = judge(record)
    stages = () if record.identity is None else record.identity.stages
    identities = {(one.stage, one.pass_number): one for one in stages}
    return [
        Passed(number, stage, identities.get((stage.name, stage.pass_number)), apart or spoils_stage(judgements, stage))
        for stage in record.run.stages
        if stage.pass_number > 0
    ]


def _rung_of(kind: str, stage: Stage) -> str:
    """The suite's servers are the passes of one rung."""
    return _SUITE if kind == _SUITE else stage.name


def _rung(name: str, passes: tuple[Passed, ...], not_compared: str) -> Rung:
    counted = tuple(one for one in passes if not one.spoiled)
    if not counted:
        return _all_spoiled(name, passes)
    if all(one.identity is not None and one.identity.asked == 0 for one in counted):
        return Rung(name, Standing.UNKNOWN, "sampled: its answers may differ by right", passes)
    astray = tuple(one for one in counted if one.identity is not None and one.identity.divergences)
    if astray:
        place = first_divergence(astray)
        first = "" if place is None else f", first {words_of(place)}"
        return Rung(name, Standing.NOT_EXACT, f"{_shares(counted)}{first}", passes)
    if any(one.identity is None or not one.identity.is_exact for one in counted):
        return Rung(name, Standing.UNKNOWN, not_compared or f"{_shares(counted)}: not all answers are known", passes)
    return _exact(name, counted, passes)


def _all_spoiled(name: str, passes: tuple[Passed, ...]) -> Rung:
    """Nothing of it can make it exact; but what differs, differs."""
    why = f"every pass is spoiled: {passes[0].spoiled}"
    place = first_divergence(passes)
    if place is None:
        return Rung(name, Standing.UNKNOWN, why, passes)
    return Rung(name, Standing.NOT_EXACT, f"{_shares(passes)}, first {words_of(place)}; {why}", passes)


def _exact(name: str, counted: tuple[Passed, ...], passes: tuple[Passed, ...]) -> Rung:
    """All that counts is exact: is it enough?"""
    of_runs = {number: [one for one in counted if one.run == number] for number in {one.run for one in counted}}
    enough = [found for found in of_runs.values() if len(found) >= PASSES]
    starts = {started for found in enough if (started := found[0].stage.before.server_started) is not None}
    if len(enough) >= RUNS and len(starts) >= RUNS:
        words = f"{_shares(counted)}, in {PASSES} passes or more of each of {len(enough)} runs"
        return Rung(name, Standing.QUALIFIED, words, passes)
    if not enough:
        why = f"the rule wants {PASSES} passes of a run"
    elif len(enough) < RUNS:
        why = "the rule wants a second run"
    else:
        why = "the runs are not known to be on different starts of the server"
    return Rung(name, Standing.EXACT, f"{_shares(counted)}; {why}", passes)


def _shares(passes: Sequence[Passed]) -> str:
    return ", ".join(one.share for one in passes)
