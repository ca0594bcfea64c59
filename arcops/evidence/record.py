"""One run in one file: self-contained JSON with a digest over itself, written once and never again."""

from typing import Final

import msgspec

from arcops.core.evidence.environment import Environment
from arcops.core.evidence.identity import Identity
from arcops.core.evidence.qualification import Qualification
from arcops.core.evidence.run import Run
from arcops.core.evidence.setting import Setting
from arcops.core.evidence.soak import Soak

FORMAT: Final = 1
"""Raised when an older reader would misread a file. New optional fields do not raise it."""


BENCHES: Final = ("long-prompt", "context", "ladder", "suite")
"""The kinds that have a run of a benchmark, which is the workload's name."""
KINDS: Final = (*BENCHES, "soak", "environment", "qualification")


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file holds beside its digest."""

    arcops_record: int
    """The format."""
    kind: str
    """One of KINDS."""
    arcops: str
    """The version that measured."""
    began: float
    """Seconds since the epoch."""
    ended: float
    command: tuple[str, ...]
    """The words of the command that measured, with secrets hidden."""
    note: str = ""
    """What the person who measured wants to be known (`--note`): a synthetic acceptance, say."""
    run: Run | None = None
    setting: Setting | None = None
    identity: Identity | None = None
    environment: Environment | None = None
    qualification: Qualification | None = None
    soak: Soak | None = None
