"""Small files of the kernel's: never more of one than a page, and a value or the reason for its absence.

What is read of them is the driver's word and may be anything. A number counts only where it can be true.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from arcops.core.cards.measures import Detail, Measure, Quantity, Unit
from arcops.core.quantity import Known, Reading, Unknown

PAGE = 4096
"""Bytes: the kernel writes no more than that into one attribute."""
NOT_THERE = "not in this driver"
GONE = "the card has gone"
LONGEST = 100
"""Characters of a text that is shown."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
"""64 bits have twenty digits; int() would go on for thousands."""
_BETWEEN: dict[Unit, tuple[float, float]] = {
    Unit.BYTES: (0, 2**50),
    Unit.MEGAHERTZ: (0, 20_000),
    Unit.CELSIUS: (-60, 250),
    Unit.WATTS: (0, 10_000),
    Unit.JOULES: (0, 2**64 / 1e6),
    Unit.SECONDS: (0, 2**64 / 1e3),
    Unit.SHARE: (0, 1),
    Unit.ROTATIONS: (0, 100_000),
    Unit.LANES: (1, 32),
    Unit.TRANSFERS: (0.1, 256),
    Unit.COUNT: (0, 2**64),
}
"""What can be true of a card: outside of that it was misread, or the driver is wrong."""
_REASONS = {
    errno.ENOENT: NOT_THERE,
    errno.ENOTDIR: NOT_THERE,
    errno.EOPNOTSUPP: NOT_THERE,
    errno.EACCES: "this user may not read it",
    errno.EPERM: "the driver does not permit it now",
    errno.ENODEV: GONE,
    errno.ENXIO: "the card does not answer",
    errno.EIO: "the card does not answer",
    errno.ECANCELED: "the card is wedged",
}


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of sysfs, and when it is looked at: seconds, monotonic."""

    path: str
    at: float

    def below(self, *parts: str) -> "Folder":
        return Folder(os.path.join(self.path, *parts), self.at)

    def names(self, pattern: str) -> tuple[str, ...]:
        """Entries whose whole name matches, `gt2` before `gt10`; none where there is no such folder."""
        try:
            found = [name for name in os.listdir(self.path) if re.fullmatch(pattern, name)]
        except OSError:
            return ()
        return tuple(sorted(found, key=_natural))

    def words(self, name: str, most: int = LONGEST) -> Reading[str]:
        """The text of a file on one line, without control characters, of `most` characters."""
        try:
            text = shown(read(os.path.join(self.path, name)), most)
        except OSError as error:
            return Unknown(reason(error), self.at)
        return Known(text, self.at) if text else Unknown("the driver says nothing there", self.at)

    def number(self, name: str, unit: Unit, scale: float = 1.0) -> Reading[float]:
        """A whole number in a file, times `scale`, in `unit`."""
        try:
            text = read(os.path.join(self.path, name))
        except OSError as error:
            return Unknown(reason(error), self.at)
        return number(text, unit, self.at, scale)

    def measure(self, quantity: Quantity, name: str, source: str, part: str = "", scale: float = 1.0) -> Measure:
        """A measure that is one number in one file."""
        return Measure(quantity, self.number(name, quantity.unit, scale), source, part)

    def detail(self, name: str, file: str, source: str) -> Detail:
        """Words that are one file."""
        return Detail(name, self.words(file), source)


def read(path: str) -> str:
    """A page of a file at the most, without the space around it. Raises OSError; never waits for a pipe's writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, PAGE).decode("ascii", "replace").strip().strip("\0")
    finally:
        os.close(descriptor)


def number(text: str, unit: Unit, at: float, scale: float = 1.0) -> Reading[float]:
    """A whole number as a value of this unit, or why it cannot be one."""
    if _NUMBER.fullmatch(text) is None:
        return Unknown(f"the driver says {shown(text)[:20]!r}, which is no number", at)
    return plausible(int(text) * scale, unit, at)


def plausible(value: float, unit: Unit, at: float) -> Reading[float]:
    """The value, where it can be true of a card."""
    least, most = _BETWEEN[unit]
    if not least <= value <= most:
        return Unknown(f"the driver says {value:g} {unit.value}, which cannot be", at)
    return Known(float(value), at)


def shown(text: str, most: int = LONGEST) -> str:
    """Foreign text for a person: printable, on one line, not endless."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())[:most]


def reason(error: OSError) -> str:
    """Why something could not be read, in words."""
    return _REASONS.get(error.errno or 0) or (os.strerror(error.errno) if error.errno else str(error))


def first(readings: Iterable[Callable[[], Measure]]) -> Measure:
    """The first of these that is known; else the first absence that says more than that there is no such thing."""
    absences: list[Measure] = []
    for ask in readings:
        measure = ask()
        if not isinstance(measure.reading, Unknown):
            return measure
        absences.append(measure)
    telling = [one for one in absences if isinstance(one.reading, Unknown) and one.reading.reason != NOT_THERE]
    return (telling or absences)[0]


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple(
        (int(piece[:20]), "") if piece.isdecimal() else (0, piece) for piece in re.findall(r"[0-9]+|[^0-9]+", name)
    )
