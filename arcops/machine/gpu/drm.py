"""Who has a card open, from DRM's fdinfo: xe, i915 and amdgpu.

Source: Documentation/gpu/drm-usage-stats.rst and the drivers' print rules.
"""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from arcops.core.cards.attribution import Look, Sighting, census
from arcops.core.cards.holders import Census
from arcops.core.quantity import Reading
from arcops.machine.gpu.base import MACHINE, CardIdentity, Roots
from arcops.machine.gpu.pci import is_discrete
from arcops.machine.gpu.scan import KERNEL, Calls, Scan, scan
from arcops.machine.gpu.users import users_of

DRIVERS = frozenset({"xe", "i915", "amdgpu"})
_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_ON_CARD = ("vram", "local", "stolen-local")
"""Regions of memory on the card: xe's vram0, amdgpu's vram, i915's local0. Others are the host's memory."""
HIDDEN = "/proc shows this user no processes of others (hidepid): they count as one that may not be looked into"

Regions: TypeAlias = tuple[tuple[str, int | None], ...]
"""Bytes by region; None for what is there and is no number."""


@dataclass(frozen=True, slots=True)
class FdInfo:
    """What the fdinfo of one DRM descriptor says about its client."""

    driver: str
    pdev: str
    client_id: int
    resident: Regions
    """In place now."""
    total: Regions
    """Allocated."""
    shared: Regions = ()
    """Allocated, and had by others as well."""

    @property
    def names_card(self) -> bool:
        """A region of memory on the card is named."""
        return any(region.startswith(_ON_CARD) for region, _ in (*self.resident, *self.total))

    @property
    def resident_bytes(self) -> int | None:
        """On the card; None where the driver does not say. What has nothing allocated there has nothing in place."""
        told = {region for region, _ in self.resident}
        if told and any(region not in told for region, _ in self.total if region.startswith(_ON_CARD)):
            return None
        held = _held(self.resident)
        return 0 if held is None and self.total_bytes == 0 else held

    @property
    def total_bytes(self) -> int | None:
        return _held(self.total)

    @property
    def shared_bytes(self) -> int:
        return _held(self.shared) or 0


class DrmCensus:
    """Takes the census of cards whose drivers print DRM usage statistics: all of them in one pass over /proc."""

    def __init__(self, calls: Calls = KERNEL) -> None:
        self._calls = calls

    @property
    def drivers(self) -> frozenset[str]:
        return DRIVERS

    def census(
        self,
        cards: Sequence[CardIdentity],
        at: float,
        ours: Callable[[], frozenset[int]],
        used: Callable[[CardIdentity], Reading[int]],
        among: Collection[int] | None = None,
        roots: Roots = MACHINE,
    ) -> tuple[Census, ...]:
        """See `CensusTaker`. What this process itself has open is ours."""
        seen = scan(roots.proc, among, self._calls)
        by_card = sightings(seen, {card.address for card in cards if _has_memory(card)})
        in_use = {card.address: used(card) for card in cards}
        concerned = {one.pid for card in cards for one in by_card.get(card.address, ())}
        own = ours() | {os.getpid()} if concerned else frozenset[int]()
        users = users_of(concerned, roots.proc)
        return tuple(
            census(
                Look(
                    address=card.address,
                    at=at,
                    used=in_use[card.address],
                    unreadable=seen.unreadable,
                    everybody=among is None,
                    notes=(HIDDEN,) if seen.hidden else (),
                ),
                by_card.get(card.address, ()),
                users,
                own,
            )
            for card in cards
        )


def sightings(seen: Scan, with_memory: Collection[str] = ()) -> dict[str, list[Sighting]]:
    """What each descriptor showed, by card. `with_memory` are the addresses of cards with a memory of their own.

    Where nothing is said of that memory, it is not known what is held there: the host's is another matter.
    """
    found: dict[str, list[Sighting]] = {}
    for one in seen.found:
        info = parse(one.info)
        if info is None:
            continue
        said = info.names_card or info.pdev not in with_memory
        sizes = (info.resident_bytes, info.total_bytes) if said else (None, None)
        found.setdefault(info.pdev, []).append(Sighting(info.client_id, one.pid, *sizes, info.shared_bytes))
    return found


def _has_memory(card: CardIdentity) -> bool:
    """Its driver tells of memory on it. amdgpu does so of every card, even of a part of a processor."""
    return card.driver == "amdgpu" or is_discrete(card) is True


def parse(text: str) -> FdInfo | None:
    """The statistics in an fdinfo, or None when it has no client of a PCI card. Unknown keys are ignored.

    The kernel ends every line. Where the last one is not, more is missing: then no size is known.
    """
    values: dict[str, str] = {}
    lines, whole = text.splitlines(), text.endswith("\n")
    for line in lines if whole else lines[:-1]:
        key, colon, value = line.partition(":")
        if colon and key.startswith("drm-"):
            values[key.rstrip()] = value.strip()
    client = values.get("drm-client-id", "")
    if not values.get("drm-pdev") or not _is_number(client):
        return None
    if not whole:
        return FdInfo(values.get("drm-driver", ""), values["drm-pdev"].lower(), int(client), (), ())
    # amdgpu of older kernels prints drm-memory-REGION only: what is resident there.
    legacy = _regions(values, "drm-memory-")
    return FdInfo(
        driver=values.get("drm-driver", ""),
        pdev=values["drm-pdev"].lower(),
        client_id=int(client),
        resident=_regions(values, "drm-resident-") or legacy,
        total=_regions(values, "drm-total-") or legacy,
        shared=_regions(values, "drm-shared-"),
    )


def _regions(values: dict[str, str], prefix: str) -> Regions:
    return tuple((key.removeprefix(prefix), _bytes(value)) for key, value in values.items() if key.startswith(prefix))


def _bytes(value: str) -> int | None:
    """`264 KiB` in bytes. The kernel divides by 1024 only while even, so the suffix differs from value to value."""
    number, *unit = value.split()[:3] or [""]
    factor = _UNITS.get(" ".join(unit))
    return int(number) * factor if _is_number(number) and factor is not None else None


def _is_number(text: str) -> bool:
    """Whether the kernel could have written it: 64 bits have twenty digits, and int() refuses thousands of them."""
    return text.isdecimal() and len(text) <= 20


def _held(regions: Regions) -> int | None:
    """Memory of the card itself; for an integrated one, which has none of its own, what it uses of the host's.

    None where no region is named, or one that counts is no number.
    """
    on_card = [size for region, size in regions if region.startswith(_ON_CARD)]
    sizes = on_card or [size for _, size in regions]
    known = [size for size in sizes if size is not None]
    return sum(known) if sizes and len(known) == len(sizes) else None
