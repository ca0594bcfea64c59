"""Who holds memory of a card, from DRM's fdinfo: xe, i915 and amdgpu.

Source: Documentation/gpu/drm-usage-stats.rst and the drivers' print rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from arcops.machine import proc
from arcops.machine.gpu.base import Client

_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_ON_CARD = ("vram", "local")
"""Regions of memory on the card: xe's vram0, amdgpu's vram, i915's local0. Others are the host's memory."""


@dataclass(frozen=True, slots=True)
class FdInfo:
    """What the fdinfo of one DRM descriptor says about its client."""

    driver: str
    pdev: str
    client_id: int
    resident: tuple[tuple[str, int], ...]
    """Bytes of memory in place now, by region."""
    total: tuple[tuple[str, int], ...]
    """Bytes of memory allocated, by region."""

    @property
    def resident_bytes(self) -> int:
        return _held(self.resident)

    @property
    def total_bytes(self) -> int:
        return _held(self.total)


class DrmReader:
    """Reads the cards whose drivers print DRM usage statistics."""

    @property
    def drivers(self) -> frozenset[str]:
        return frozenset({"xe", "i915", "amdgpu"})

    def holders(
        self, addresses: Sequence[str], root_proc: str = proc.ROOT, root_dev: str = "/dev"
    ) -> tuple[tuple[Client, ...], int]:
        return holders(addresses, root_proc, root_dev)


def parse(text: str) -> FdInfo | None:
    """The statistics in an fdinfo, or None when it has no client of a PCI card. Unknown keys are ignored."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.startswith("drm-"):
            values[key] = value.strip()
    client = values.get("drm-client-id", "")
    if "drm-pdev" not in values or not _is_number(client):
        return None
    total = _regions(values, "drm-total-") or _regions(values, "drm-memory-")
    return FdInfo(
        driver=values.get("drm-driver", ""),
        pdev=values["drm-pdev"],
        client_id=int(client),
        # amdgpu of older kernels prints drm-memory-REGION only: what is resident there.
        resident=_regions(values, "drm-resident-") or _regions(values, "drm-memory-"),
        total=total,
    )


def holders(
    addresses: Sequence[str], root_proc: str = proc.ROOT, root_dev: str = "/dev"
) -> tuple[tuple[Client, ...], int]:
    """Clients with memory on these cards, and how many processes could not be looked into.

    A client is known by (card, client id); its memory counts once for all of its descriptors and processes. One that
    has the card open and no memory there is no holder: Level Zero opens every card when it starts. Kernel threads have
    no descriptors and are not counted. Where /proc hides the processes of other users altogether (hidepid), one is
    counted as unreadable for all of them. Raises OSError when /proc cannot be read.
    """
    wanted = set(addresses)
    prefix = f"{root_dev}/dri/"
    clients: dict[tuple[str, int], Client] = {}
    pids = sorted(proc.pids(root_proc))
    unreadable = 0 if 1 in pids else 1
    for pid in pids:
        try:
            for info in _infos(pid, prefix, root_proc):
                if info.pdev in wanted:
                    key = (info.pdev, info.client_id)
                    clients[key] = _merged(clients.get(key), info, pid)
        except PermissionError:
            process = proc.stat(pid, root_proc)
            if process is not None and not process.ended and not process.kernel_thread:
                unreadable += 1
    holding = (client for _, client in sorted(clients.items()) if client.resident_bytes or client.total_bytes)
    return tuple(holding), unreadable


def _infos(pid: int, prefix: str, root: str) -> list[FdInfo]:
    found: list[FdInfo] = []
    for number, target in proc.descriptors(pid, root):
        if target.startswith(prefix):
            info = parse(proc.descriptor_info(pid, number, root) or "")
            if info is not None:
                found.append(info)
    return found


def _merged(earlier: Client | None, info: FdInfo, pid: int) -> Client:
    """Every descriptor of a client shows the same memory, read a little later: the larger reading stands for it."""
    resident, total, pids = info.resident_bytes, info.total_bytes, (pid,)
    if earlier is not None:
        resident, total = max(resident, earlier.resident_bytes or 0), max(total, earlier.total_bytes or 0)
        pids = earlier.pids if pid in earlier.pids else (*earlier.pids, pid)
    return Client(pdev=info.pdev, client_id=info.client_id, pids=pids, resident_bytes=resident, total_bytes=total)


def _regions(values: dict[str, str], prefix: str) -> tuple[tuple[str, int], ...]:
    regions = ((key.removeprefix(prefix), _bytes(value)) for key, value in values.items() if key.startswith(prefix))
    return tuple((region, size) for region, size in regions if size is not None)


def _bytes(value: str) -> int | None:
    """`264 KiB` in bytes. The kernel divides by 1024 only while even, so the suffix differs from value to value."""
    number, _, unit = value.partition(" ")
    factor = _UNITS.get(unit.strip())
    return int(number) * factor if _is_number(number) and factor is not None else None


def _is_number(text: str) -> bool:
    """Whether the kernel could have written it: 64 bits have twenty digits, and int() refuses thousands of them."""
    return text.isdecimal() and len(text) <= 20


def _held(regions: tuple[tuple[str, int], ...]) -> int:
    """Memory of the card itself; for an integrated one, which has none of its own, what it uses of the host's."""
    on_card = [size for region, size in regions if region.startswith(_ON_CARD)]
    return sum(on_card) if on_card else sum(size for _, size in regions)
