"""What the driver i915 says of a card's memory, asked through its render node.

Source: include/uapi/drm/i915_drm.h (DRM_IOCTL_I915_QUERY, DRM_I915_QUERY_MEMORY_REGIONS). Two steps, as with xe.
"""

from arcops.machine.gpu.memory import Region
from arcops.machine.gpu.uapi import Ask, Layout, Room, request

QUERY = Layout("drm_i915_query", 16, {"num_items": (0, "I"), "flags": (4, "I"), "items_ptr": (8, "Q")})
QUERY_ITEM = Layout(
    "drm_i915_query_item", 24, {"query_id": (0, "Q"), "length": (8, "i"), "flags": (12, "I"), "data_ptr": (16, "Q")}
)
MEMORY_REGIONS = Layout("drm_i915_query_memory_regions", 16, {"num_regions": (0, "I")})
"""Followed by as many of the next."""
MEMORY_REGION = Layout(
    "drm_i915_memory_region_info",
    88,
    {"region": (0, "H"), "probed_size": (8, "Q"), "unallocated_size": (16, "Q")},
)
"""`region` begins with the class of the memory."""
QUERY_NUMBER = 0x39
QUERY_MEMORY_REGIONS = 4
CLASS_DEVICE = 1
IOCTL_QUERY = request(QUERY_NUMBER, QUERY)


def memories(ask: Ask) -> tuple[Region, ...]:
    """The card's own memories; none for a graphics part that has only the host's.

    Raises OSError where the driver refuses, ValueError for an answer that cannot be.
    """
    length = _asked(ask, 0, 0)
    room = Room.of(length)
    _asked(ask, length, room.address)
    answer = room.data.tobytes()
    if len(answer) < MEMORY_REGIONS.size:
        raise ValueError(f"the driver answers with {len(answer)} bytes, which cannot be")
    count = MEMORY_REGIONS.field(answer, "num_regions")
    if MEMORY_REGIONS.size + count * MEMORY_REGION.size > len(answer):
        raise ValueError(f"the driver tells of {count} memories in {len(answer)} bytes, which cannot be")
    starts = [MEMORY_REGIONS.size + index * MEMORY_REGION.size for index in range(count)]
    return tuple(_region(answer, at) for at in starts if MEMORY_REGION.field(answer, "region", at) == CLASS_DEVICE)


def _asked(ask: Ask, length: int, address: int) -> int:
    """One item of a query; what the driver writes into its length. Raises OSError and ValueError."""
    item = Room.of(QUERY_ITEM.size)
    memoryview(item.data)[:] = QUERY_ITEM.packed(query_id=QUERY_MEMORY_REGIONS, length=length, data_ptr=address)
    ask(IOCTL_QUERY, QUERY.packed(num_items=1, items_ptr=item.address))
    said = QUERY_ITEM.field(item.data.tobytes(), "length")
    if said < 0:
        raise OSError(-said, "the driver refuses the question")
    return said


def _region(answer: bytes, start: int) -> Region:
    """To whoever lacks CAP_PERFMON the driver says that all is free."""
    total, free = (MEMORY_REGION.field(answer, name, start) for name in ("probed_size", "unallocated_size"))
    if not 0 < total <= 2**50 or free > total:
        raise ValueError(f"the driver says {free} of {total} bytes free, which cannot be")
    return Region(total, total - free or None)
