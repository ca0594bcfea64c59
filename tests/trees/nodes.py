"""What stands for a card's render node: answers its driver's requests as the kernel's documentation says.

The structures are spelt out here a second time, on purpose: what arcops packs is read by other hands.
"""

import ctypes
import errno
import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from arcops.machine.gpu.uapi import Ask

SYSTEM, VRAM = 0, 1


@dataclass
class Node:
    """One driver's answers. What it cannot be asked it refuses, as the kernel does."""

    regions: Sequence[tuple[int, int, int]] = ()
    """Class, bytes in all, bytes in use."""
    perfmon: bool = True
    """Who asks has CAP_PERFMON."""
    refuses: int | None = None
    """The errno that opening it gives."""
    guc: tuple[int, int, int] = (1, 24, 2)
    spoilt: bytes | None = None
    """What it writes instead of its answer, of the right length or not."""
    claims: int | None = None
    """How many bytes it says its answer has, where it lies about that."""
    opened: list[str] = field(default_factory=list[str])
    open_now: int = 0

    @contextmanager
    def __call__(self, node: str) -> Generator[Ask]:
        if self.refuses is not None:
            raise OSError(self.refuses, "refused")
        self.opened.append(node)
        self.open_now += 1
        try:
            yield self.answer
        finally:
            self.open_now -= 1

    def answer(self, number: int, data: bytearray) -> None:
        raise NotImplementedError

    def _write(self, address: int, size: int, answer: bytes) -> None:
        said = answer if self.spoilt is None else self.spoilt[:size].ljust(size, b"\0")
        ctypes.memmove(address, said, min(size, len(said)))


class XeNode(Node):
    """A card of the driver xe."""

    def answer(self, number: int, data: bytearray) -> None:
        if number != 0xC0286440 or len(data) != 40:
            raise OSError(errno.ENOTTY, "no such request")
        extensions, query, size, address, reserved, more = struct.unpack("=QIIQQQ", data)
        if extensions or reserved or more or query not in (1, 7):
            raise OSError(errno.EINVAL, "not as it should be")
        reply = self._regions() if query == 1 else struct.pack("=HHIIIIIQ", 0, 0, 0, *self.guc, 0, 0)
        if self.claims is not None:
            reply = reply[: self.claims].ljust(max(0, min(self.claims, 2**20)), b"\0")
        if size == 0:
            struct.pack_into("=I", data, 12, len(reply) if self.claims is None else self.claims)
        elif size != len(reply):
            raise OSError(errno.EINVAL, "another size")
        else:
            self._write(address, size, reply)

    def _regions(self) -> bytes:
        entries = (
            struct.pack("=HHIQQQQ48x", kind, index, 4096, total, used if self.perfmon else 0, total, 0)
            for index, (kind, total, used) in enumerate(self.regions)
        )
        return struct.pack("=II", len(self.regions), 0) + b"".join(entries)


class I915Node(Node):
    """A card of the driver i915."""

    def answer(self, number: int, data: bytearray) -> None:
        if number != 0xC0106479 or len(data) != 16:
            raise OSError(errno.ENOTTY, "no such request")
        count, flags, items = struct.unpack("=IIQ", data)
        query, length, item_flags, address = struct.unpack("=QiIQ", ctypes.string_at(items, 24))
        if count != 1 or flags or item_flags or query != 4:
            raise OSError(errno.EINVAL, "not as it should be")
        reply = self._regions()
        if length == 0:
            ctypes.memmove(items + 8, struct.pack("=i", len(reply) if self.claims is None else self.claims), 4)
        elif self.claims is not None:
            self._write(address, length, reply)
        elif length < len(reply):
            ctypes.memmove(items + 8, struct.pack("=i", -errno.EINVAL), 4)
        else:
            self._write(address, length, reply)

    def _regions(self) -> bytes:
        entries = (
            struct.pack("=HHIQQ64x", kind, 0, 0, total, total - used if self.perfmon else total)
            for kind, total, used in self.regions
        )
        return struct.pack("=I12x", len(self.regions)) + b"".join(entries)
