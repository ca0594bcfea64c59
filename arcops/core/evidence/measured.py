"""What is judged and compared: a record, by those of its parts that say what was measured, and where."""

from typing import Protocol

from arcops.core.evidence.environment import Environment
from arcops.core.evidence.identity import Identity
from arcops.core.evidence.run import Run
from arcops.core.evidence.setting import Setting


class Measured(Protocol):
    """A record, as the core sees it (`arcops.evidence.record.Record`)."""

    @property
    def kind(self) -> str: ...
    @property
    def began(self) -> float:
        """Seconds since the epoch."""
        ...

    @property
    def run(self) -> Run | None: ...
    @property
    def setting(self) -> Setting | None: ...
    @property
    def identity(self) -> Identity | None: ...
    @property
    def environment(self) -> Environment | None: ...
