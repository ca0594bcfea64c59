"""Structured documents as companies have them: made up, from fixed seeds, without end and without a repetition.

The same in every version of Python and of arcops: what was asked once can be asked again.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = (1 << 64) - 1
_SITES: Final = (
    "Aalborg",
    "Bilbao",
    "Cork",
    "Dresden",
    "Esbjerg",
    "Faro",
    "Ghent",
    "Haarlem",
    "Imatra",
    "Jena",
    "Kiruna",
)
_PARTS: Final = (
    "bearing", "gasket", "impeller", "flange", "coupling", "valve seat", "pressure sensor", "relay", "heat exchanger",
    "drive belt", "filter cartridge", "control board", "spindle", "encoder", "manifold", "thermostat", "winding",
)  # fmt: skip
_MATERIALS: Final = (
    "steel",
    "brass",
    "nitrile",
    "ceramic",
    "aluminium",
    "bronze",
    "polyamide",
    "cast iron",
    "titanium",
)
_STATES: Final = ("ordered", "in transit", "received", "inspected", "rejected", "installed", "returned", "scrapped")
_SERVICES: Final = ("intake", "scheduler", "ledger", "router", "archive", "mailer", "indexer", "gateway", "resizer")
_DEEDS: Final = (
    "accepted a batch of {n} items from {site}", "retried the upload of lot {lot} after {n} ms",
    "closed {n} idle connections", "wrote {n} rows for {site}", "refused lot {lot}: the weight is {n} g too high",
    "took {n} ms for the query of lot {lot}", "moved lot {lot} to the shelf of {site}", "has {n} entries in its queue",
    "found {n} duplicates in the delivery from {site}", "started anew at {site} with {n} workers",
)  # fmt: skip
_REMARKS: Final = (
    "to be measured again after the next service", "replaces the part that was delivered in spring",
    "the drawing has an older revision", "packed with the spare set", "surface is not within tolerance",
    "released by the workshop", "waits for the certificate", "stored upright and dry", "one of a pair",
)  # fmt: skip


class Dice:
    """Numbers that look like chance, the same everywhere: SplitMix64 (Steele, Lea, Flood 2014)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def roll(self) -> int:
        """0 to 2^64 - 1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def between(self, least: int, most: int) -> int:
        """Both included."""
        return least + self.roll() % (most - least + 1)

    def one_of(self, of: Sequence[T]) -> T:
        return of[self.roll() % len(of)]


def documents(seed: int = 1) -> Iterator[str]:
    """One after the other, each some 1,500 to 4,000 characters; without end."""
    number = 0
    while True:
        number += 1
        dice = Dice(seed * 1_000_003 + number)
        make = _MAKERS[number % len(_MAKERS)]
        yield make(dice, number) + "\n"


def _delivery(dice: Dice, number: int) -> str:
    """JSON: a delivery with its positions."""
    positions = [
        {
            "position": at,
            "part": dice.one_of(_PARTS),
            "article": f"{dice.one_of('KLMNPR')}{dice.between(10_000, 99_999)}-{dice.between(10, 99)}",
            "material": dice.one_of(_MATERIALS),
            "quantity": dice.between(1, 480),
            "unit_price": dice.between(90, 96_000) / 100,
            "lot": _lot(dice),
            "state": dice.one_of(_STATES),
            "remark": dice.one_of(_REMARKS) if dice.between(0, 2) == 0 else None,
        }
        for at in range(1, dice.between(7, 12))
    ]
    content = {
        "delivery": f"D-{number:05d}-{dice.between(100, 999)}",
        "from": dice.one_of(_SITES),
        "to": dice.one_of(_SITES),
        "dispatched": _day(dice),
        "gross_weight_kg": dice.between(120, 88_000) / 10,
        "insured": dice.between(0, 1) == 1,
        "positions": positions,
    }
    return json.dumps(content, indent=2)


def _plant(dice: Dice, number: int) -> str:
    """YAML: how a plant is set up."""
    lines = [f"plant: {dice.one_of(_SITES).lower()}-{number}", f"revision: {_day(dice)}", "lines:"]
    for at in range(1, dice.between(5, 8)):
        lines += [
            f"  - name: line-{at}-{dice.one_of(_MATERIALS).replace(' ', '-')}",
            f"    speed_mm_s: {dice.between(40, 900)}",
            f"    limits: {{temperature: {dice.between(40, 180)}, pressure: {dice.between(11, 99) / 10}}}",
            "    stations:",
        ]
        for _ in range(dice.between(2, 4)):
            lines += [
                f"      - part: {dice.one_of(_PARTS)}",
                f"        interval_h: {dice.between(24, 4000)}",
                f"        last_service: {_day(dice)}",
                f"        remark: {dice.one_of(_REMARKS)}",
            ]
    return "\n".join(lines)


def _measurements(dice: Dice, number: int) -> str:
    """Comma-separated values: what a sensor said."""
    lines = [
        f"# sensor {number:04d} at {dice.one_of(_SITES)}, {_day(dice)}",
        "time,temperature_c,pressure_bar,flow_l_min,vibration_mm_s,state",
    ]
    clock, warm, pressure = dice.between(0, 3600), dice.between(180, 900), dice.between(10, 90)
    for _ in range(dice.between(36, 64)):
        clock += dice.between(20, 90)
        warm += dice.between(-9, 10)
        pressure = max(5, pressure + dice.between(-3, 3))
        state = dice.one_of(("ok", "ok", "ok", "ok", "high", "low"))
        values = (warm / 10, pressure / 10, dice.between(300, 990) / 10, dice.between(1, 95) / 10)
        lines.append(f"{_clock(clock)},{','.join(f'{value:.1f}' for value in values)},{state}")
    return "\n".join(lines)


def _stock(dice: Dice, number: int) -> str:
    """A table: what is on the shelves."""
    lines = [
        f"## Stock of {dice.one_of(_SITES)}, sheet {number}, {_day(dice)}",
        "",
        "| shelf | part | material | lot | pieces | least | value | remark |",
        "|---|---|---|---|---:|---:|---:|---|",
    ]
    for _ in range(dice.between(18, 30)):
        shelf = f"{dice.one_of('ABCDEFGH')}{dice.between(1, 40):02d}"
        counted = f"{dice.between(0, 900)} | {dice.between(5, 60)} | {dice.between(200, 900_000) / 100:,.2f}"
        what = f"{dice.one_of(_PARTS)} | {dice.one_of(_MATERIALS)} | {_lot(dice)}"
        lines.append(f"| {shelf} | {what} | {counted} | {dice.one_of(_REMARKS)} |")
    return "\n".join(lines)


def _log(dice: Dice, number: int) -> str:
    """A log of several services."""
    day, clock = _day(dice), dice.between(0, 70_000)
    lines = [f"--- log {number} ---"]
    for _ in range(dice.between(24, 40)):
        clock += dice.between(0, 45)
        level = dice.one_of(("INFO", "INFO", "INFO", "WARNING", "ERROR", "DEBUG"))
        deed = dice.one_of(_DEEDS).format(n=dice.between(2, 4000), lot=_lot(dice), site=dice.one_of(_SITES))
        who = f"{dice.one_of(_SERVICES)}[{dice.between(300, 32_000)}]"
        lines.append(f"{day}T{_clock(clock)}.{dice.between(0, 999):03d}Z {level:<7} {who}: {deed}")
    return "\n".join(lines)


_MAKERS: Final[tuple[Callable[[Dice, int], str], ...]] = (_delivery, _plant, _measurements, _stock, _log)


def _lot(dice: Dice) -> str:
    return f"{dice.one_of('QRSTUVWX')}{dice.between(0, 0xFFFFF):05X}"


def _day(dice: Dice) -> str:
    return f"20{dice.between(19, 25)}-{dice.between(1, 12):02d}-{dice.between(1, 28):02d}"


def _clock(seconds: int) -> str:
    return f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
