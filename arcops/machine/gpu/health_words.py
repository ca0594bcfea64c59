"""What a trial of a card came to: from what `health_script` said and how it ended, to a verdict in words."""

import re
from dataclasses import dataclass
from enum import Enum
from signal import SIGALRM, Signals
from typing import assert_never

from arcops.core.cards.health import Health, Verdict

LOST = re.compile(
    r"DEVICE_LOST|OUT_OF_RESOURCES|GPU is lost|fallen off the bus|unspecified launch failure|illegal memory access"
    r"|uncorrectable|hardware (?:stack )?error|launch timed out|requires? (?:a )?reset",
    re.IGNORECASE,
)
"""Words of Level Zero, the unified runtime, CUDA and HIP for a device that is lost to the process. OUT_OF_RESOURCES is
what Level Zero says after a reset; that memory is short it says in other words (OUT_OF_DEVICE_MEMORY)."""
_LONGEST = 300
"""Characters of the script's own words that are shown."""


class End(Enum):
    """How the child of a trial ended, where it did not by itself."""

    LATE = "late"
    """It had to be killed, and was."""
    DEAF = "deaf"
    """It outlived SIGKILL."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One child's trial of some cards, as it was seen."""

    kind: str
    """`xpu`, `cuda`, `cpu`."""
    cards: tuple[str, ...]
    """Addresses, in the order in which torch numbers them; empty for the processor."""
    said: str
    complaint: str
    """The last line on its stderr."""
    end: int | End
    """Exit code, negative for a signal; else why it was ended."""
    waited: float
    """Seconds for which the last step was waited for."""
    pid: int


def judged(trial: Trial, remedy: str) -> Health:
    """The verdict. `remedy` brings a wedged card back."""
    lines = [line.split(" ", 1) for line in trial.said.splitlines() if line.strip()]
    steps = {word: (rest[0] if rest else "") for word, *rest in lines}
    last, detail = (lines[-1][0], " ".join(lines[-1][1:])) if lines else ("", "")
    late = trial.end if isinstance(trial.end, End) else End.LATE if trial.end == -SIGALRM else None
    if late is not None:
        return _unfinished(trial, late, steps, last, detail, remedy)
    if trial.end != 0:
        return _inconclusive(f"the trial of {_all(trial)} {_ended(trial)}{_where(trial, last, detail)}")
    return _finished(trial, steps, last, detail, remedy)


def _finished(trial: Trial, steps: dict[str, str], last: str, detail: str, remedy: str) -> Health:
    """It ended by itself: its last line says how."""
    match last:
        case "done":
            return _counted(trial, steps)
        case "missing":
            return _inconclusive(f"{_all(trial)} could not be tried: torch is not in the runtime")
        case "broken":
            return _inconclusive(f"{_all(trial)} could not be tried: torch cannot be imported: {_cut(detail)}")
        case "none":
            return _inconclusive(f"{_all(trial)} could not be tried: {_cut(detail)}")
        case "wrong":
            which, words = _parted(trial, detail)
            return _wedged(f"{which} computes wrong numbers: {words}", remedy)
        case "raised":
            which, words = _parted(trial, detail)
            if LOST.search(words):
                return _wedged(f"{which} was lost over a small product: {words}", remedy)
            return _inconclusive(f"{which} could not be tried: {words}")
        case _:
            return _inconclusive(f"the trial of {_all(trial)} said nothing that can be understood")


def _counted(trial: Trial, steps: dict[str, str]) -> Health:
    """Every card that torch saw computes; whether these are the ones that were meant is another matter."""
    count = steps.get("cards", "")
    expected = len(trial.cards) if trial.cards else 1
    if count != str(expected):
        words = f"the runtime's torch sees {_cut(count) or 'no'} cards, where {expected} were meant: {_all(trial)}"
        return _inconclusive(words)
    verb = "compute" if len(trial.cards) > 1 else "computes"
    return Health(Verdict.HEALTHY, f"{_all(trial)} {verb} (tried with torch {_cut(steps.get('torch', '?'))})")


def _unfinished(trial: Trial, end: End, steps: dict[str, str], last: str, detail: str, remedy: str) -> Health:
    """It did not end. Before torch was there the disk may have been slow; afterwards only the driver is waited for."""
    match end:
        case End.DEAF:
            words = f"{_all(trial)}: the trial hangs in the driver, and process {trial.pid} outlived SIGKILL"
            return _wedged(words, f"reboot: a process that hangs there lets nobody rebind the driver; else {remedy}")
        case End.LATE if "torch" not in steps:
            return _inconclusive(
                f"{_all(trial)} could not be tried: torch took over {trial.waited:.0f} s to be imported"
            )
        case End.LATE:
            which = _parted(trial, detail)[0] if last == "try" else _all(trial)
            what = "did not finish a small product" if last == "try" else "did not come up"
            return _wedged(f"{which} {what} within {trial.waited:.0f} s", remedy)
        case _:  # pragma: no cover - pyright proves that it is never reached
            assert_never(end)


def _ended(trial: Trial) -> str:
    code = trial.end if isinstance(trial.end, int) else 0
    if code >= 0:
        how = f"ended with exit code {code}"
    else:
        known = -code in Signals.__members__.values()
        how = f"was ended by {Signals(-code).name if known else f'signal {-code}'}"
    return f"{how} ({_cut(trial.complaint)})" if trial.complaint else how


def _where(trial: Trial, last: str, detail: str) -> str:
    return f", in the middle of {_parted(trial, detail)[0]}" if last == "try" else ""


def _parted(trial: Trial, detail: str) -> tuple[str, str]:
    """`0 words` as the card that torch numbers so, and the words."""
    number, _, words = detail.partition(" ")
    index = int(number) if number.isdecimal() and len(number) < 4 else -1
    if 0 <= index < len(trial.cards):
        return f"card {trial.cards[index]}", _cut(words)
    return _all(trial), _cut(words)


def _all(trial: Trial) -> str:
    if not trial.cards:
        return "the processor"
    return f"card{'s' if len(trial.cards) > 1 else ''} {', '.join(trial.cards)}"


def _cut(text: str) -> str:
    """The script's own words, made fit for a line: what a driver's library says is untrusted."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 2 * _LONGEST]).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _wedged(words: str, hint: str) -> Health:
    return Health(Verdict.WEDGED, words, hint)


def _inconclusive(words: str) -> Health:
    return Health(Verdict.INCONCLUSIVE, words)
