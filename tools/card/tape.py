"""A tape of NVML: every question that was put to it and what it answered, to be played back in a test.

Only what arcops asks is on it, and arcops asks for no serial number and no UUID. `play` is its other half.
"""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import cast

from arcops.machine.gpu.nvml import Library

_OF_A_CARD = "nvmlDevice"


class Recorder:
    """Stands before the real library, and writes down what passes. Use `library` in its place."""

    def __init__(self, real: Library) -> None:
        self._real = real
        self.tape: dict[str, object] = {}

    @property
    def library(self) -> Library:
        return cast("Library", self)

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._real, name)
        if not name.startswith("nvml") or not callable(found):
            return found
        return _recorded(name, found, self._real.NVMLError, self.tape)


def key(name: str, arguments: Sequence[object]) -> str:
    """`nvmlDeviceGetClockInfo(1)`: a question without the handle, which is good for one visit only."""
    own = arguments[1:] if name.startswith(_OF_A_CARD) else arguments
    return f"{name}({', '.join(_argument(one) for one in own)})"


def play(value: object) -> object:
    """What an entry of the tape was before it became JSON: structures have attributes again."""
    if isinstance(value, dict):
        entries = cast("Mapping[str, object]", value)
        return SimpleNamespace(**{name: play(one) for name, one in entries.items()})
    return [play(one) for one in cast("Sequence[object]", value)] if isinstance(value, list) else value


def refusal(value: object) -> int | None:
    """The NVML_ERROR_* of an entry of the tape; None for an answer."""
    code = cast("Mapping[str, object]", value).get("NVMLError") if isinstance(value, dict) else None
    return code if isinstance(code, int) else None


def _recorded(
    name: str, function: Callable[..., object], refused: type[Exception], tape: dict[str, object]
) -> Callable[..., object]:
    def call(*arguments: object, **named: object) -> object:
        where = key(name, (*arguments, *named.values()))
        try:
            answer = function(*arguments, **named)
        except refused as error:
            tape[where] = {"NVMLError": getattr(error, "value", None)}
            raise
        if not where.startswith(("nvmlInit", "nvmlShutdown", "nvmlDeviceGetHandle")):
            tape[where] = plain(answer)
        return answer

    return call


def plain(value: object) -> object:
    """As JSON has it: a structure (ctypes' or not) becomes a mapping, an array a list.

    What of a union would be a float is left out: those bytes were never one, and may spell NaN.
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, int | float | str):
        return value
    fields = getattr(type(value), "_fields_", None)
    if fields is not None:
        members = {str(field[0]): getattr(value, str(field[0])) for field in fields}
        return {name: plain(one) for name, one in members.items() if not isinstance(one, float)}
    if hasattr(value, "__len__"):
        return [plain(one) for one in cast("Sequence[object]", value)]
    return {name: plain(one) for name, one in vars(value).items()}


def _argument(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in cast("Sequence[object]", value))
    return str(value)
