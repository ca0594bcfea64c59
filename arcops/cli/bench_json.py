"""A record's figures and verdicts as JSON, for programs that do not want to reckon them themselves."""

from collections.abc import Sequence
from typing import cast

import msgspec

from arcops.core.evidence.balanced import center, kinds_of
from arcops.core.evidence.figures import of_stage
from arcops.core.evidence.judge import Judgement, judge, spoils_stage
from arcops.core.evidence.qualification import Gate, Verdict
from arcops.core.evidence.rungs import Rung, rungs_of
from arcops.core.evidence.soaked import gates
from arcops.evidence.record import Record
from arcops.evidence.shelf import Stored


def shown(stored: Stored, followed: tuple[Verdict, str]) -> dict[str, object]:
    """What `arcops bench show` tells; the raw facts are in the file itself. `followed` is by `evidence.oracle`."""
    record = stored.record
    judgements = judge(record)
    return {
        "path": str(stored.path),
        "digest": stored.digest,
        "kind": record.kind,
        "began": record.began,
        "ended": record.ended,
        "note": record.note,
        "stages": _stages(stored, judgements),
        "center": _center(stored),
        "judgements": [plain(one) for one in judgements],
        "identity": None if record.identity is None else plain(record.identity),
        "oracle": {"verdict": followed[0].value, "words": followed[1]},
        "rungs": rungs(rungs_of([record])),
        "qualified": None if record.qualification is None else record.qualification.qualified,
        "gates": [plain(one) for one in _gates(record)],
    }


def rungs(found: Sequence[Rung]) -> list[object]:
    """What each rung's identity comes to."""
    return [
        {
            "name": rung.name,
            "standing": rung.standing.value,
            "words": rung.words,
            "passes": [
                {"run": one.run, "pass_number": one.stage.pass_number, "share": one.share, "spoiled": one.spoiled}
                for one in rung.passes
            ],
        }
        for rung in found
    ]


def plain(value: object) -> object:
    """Frozen data as what JSON holds."""
    return cast("object", msgspec.to_builtins(value))


def _gates(record: Record) -> Sequence[Gate]:
    """Of a qualification as it was, of a soak as its facts say."""
    if record.qualification is not None:
        return record.qualification.gates
    return () if record.soak is None else gates(record.soak, record.setting)


def _stages(stored: Stored, judgements: Sequence[Judgement]) -> list[object]:
    run, setting = stored.record.run, stored.record.setting
    if run is None:
        return []
    samples = () if setting is None else setting.samples
    return [
        {
            "name": stage.name,
            "pass_number": stage.pass_number,
            "concurrency": stage.concurrency,
            "depth": stage.depth,
            "warm": stage.warm,
            "spoiled": spoils_stage(judgements, stage),
            "figures": plain(of_stage(stage, samples)),
        }
        for stage in run.stages
        if stage.pass_number > 0
    ]


def _center(stored: Stored) -> object:
    run = stored.record.run
    if run is None or stored.record.kind != "suite":
        return None
    return plain(center([stage for stage in run.stages if stage.pass_number > 0], kinds_of(run)))
