"""Why a card is held below its clock, in the words of Intel's drivers: one list of reasons for each gt."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from arcops.core.cards.measures import Unit
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu.sysfs import NOT_THERE, Folder

UNNAMED = "throttled, the driver does not say why"
MOST = 32
"""Reasons that are told of one gt: the drivers know seventeen."""
_WORD = re.compile(r"[a-z0-9_]{1,40}")


@dataclass(frozen=True, slots=True)
class Throttling:
    """Of one gt."""

    reasons: Reading[tuple[str, ...]]
    suffix: str
    """What tells it from the others, behind each reason: ` (gt1)`; empty for the gt that computes."""


def of(gts: Sequence[Throttling], at: float) -> Reading[tuple[str, ...]]:
    """All of a card's reasons, each once. Unknown where it is of one gt and the others are not throttled."""
    found: list[str] = []
    absent: list[Unknown] = []
    for gt in gts:
        if isinstance(gt.reasons, Unknown):
            absent.append(gt.reasons)
            continue
        found.extend(f"{one}{gt.suffix}" for one in gt.reasons.value)
    if found:
        return Known(tuple(dict.fromkeys(found)), at)
    if absent or not gts:
        return absent[0] if absent else Unknown(NOT_THERE, at)
    return Known((), at)


def words(text: str) -> Iterator[str]:
    """The reasons in one line, `pl1 thermal`; none in `none`."""
    found = _WORD.findall(text.lower())
    yield from [word for word in found if word != "none"][:MOST]


def by_file(folder: Folder, status: Reading[float], pattern: str) -> Reading[tuple[str, ...]]:
    """The reasons whose file says 1. `status` says whether there is any at all."""
    if isinstance(status, Unknown):
        return status
    if status.value == 0:
        return Known((), folder.at)
    names = {match.group(1): name for name in folder.names(pattern) if (match := re.fullmatch(pattern, name))}
    yes = [word for word, name in names.items() if word != "status" and _says_yes(folder, name)]
    return Known(tuple(yes[:MOST]) or (UNNAMED,), folder.at)


def _says_yes(folder: Folder, name: str) -> bool:
    said = folder.number(name, Unit.COUNT)
    return isinstance(said, Known) and said.value > 0
