"""What arcops asks of device nodes is what the kernel's own headers lay down: sizes, offsets, numbers."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from arcops.machine.gpu import i915_query, xe_query
from arcops.machine.gpu.uapi import Layout, Room, opened, request
from tests.helpers import cannot_run_here
from tools.uapi import headers

LAYOUTS = (
    xe_query.DEVICE_QUERY,
    xe_query.MEM_REGIONS,
    xe_query.MEM_REGION,
    xe_query.UC_FW_VERSION,
    i915_query.QUERY,
    i915_query.QUERY_ITEM,
    i915_query.MEMORY_REGIONS,
    i915_query.MEMORY_REGION,
)
NUMBERS = {
    "DRM_IOCTL_XE_DEVICE_QUERY": xe_query.IOCTL_DEVICE_QUERY,
    "DRM_XE_DEVICE_QUERY_MEM_REGIONS": xe_query.QUERY_MEM_REGIONS,
    "DRM_XE_DEVICE_QUERY_UC_FW_VERSION": xe_query.QUERY_UC_FW_VERSION,
    "DRM_XE_MEM_REGION_CLASS_VRAM": xe_query.CLASS_VRAM,
    "XE_QUERY_UC_TYPE_GUC_SUBMISSION": xe_query.GUC_SUBMISSION,
    "DRM_IOCTL_I915_QUERY": i915_query.IOCTL_QUERY,
    "DRM_I915_QUERY_MEMORY_REGIONS": i915_query.QUERY_MEMORY_REGIONS,
    "I915_MEMORY_CLASS_DEVICE": i915_query.CLASS_DEVICE,
}
WIDTHS = {"B": 1, "H": 2, "I": 4, "i": 4, "Q": 8}
BEGINS_WITH = {("drm_i915_memory_region_info", "region"): "region.memory_class"}
"""Fields that are structures themselves, of which the first member is read."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What the compiler makes of the kernel's headers, by expression."""
    include, compiler = headers(), shutil.which("cc")
    if include is None:
        cannot_run_here("no kernel header knows xe here (`make headers` fetches one)")
    if compiler is None:
        cannot_run_here("there is no C compiler")
    folder = tmp_path_factory.mktemp("uapi")
    expressions = [*NUMBERS, *(expression for layout in LAYOUTS for expression in _expressions(layout))]
    lines = "\n".join(f'  printf("%s=%llu\\n", "{one}", (unsigned long long)({one}));' for one in expressions)
    (folder / "told.c").write_text(
        "#include <stdio.h>\n#include <stddef.h>\n#include <drm/xe_drm.h>\n#include <drm/i915_drm.h>\n"
        f"int main(void) {{\n{lines}\n  return 0;\n}}\n"
    )
    built = folder / "told"
    command = [compiler, "-I", str(include), str(folder / "told.c"), "-o", str(built)]
    subprocess.run(command, check=True, timeout=60)
    said = subprocess.run([str(built)], check=True, capture_output=True, text=True, timeout=60).stdout
    return {name: int(value) for name, value in (line.split("=") for line in said.splitlines())}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_a_structure_has_the_size_and_the_offsets_of_the_kernels_header(layout: Layout, told: dict[str, int]) -> None:
    assert told[f"sizeof(struct {layout.name})"] == layout.size
    for name, (offset, code) in layout.fields.items():
        assert told[_offset(layout, name)] == offset, name
        assert told[_width(layout, name)] == WIDTHS[code], name


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_that_of_the_kernels_header(name: str, told: dict[str, int]) -> None:
    assert told[name] == NUMBERS[name]


def test_a_field_is_put_and_found_at_its_offset_and_the_rest_is_zero() -> None:
    data = xe_query.DEVICE_QUERY.packed(query=7, size=32, data=2**63)
    assert [xe_query.DEVICE_QUERY.field(data, name) for name in ("query", "size", "data")] == [7, 32, 2**63]
    assert bytes(data[:8]) == bytes(8)
    assert bytes(data[24:]) == bytes(16)


def test_a_request_without_a_device_behind_it_is_refused_and_the_node_closed(tmp_path: Path) -> None:
    (tmp_path / "node").write_text("no device")
    before = len(os.listdir("/proc/self/fd"))
    with opened(str(tmp_path / "node")) as ask, pytest.raises(OSError, match="Inappropriate ioctl"):
        ask(request(0, xe_query.DEVICE_QUERY), bytearray(40))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("size", [0, -1, 2**32 - 1])
def test_no_room_is_made_for_an_answer_that_cannot_be(size: int) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        Room.of(size)


def _expressions(layout: Layout) -> list[str]:
    fields = [one for name in layout.fields for one in (_offset(layout, name), _width(layout, name))]
    return [f"sizeof(struct {layout.name})", *fields]


def _member(layout: Layout, name: str) -> str:
    return BEGINS_WITH.get((layout.name, name), name)


def _offset(layout: Layout, name: str) -> str:
    return f"offsetof(struct {layout.name}, {_member(layout, name)})"


def _width(layout: Layout, name: str) -> str:
    return f"sizeof(((struct {layout.name} *)0)->{_member(layout, name)})"
