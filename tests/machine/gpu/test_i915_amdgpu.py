import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from arcops.core.cards.measures import CardReading, Quantity
from arcops.core.quantity import Unknown
from arcops.machine.gpu.amdgpu import AmdgpuReader
from arcops.machine.gpu.i915 import I915Reader
from tests.machine.gpu.readings import AT, absence, detail, is_sound, laid, parts, reasons, source, value
from tests.trees.nodes import SYSTEM, VRAM, I915Node
from tests.trees.sysfs import GIB, Card, Content, a770, radeon

REGIONS = ((SYSTEM, 62 * GIB, 0), (VRAM, 16 * GIB, 2 * GIB))
GT = "drm/card0/gt/gt0"


def read_i915(root: Path, card: Card, node: I915Node | None = None) -> CardReading:
    roots, found = laid(root, card)
    kernel = node or I915Node(REGIONS)
    reading = I915Reader(kernel).read(found[card.address], AT, roots)
    is_sound(reading)
    assert kernel.open_now == 0
    return reading


def read_amdgpu(root: Path, card: Card) -> CardReading:
    roots, found = laid(root, card)
    reading = AmdgpuReader().read(found[card.address], AT, roots)
    is_sound(reading)
    return reading


def test_i915_memory_is_what_the_driver_says(tmp_path: Path) -> None:
    reading = read_i915(tmp_path, a770())
    assert value(reading, Quantity.MEMORY_TOTAL) == 16 * GIB
    assert value(reading, Quantity.MEMORY_USED) == 2 * GIB
    assert source(reading, Quantity.MEMORY_TOTAL) == "ioctl MEMORY_REGIONS"


def test_i915_memory_that_is_all_free_is_a_missing_capability_and_no_free_card(tmp_path: Path) -> None:
    reading = read_i915(tmp_path, a770(), I915Node(REGIONS, perfmon=False))
    assert absence(reading, Quantity.MEMORY_USED) == "needs CAP_PERFMON"
    assert value(reading, Quantity.MEMORY_TOTAL) == 16 * GIB


def test_i915_graphics_of_a_processor_has_no_memory_of_its_own(tmp_path: Path) -> None:
    reading = read_i915(tmp_path, a770("0000:00:02.0"), I915Node([(SYSTEM, 62 * GIB, 0)]))
    assert "no memory of its own" in absence(reading, Quantity.MEMORY_TOTAL)


def test_i915_without_its_node_gives_the_windows_size(tmp_path: Path) -> None:
    reading = read_i915(tmp_path, a770(), I915Node(refuses=errno.EACCES))
    assert value(reading, Quantity.MEMORY_TOTAL) == 16 * GIB
    assert "the group `render` may" in absence(reading, Quantity.MEMORY_USED)


@pytest.mark.parametrize("spoilt", [b"\xff" * 192, b"\xff\xff\xff\xff", b"\x01" + bytes(15) + b"\x01" + bytes(87)])
def test_an_i915_answer_that_cannot_be_is_an_absence(tmp_path: Path, spoilt: bytes) -> None:
    reading = read_i915(tmp_path, a770().without("resource"), I915Node(REGIONS, spoilt=spoilt))
    assert "cannot be" in absence(reading, Quantity.MEMORY_TOTAL)


@pytest.mark.parametrize(("claims", "why"), [(0, "cannot be"), (3, "cannot be"), (20, "cannot be"), (-22, "driver")])
def test_an_i915_answer_of_a_length_that_cannot_be_is_an_absence(tmp_path: Path, claims: int, why: str) -> None:
    reading = read_i915(tmp_path, a770().without("resource"), I915Node(REGIONS, claims=claims))
    assert why in absence(reading, Quantity.MEMORY_TOTAL)


def test_i915_clocks_and_sensors_are_read(tmp_path: Path) -> None:
    reading = read_i915(tmp_path, a770())
    assert value(reading, Quantity.CLOCK, "gt0") == 2100
    assert value(reading, Quantity.CLOCK_MAX, "gt0") == 2400
    assert value(reading, Quantity.IDLE_TIME, "gt0") == 5
    assert value(reading, Quantity.TEMPERATURE) == 48
    assert value(reading, Quantity.POWER_LIMIT, "power1 sustained") == 190
    assert value(reading, Quantity.ENERGY, "energy1") == 20
    assert value(reading, Quantity.ENERGY, "gt0") == 9
    assert reasons(reading) == ()


def test_an_older_i915_has_one_gt_in_its_primary_nodes_folder(tmp_path: Path) -> None:
    older: dict[str, Content] = {
        "drm/card0/gt_act_freq_mhz": "1300",
        "drm/card0/gt_max_freq_mhz": "1550",
        "drm/card0/power/rc6_residency_ms": "70",
    }
    reading = read_i915(tmp_path, a770().without("drm/").having(older))
    assert value(reading, Quantity.CLOCK, "gt0") == 1300
    assert value(reading, Quantity.CLOCK_MAX, "gt0") == 1550
    assert value(reading, Quantity.IDLE_TIME, "gt0") == pytest.approx(0.07)
    assert reading.throttling == Unknown("not in this driver", AT)


def test_i915_throttling_is_told_in_the_drivers_words(tmp_path: Path) -> None:
    held = {f"{GT}/throttle_reason_status": "1", f"{GT}/throttle_reason_prochot": "1"}
    assert reasons(read_i915(tmp_path, a770().having(held))) == ("prochot",)


def test_i915_firmware_is_read_by_root(tmp_path: Path) -> None:
    words = "GuC firmware: i915/dg2_guc_70.bin\n\tstatus: RUNNING\n\tversion: wanted 70.1.1, found 70.20.0"
    card = a770()
    reading = read_i915(tmp_path, Card(card.address, "i915", 0, card.files, card.bridges, {"gt0/uc/guc_info": words}))
    assert detail(reading, "firmware") == "GuC 70.20.0"


def test_amdgpu_memory_clocks_and_sensors_are_read(tmp_path: Path) -> None:
    reading = read_amdgpu(tmp_path, radeon())
    assert value(reading, Quantity.MEMORY_TOTAL) == 16 * GIB
    assert value(reading, Quantity.MEMORY_USED) == 5 * GIB
    assert value(reading, Quantity.CLOCK, "sclk") == 1730
    assert value(reading, Quantity.CLOCK_MAX, "sclk") == 2526
    assert value(reading, Quantity.CLOCK, "mclk") == 96
    assert value(reading, Quantity.BUSY) == pytest.approx(0.37)
    assert parts(reading, Quantity.TEMPERATURE) == ["edge", "junction", "mem"]
    assert value(reading, Quantity.POWER, "PPT") == 141
    assert value(reading, Quantity.POWER_LIMIT, "PPT") == 303
    assert value(reading, Quantity.MEMORY_ERRORS) == 0
    assert detail(reading, "firmware") == "113-D7020100-102"
    assert reading.throttling == Unknown("only in the driver's binary gpu_metrics", AT)


def test_amdgpu_power_is_read_once_where_both_files_are_there(tmp_path: Path) -> None:
    reading = read_amdgpu(tmp_path, radeon().having({"hwmon/hwmon4/power1_input": "99000000"}))
    assert parts(reading, Quantity.POWER) == ["PPT"]
    assert value(reading, Quantity.POWER) == 141


def test_amdgpu_power_of_the_moment_is_taken_where_there_is_no_average(tmp_path: Path) -> None:
    card = radeon().without("hwmon/hwmon4/power1_average").having({"hwmon/hwmon4/power1_input": "99000000"})
    assert value(read_amdgpu(tmp_path, card), Quantity.POWER, "PPT") == 99


LEVELS: Mapping[str, tuple[str, float | None, float | None]] = {
    "deep sleep": ("S: 19Mhz *\n0: 500Mhz\n1: 2526Mhz", 19, 2526),
    "no level that it is at": ("0: 500Mhz\n1: 2526Mhz", None, 2526),
    "spaces and capitals": ("  0: 500 MHz * \n", 500, 500),
    "other words": ("OD_RANGE:\nSCLK: 500Mhz 2800Mhz", None, None),
    "nothing": ("", None, None),
    "an absurd clock": ("0: 999999Mhz *", None, None),
}


@pytest.mark.parametrize("situation", LEVELS)
def test_an_amdgpu_clock_by(tmp_path: Path, situation: str) -> None:
    text, now, most = LEVELS[situation]
    reading = read_amdgpu(tmp_path, radeon().having({"pp_dpm_sclk": text}))
    for quantity, expected in ((Quantity.CLOCK, now), (Quantity.CLOCK_MAX, most)):
        if expected is None:
            absence(reading, quantity, "sclk")
        else:
            assert value(reading, quantity, "sclk") == expected


def test_amdgpu_memory_that_contradicts_itself_is_no_value(tmp_path: Path) -> None:
    reading = read_amdgpu(tmp_path, radeon().having({"mem_info_vram_used": str(17 * GIB)}))
    assert "cannot be" in absence(reading, Quantity.MEMORY_USED)
    reading = read_amdgpu(tmp_path, radeon().having({"mem_info_vram_total": "0", "mem_info_vram_used": "0"}))
    assert absence(reading, Quantity.MEMORY_TOTAL) == "the driver says that it has none"
    assert absence(reading, Quantity.MEMORY_USED) == "the driver says that it has none"


def test_uncorrected_errors_of_the_memory_are_counted(tmp_path: Path) -> None:
    reading = read_amdgpu(tmp_path, radeon().having({"ras/umc_err_count": "ue: 2\nce: 7"}))
    assert value(reading, Quantity.MEMORY_ERRORS) == 2
    reading = read_amdgpu(tmp_path, radeon().without("ras/"))
    assert absence(reading, Quantity.MEMORY_ERRORS) == "not in this driver"


def test_a_card_for_servers_calls_itself_by_name(tmp_path: Path) -> None:
    reading = read_amdgpu(tmp_path, radeon().having({"product_name": "AMD Instinct MI210"}))
    assert detail(reading, "product") == "AMD Instinct MI210"
