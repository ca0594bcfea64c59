"""What the driver xe says of a card's memory and firmware, asked through its render node.

Source: include/uapi/drm/xe_drm.h (DRM_IOCTL_XE_DEVICE_QUERY). Two steps: with size 0 the driver says how many bytes its
answer has, with that size it writes them.
"""

import struct

from arcops.machine.gpu.memory import Region
from arcops.machine.gpu.uapi import Ask, Layout, Room, request

DEVICE_QUERY = Layout(
    "drm_xe_device_query",
    40,
    {"extensions": (0, "Q"), "query": (8, "I"), "size": (12, "I"), "data": (16, "Q")},
)
MEM_REGIONS = Layout("drm_xe_query_mem_regions", 8, {"num_mem_regions": (0, "I")})
"""Followed by as many of the next."""
MEM_REGION = Layout(
    "drm_xe_mem_region",
    88,
    {"mem_class": (0, "H"), "instance": (2, "H"), "min_page_size": (4, "I"), "total_size": (8, "Q"), "used": (16, "Q")},
)
UC_FW_VERSION = Layout(
    "drm_xe_query_uc_fw_version",
    32,
    {
        "uc_type": (0, "H"),
        "branch_ver": (4, "I"),
        "major_ver": (8, "I"),
        "minor_ver": (12, "I"),
        "patch_ver": (16, "I"),
    },
)
DEVICE_QUERY_NUMBER = 0
QUERY_MEM_REGIONS = 1
QUERY_UC_FW_VERSION = 7
CLASS_VRAM = 1
GUC_SUBMISSION = 0
IOCTL_DEVICE_QUERY = request(DEVICE_QUERY_NUMBER, DEVICE_QUERY)


def memories(ask: Ask) -> tuple[Region, ...]:
    """The card's own memories; none for a graphics part that has only the host's.

    Raises OSError where the driver refuses, ValueError for an answer that cannot be.
    """
    answer = _answer(ask, QUERY_MEM_REGIONS, None)
    count = MEM_REGIONS.field(answer, "num_mem_regions")
    if MEM_REGIONS.size + count * MEM_REGION.size > len(answer):
        raise ValueError(f"the driver tells of {count} memories in {len(answer)} bytes, which cannot be")
    starts = [MEM_REGIONS.size + index * MEM_REGION.size for index in range(count)]
    return tuple(_region(answer, at) for at in starts if MEM_REGION.field(answer, "mem_class", at) == CLASS_VRAM)


def guc_submission(ask: Ask) -> str:
    """The version of GuC's interface for submissions, which goes with that of its firmware: `1.24.2`.

    Raises OSError and ValueError as `memories` does.
    """
    answer = _answer(ask, QUERY_UC_FW_VERSION, UC_FW_VERSION.packed(uc_type=GUC_SUBMISSION))
    numbers = [UC_FW_VERSION.field(answer, name) for name in ("major_ver", "minor_ver", "patch_ver")]
    return ".".join(str(number) for number in numbers)


def _region(answer: bytes, start: int) -> Region:
    """Before Linux 6.18 the driver writes 0 for `used` to whoever lacks CAP_PERFMON."""
    total, used = (MEM_REGION.field(answer, name, start) for name in ("total_size", "used"))
    if not 0 < total <= 2**50 or used > total:
        raise ValueError(f"the driver says {used} of {total} bytes in use, which cannot be")
    return Region(total, used or None)


def _answer(ask: Ask, query: int, given: bytearray | None) -> bytes:
    """The driver's answer to one question. `given` is what the answer's place holds before it is asked."""
    first = DEVICE_QUERY.packed(query=query)
    ask(IOCTL_DEVICE_QUERY, first)
    room = Room.of(DEVICE_QUERY.field(first, "size"))
    if given is not None:
        if len(given) != len(room.data):
            raise ValueError(f"the driver answers with {len(room.data)} bytes where its interface has {len(given)}")
        memoryview(room.data)[:] = given
    ask(IOCTL_DEVICE_QUERY, DEVICE_QUERY.packed(query=query, size=len(room.data), data=room.address))
    answer = room.data.tobytes()
    if len(answer) < struct.calcsize("=II"):
        raise ValueError(f"the driver answers with {len(answer)} bytes, which cannot be")
    return answer
