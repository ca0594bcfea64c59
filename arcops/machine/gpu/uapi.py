"""How a kernel driver is asked through its device node: structures as bytes, the number of a request, a short visit.

Only what the kernel's own headers (include/uapi/drm) lay down; tests/machine/gpu/test_uapi.py holds the tables against
those headers. A node is open for one question and no longer: while it is, the driver counts us as a client.
"""

import array
import fcntl
import os
import struct
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

DRM_COMMAND_BASE = 0x40
"""Where the numbers of a driver's own requests begin."""
LARGEST = 64 * 1024
"""Bytes of an answer. An xe card with two memories needs 272."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A structure of the kernel's: its name there, its size, and where each field that is used lies."""

    name: str
    size: int
    """Bytes."""
    fields: Mapping[str, tuple[int, str]]
    """Offset in bytes, and the code of the module `struct`."""

    def packed(self, **values: int) -> bytearray:
        """The structure with these fields set; the others are 0, as the kernel demands."""
        data = bytearray(self.size)
        for name, value in values.items():
            offset, code = self.fields[name]
            struct.pack_into(f"={code}", data, offset, value)
        return data

    def field(self, data: bytes | bytearray | memoryview, name: str, start: int = 0) -> int:
        """A field of the structure that begins at `start`. Raises struct.error where the data ends before it."""
        offset, code = self.fields[name]
        value: int = struct.unpack_from(f"={code}", data, start + offset)[0]
        return value


def request(number: int, layout: Layout) -> int:
    """The number of a driver's request that takes a structure there and back: `DRM_IOWR` of drm.h.

    Source: include/uapi/asm-generic/ioctl.h, which holds on x86, arm64 and riscv.
    """
    return 3 << 30 | layout.size << 16 | ord("d") << 8 | DRM_COMMAND_BASE + number


Ask: TypeAlias = Callable[[int, bytearray], None]
"""One request: its number, and the structure, which the kernel writes its answer into. Raises OSError."""


class Kernel(Protocol):
    """Opens device nodes."""

    def __call__(self, node: str) -> AbstractContextManager[Ask]:
        """The node, for the length of a visit. Raises OSError."""
        ...


@contextmanager
def opened(node: str) -> Generator[Ask]:
    """A device node of this machine."""
    descriptor = os.open(node, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)

    def ask(number: int, data: bytearray) -> None:
        fcntl.ioctl(descriptor, number, data, True)

    try:
        yield ask
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Room:
    """Memory of ours that a structure points at for the kernel to write into."""

    data: "array.array[int]"

    @classmethod
    def of(cls, size: int) -> "Room":
        """That many bytes, all 0. Raises ValueError for more than any answer has."""
        if not 0 < size <= LARGEST:
            raise ValueError(f"the driver wants {size} bytes for its answer, which cannot be")
        return cls(array.array("B", bytes(size)))

    @property
    def address(self) -> int:
        return self.data.buffer_info()[0]
