import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from arcops.core.cards.measures import CardReading, Quantity
from arcops.core.quantity import Unknown
from arcops.machine.gpu.xe import XeReader
from tests.machine.gpu.readings import AT, absence, detail, is_sound, laid, parts, reasons, source, value
from tests.trees.nodes import SYSTEM, VRAM, XeNode
from tests.trees.sysfs import GIB, Broken, Card, Content, b70, resource

RECORDED = Path(__file__).resolve().parent.parent.parent / "data" / "sysfs"
REGIONS = ((SYSTEM, 62 * GIB, GIB), (VRAM, 32 * GIB - 2**20, 3 * GIB))


def read(root: Path, card: Card, node: XeNode | None = None) -> CardReading:
    """The card's reading, as it is laid out; it is sound, and leaves no node open."""
    roots, found = laid(root, card)
    kernel = node or XeNode(REGIONS)
    reading = XeReader(kernel).read(found[card.address], AT, roots)
    is_sound(reading)
    assert kernel.open_now == 0
    assert set(kernel.opened) <= {f"{roots.dev}/dri/renderD{128 + card.minor}"}
    return reading


def test_memory_is_what_the_driver_says_of_the_cards_own_memory(tmp_path: Path) -> None:
    reading = read(tmp_path, b70())
    assert value(reading, Quantity.MEMORY_TOTAL) == 32 * GIB - 2**20
    assert value(reading, Quantity.MEMORY_USED) == 3 * GIB
    assert source(reading, Quantity.MEMORY_USED) == "ioctl MEM_REGIONS"


def test_memory_of_two_tiles_is_added_up(tmp_path: Path) -> None:
    node = XeNode([(SYSTEM, GIB, 1), (VRAM, 64 * GIB, GIB), (VRAM, 64 * GIB, 2 * GIB)])
    reading = read(tmp_path, b70(), node)
    assert value(reading, Quantity.MEMORY_TOTAL) == 128 * GIB
    assert value(reading, Quantity.MEMORY_USED) == 3 * GIB


def test_a_used_of_zero_is_a_missing_capability_and_no_free_card(tmp_path: Path) -> None:
    reading = read(tmp_path, b70(), XeNode(REGIONS, perfmon=False))
    assert value(reading, Quantity.MEMORY_TOTAL) == 32 * GIB - 2**20
    assert absence(reading, Quantity.MEMORY_USED) == "needs CAP_PERFMON, or Linux 6.18"


def test_of_two_memories_the_known_one_alone_is_no_sum(tmp_path: Path) -> None:
    node = XeNode([(VRAM, 64 * GIB, GIB), (VRAM, 64 * GIB, 0)])
    assert absence(read(tmp_path, b70(), node), Quantity.MEMORY_USED).startswith("needs CAP_PERFMON")


def test_a_part_of_a_processor_has_no_memory_of_its_own(tmp_path: Path) -> None:
    reading = read(tmp_path, b70(), XeNode([(SYSTEM, 62 * GIB, GIB)]))
    for quantity in (Quantity.MEMORY_TOTAL, Quantity.MEMORY_USED):
        assert absence(reading, quantity) == "it has no memory of its own, and uses the host's"


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (errno.EACCES, "this user may not open renderD128; the group `render` may"),
        (errno.EPERM, "this user may not ask renderD128 (a container's rules?)"),
        (errno.ENOENT, "renderD128 is not there (not in this container, or not made by udev)"),
        (errno.ECANCELED, "the card is wedged"),
        (errno.ENODEV, "the card has gone"),
        (errno.EIO, "the card does not answer"),
    ],
)
def test_a_node_that_cannot_be_opened_leaves_the_windows_size_and_says_why(
    tmp_path: Path, refused: int, why: str
) -> None:
    reading = read(tmp_path, b70(), XeNode(refuses=refused))
    assert absence(reading, Quantity.MEMORY_USED) == why
    assert value(reading, Quantity.MEMORY_TOTAL) == 32 * GIB
    assert source(reading, Quantity.MEMORY_TOTAL) == "PCI resource (the largest window)"


def test_a_card_without_nodes_has_its_other_measures(tmp_path: Path) -> None:
    card = b70()
    reading = read(tmp_path, Card(card.address, "xe", 0, card.files, card.bridges, nodes=False), XeNode(REGIONS))
    assert absence(reading, Quantity.MEMORY_USED) == "the driver has made no render node"
    assert detail(reading, "firmware") == "absent: the driver has made no render node"
    assert value(reading, Quantity.CLOCK, "gt0") == 2400


WINDOWS: Mapping[str, tuple[str, str, float | None]] = {
    "of a card with 12 GiB, whose window is 16": ("0xe20b", resource((0, 2**24), (2, 16 * GIB)), 12 * GIB),
    "of a card with 24 GiB, whose window is 32": ("0xe211", resource((2, 32 * GIB)), 24 * GIB),
    "of a card that is not known": ("0xe2ff", resource((2, 16 * GIB)), 16 * GIB),
    "without resizable BAR": ("0xe223", resource((2, GIB // 4)), None),
    "with larger windows of its virtual functions": ("0xe223", resource((2, 16 * GIB), (9, 512 * GIB)), 16 * GIB),
    "that is not prefetchable": ("0xe223", resource((2, 16 * GIB), flags=0x40200), None),
    "of an absurd size": ("0xe223", "0x0 0xffffffffffffffff 0x14220c", None),
    "in other words": ("0xe223", "0x0 -0x1 0x14220c\nnone at all\n0x0", None),
}


@pytest.mark.parametrize("situation", WINDOWS)
def test_the_total_by_a_window(tmp_path: Path, situation: str) -> None:
    model, text, size = WINDOWS[situation]
    reading = read(tmp_path, b70().having({"device": model, "resource": text}), XeNode(refuses=errno.EACCES))
    if size is None:
        assert isinstance(reading.reading(Quantity.MEMORY_TOTAL), Unknown)
    else:
        assert value(reading, Quantity.MEMORY_TOTAL) == size


def test_root_reads_from_debugfs_what_the_node_does_not_tell(tmp_path: Path) -> None:
    words = (RECORDED / "xe_vram_mm_a750_debugfs.txt").read_text()
    card = b70()
    card = Card(card.address, "xe", 0, card.files, card.bridges, {"vram0_mm": words})
    reading = read(tmp_path, card, XeNode(refuses=errno.ENOENT))
    assert value(reading, Quantity.MEMORY_TOTAL) == 8522825728
    assert value(reading, Quantity.MEMORY_USED) == 32079872
    assert source(reading, Quantity.MEMORY_USED) == "debugfs vram0_mm"


SPOILT = {
    "many more memories than bytes": b"\xff\xff\xff\xff",
    "more in use than there is": b"\x01\0\0\0\0\0\0\0" + b"\x01\0\0\0\0\x10\0\0" + b"\x01" + bytes(7) + b"\xff" * 8,
    "no memory of any size": b"\x01\0\0\0\0\0\0\0" + b"\x01\0\0\0\0\x10\0\0" + bytes(16),
    "all bits set": b"\xff" * 184,
}


@pytest.mark.parametrize("situation", SPOILT)
def test_an_answer_that_cannot_be_is_an_absence(tmp_path: Path, situation: str) -> None:
    reading = read(tmp_path, b70().without("resource"), XeNode(REGIONS, spoilt=SPOILT[situation]))
    for quantity in (Quantity.MEMORY_TOTAL, Quantity.MEMORY_USED):
        assert "cannot be" in absence(reading, quantity)


@pytest.mark.parametrize("claims", [0, 4, 7, 9, 100, 2**32 - 1])
def test_an_answer_of_a_length_that_cannot_be_is_an_absence(tmp_path: Path, claims: int) -> None:
    reading = read(tmp_path, b70().without("resource"), XeNode(REGIONS, claims=claims))
    assert "cannot be" in absence(reading, Quantity.MEMORY_TOTAL)
    assert detail(reading, "firmware").startswith("absent: the driver")


def test_debugfs_that_is_not_understood_is_an_absence(tmp_path: Path) -> None:
    card = b70().without("resource")
    for words in ("size: 12\n", "size: 12\nusage: 13\n", "size: 0\nusage: 0\n", "usage: many\nsize: 7\n"):
        other = Card(card.address, "xe", 0, card.files, card.bridges, {"vram0_mm": words})
        reading = read(tmp_path, other, XeNode(refuses=errno.ENOTTY))
        assert absence(reading, Quantity.MEMORY_USED) == "the driver's words there are not understood"


def test_each_gt_has_its_clock_and_its_idle_time_and_the_computing_one_comes_first(tmp_path: Path) -> None:
    reading = read(tmp_path, b70())
    assert parts(reading, Quantity.CLOCK) == ["gt0", "gt1"]
    assert [value(reading, Quantity.CLOCK, gt) for gt in ("gt0", "gt1")] == [2400, 0]
    assert [value(reading, Quantity.CLOCK_MAX, gt) for gt in ("gt0", "gt1")] == [2800, 1500]
    assert [value(reading, Quantity.IDLE_TIME, gt) for gt in ("gt0", "gt1")] == [1, 60]
    assert source(reading, Quantity.CLOCK, "gt1") == "tile0/gt1/freq0/act_freq (media)"


def test_the_time_that_the_whole_card_slept_counts_as_idle(tmp_path: Path) -> None:
    reading = read(tmp_path, b70().having({"power/runtime_suspended_time": "7000"}))
    assert [value(reading, Quantity.IDLE_TIME, gt) for gt in ("gt0", "gt1")] == [8, 67]


def test_a_media_gt_with_a_lower_number_does_not_pass_for_the_computing_one(tmp_path: Path) -> None:
    swapped = {"tile0/gt0/gtidle/name": "gt0-mc", "tile0/gt1/gtidle/name": "gt1-rc"}
    assert parts(read(tmp_path, b70().having(swapped)), Quantity.CLOCK) == ["gt1", "gt0"]


def test_the_job_timeout_is_that_of_the_compute_engines_in_seconds(tmp_path: Path) -> None:
    reading = read(tmp_path, b70())
    assert parts(reading, Quantity.JOB_TIMEOUT) == ["gt0"]
    assert value(reading, Quantity.JOB_TIMEOUT) == 5


def test_the_captured_clocks_of_an_idle_media_gt_are_read(tmp_path: Path) -> None:
    lines = (RECORDED / "xe_b580_gt1_freq_idle.txt").read_text().splitlines()
    names = ("act", "cur", "min", "max", "rp0", "rpa", "rpe", "rpn")
    captured: dict[str, Content] = {
        f"tile0/gt1/freq0/{name}_freq": text for name, text in zip(names, lines[1:], strict=True)
    }
    reading = read(tmp_path, b70().having(captured))
    assert value(reading, Quantity.CLOCK, "gt1") == 0
    assert value(reading, Quantity.CLOCK_MAX, "gt1") == 1500


FREQ = "tile0/gt0/freq0/throttle"
MEDIA = "tile0/gt1/freq0/throttle"
THROTTLING: Mapping[str, tuple[Mapping[str, Content], tuple[str, ...]]] = {
    "nothing": ({}, ()),
    "one file a reason": (
        {f"{FREQ}/status": "1", f"{FREQ}/reason_pl1": "1", f"{FREQ}/reason_thermal": "1"},
        ("pl1", "thermal"),
    ),
    "a reason that is new": ({f"{FREQ}/status": "1", f"{FREQ}/reason_mem_thermal": "1"}, ("mem_thermal",)),
    "no reason given": ({f"{FREQ}/status": "1"}, ("throttled, the driver does not say why",)),
    "all in one file": ({f"{FREQ}/reasons": "pl1 thermal"}, ("pl1", "thermal")),
    "none in one file": ({f"{FREQ}/reasons": "none", f"{FREQ}/status": "0"}, ()),
    "the media gt": ({f"{MEDIA}/status": "1", f"{MEDIA}/reason_pl2": "1"}, ("pl2 (gt1)",)),
    "one gt whose word is missing": (
        {f"{MEDIA}/status": Broken.FOLDER, f"{FREQ}/status": "1", f"{FREQ}/reason_pl4": "1"},
        ("pl4",),
    ),
}


@pytest.mark.parametrize("situation", THROTTLING)
def test_throttling_by(tmp_path: Path, situation: str) -> None:
    files, expected = THROTTLING[situation]
    card = b70()
    replaced = card.without(*(name for name, content in files.items() if isinstance(content, Broken)))
    assert reasons(read(tmp_path, replaced.having(files))) == expected


def test_throttling_that_is_unknown_of_one_gt_is_not_told_to_be_none(tmp_path: Path) -> None:
    reading = read(tmp_path, b70().without(f"{FREQ}/status"))
    assert reading.throttling == Unknown("not in this driver", AT)


def test_sensors_are_known_by_their_label_in_whatever_folder_and_under_whatever_number(tmp_path: Path) -> None:
    before = read(tmp_path / "before", b70())
    sensors = {path: text for path, text in b70().files.items() if path.startswith("hwmon/")}
    moved = {path.replace("/hwmon4/", "/hwmon19/").replace("temp2_", "temp47_"): text for path, text in sensors.items()}
    after = read(tmp_path / "after", b70().without("hwmon/").having(moved))
    for reading in (before, after):
        assert value(reading, Quantity.TEMPERATURE, "pkg") == 61
        assert value(reading, Quantity.TEMPERATURE, "vram") == 74
        assert value(reading, Quantity.ENERGY, "card") == 150
        assert value(reading, Quantity.ENERGY, "pkg") == 90
        assert [value(reading, Quantity.FAN, f"fan{number}") for number in (1, 2, 3)] == [1029, 1193, 0]


def test_the_sensor_of_each_memory_channel_is_left_alone(tmp_path: Path) -> None:
    assert parts(read(tmp_path, b70()), Quantity.TEMPERATURE) == ["pkg", "vram", "mctrl", "pcie"]


def test_a_power_limit_is_told_with_its_kind_and_zero_is_none(tmp_path: Path) -> None:
    reading = read(tmp_path, b70())
    assert value(reading, Quantity.POWER_LIMIT, "card") == 230
    assert value(reading, Quantity.POWER_LIMIT, "card peak") == 460
    assert absence(reading, Quantity.POWER_LIMIT, "pkg") == "no limit is set"


def test_the_captured_sensors_of_a_b70_are_read(tmp_path: Path) -> None:
    files: dict[str, Content] = {}
    for line in (RECORDED / "xe_hwmon_b70_listing.txt").read_text().splitlines():
        path, _, text = line.partition(": ")
        if text != "missing":
            files[path.replace("/sys/class/hwmon/", "hwmon/")] = "123456789" if text == "<increments>" else text
    reading = read(tmp_path, b70().without("hwmon/").having(files))
    assert value(reading, Quantity.ENERGY, "card") == pytest.approx(123.456789)
    assert value(reading, Quantity.POWER_LIMIT, "card") == 275
    assert parts(reading, Quantity.POWER) == [], "the driver has no power, only energy"
    assert absence(reading, Quantity.TEMPERATURE) == "not in this driver"


def test_sensors_that_share_a_label_are_told_apart(tmp_path: Path) -> None:
    reading = read(tmp_path, b70().having({"hwmon/hwmon4/temp5_label": "pkg"}))
    assert parts(reading, Quantity.TEMPERATURE) == ["pkg", "vram", "mctrl", "pkg 2"]
    assert value(reading, Quantity.TEMPERATURE, "pkg") == 61


def test_driver_firmware_and_ids_are_told(tmp_path: Path) -> None:
    reading = read(tmp_path, b70())
    assert detail(reading, "driver") == "xe of Linux 6.18.2"
    assert detail(reading, "firmware") == "GuC submission 1.24.2"
    assert detail(reading, "pci_id") == "8086:e223"
    assert detail(reading, "subsystem") == "8086:1701"
    assert detail(reading, "power_state") == "active"


def test_a_driver_that_was_built_beside_the_kernel_tells_its_own_version(tmp_path: Path) -> None:
    roots, found = laid(tmp_path, b70())
    (tmp_path / "sys/module/xe/version").write_text("1.25.3.4\n")
    assert detail(XeReader(XeNode(REGIONS)).read(found["0000:03:00.0"], AT, roots), "driver") == "xe 1.25.3.4"


@pytest.mark.parametrize("path", ["gt0/uc/guc_info", "tile0/gt0/uc/guc_info"])
def test_root_reads_the_release_of_the_firmware(tmp_path: Path, path: str) -> None:
    words = "GuC firmware: xe/bmg_guc_70.bin\n\tstatus: RUNNING\n\twanted release version 70.29.2\n"
    card = b70()
    debugfs = {path: f"{words}\tfound release version 70.36.0\n\tfound compatibility version 1.17.0"}
    reading = read(tmp_path, Card(card.address, "xe", 0, card.files, card.bridges, debugfs))
    assert detail(reading, "firmware") == "GuC 70.36.0"


def test_debugfs_of_an_older_kernel_is_found_by_the_cards_minor(tmp_path: Path) -> None:
    roots, found = laid(tmp_path, b70(minor=2))
    folder = tmp_path / "sys/kernel/debug/dri/2/gt0/uc"
    folder.mkdir(parents=True)
    (folder / "guc_info").write_text("\tfound release version 70.44.1\n")
    assert detail(XeReader(XeNode(REGIONS)).read(found["0000:03:00.0"], AT, roots), "firmware") == "GuC 70.44.1"


def test_a_firmware_file_without_a_version_is_passed_over(tmp_path: Path) -> None:
    card = b70()
    reading = read(tmp_path, Card(card.address, "xe", 0, card.files, card.bridges, {"gt0/uc/guc_info": "status: N/A"}))
    assert detail(reading, "firmware") == "GuC submission 1.24.2"


def test_firmware_that_nobody_tells_is_an_absence(tmp_path: Path) -> None:
    reading = read(tmp_path, b70(), XeNode(refuses=errno.EACCES))
    assert detail(reading, "firmware").startswith("absent: this user may not open renderD128")
