"""What is wrong with a configuration, and where."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arcops.core.errors import InvalidProfileError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    file: Path
    line: int | None
    """Counted from 1; None where it is the file as a whole."""
    key: str
    """Dotted, as written; empty where it is the file as a whole."""
    message: str
    here: bool = False
    """The file is right, but this machine lacks what it names."""

    def __str__(self) -> str:
        place = str(self.file) if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"

    def as_json(self) -> dict[str, str | int | bool | None]:
        """For `--json`."""
        return {
            "file": str(self.file),
            "line": self.line,
            "key": self.key,
            "message": self.message,
            "here": self.here,
        }


def invalid(what: str, problems: Sequence[Problem], *, hint: str = "") -> InvalidProfileError:
    """The error that names every problem of `what`, one a line after the first."""
    if len(problems) == 1:
        return InvalidProfileError(f"{what}: {problems[0]}", hint=hint)
    lines = "\n".join(f"  {problem}" for problem in problems)
    return InvalidProfileError(f"{what} has {len(problems)} problems:\n{lines}", hint=hint)
