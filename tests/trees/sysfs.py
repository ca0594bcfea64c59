"""Lays out a /sys with cards in it (and what of /proc and /dev belongs to it) from a description.

A description is plain data: a card is its PCI device's files by their path, so that a test changes a value, drops a
file or breaks it. Below the device lie the driver's own folders; the bridges above it are folders of their own. Numbers
in the shapes (`b70`, `a770`, `radeon`) are made up in the kernel's form; tests/data/sysfs holds what was captured.
"""

import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Self, TypeAlias

from arcops.machine.gpu.base import Roots

GIB = 2**30
KERNEL = "6.18.2"


class Broken(Enum):
    """What can be in a file's place."""

    MISSING = "nothing"
    FOLDER = "a folder"
    LOOP = "a link to itself"
    PIPE = "a pipe that nobody writes to"
    ENDLESS = "a gigabyte"


Content: TypeAlias = str | bytes | Broken


@dataclass(frozen=True)
class Bridge:
    """A PCI bridge above a card, the outermost first in `Card.bridges`."""

    address: str
    vendor: str = "0x8086"
    files: Mapping[str, Content] = field(default_factory=dict[str, Content])


@dataclass(frozen=True)
class Card:
    """One card: where it is, what is bound to it, and the files below its device."""

    address: str
    driver: str | None
    minor: int
    """Of `drm/cardN`; the render node is 128 more."""
    files: Mapping[str, Content]
    bridges: Sequence[Bridge] = ()
    debugfs: Mapping[str, Content] = field(default_factory=dict[str, Content])
    """Below /sys/kernel/debug/dri/ADDRESS."""
    nodes: bool = True
    """The driver has made `drm/cardN` and its render node."""

    def having(self, files: Mapping[str, Content]) -> Self:
        """With these files changed or added."""
        return replace(self, files={**self.files, **files})

    def without(self, *names: str) -> Self:
        """Without the files whose path is one of these, or begins with one."""
        kept = {path: text for path, text in self.files.items() if not path.startswith(names)}
        return replace(self, files=kept)

    def renumbered(self, minor: int) -> Self:
        """After a rebind: the same device, with other numbers for its nodes and its hwmon."""
        return replace(self, minor=minor, files={_other(path): text for path, text in self.files.items()})


def lay(root: Path, *cards: Card, kernel: str = KERNEL) -> Roots:
    """Everything that was there goes, and these cards are there."""
    for name in ("sys", "dev", "proc"):
        shutil.rmtree(root / name, ignore_errors=True)
    _write(root / "proc/sys/kernel/osrelease", kernel)
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "dev/dri").mkdir(parents=True)
    for card in cards:
        _lay(root, card)
    return Roots(proc=str(root / "proc"), sys=str(root / "sys"), dev=str(root / "dev"))


def device(root: Path, card: Card) -> Path:
    """The folder of the card's device, where it really lies."""
    above = root / "sys/devices/pci0000:00"
    for bridge in card.bridges:
        above /= bridge.address
    return above / card.address


@contextmanager
def spoilt(folder: Path, files: Mapping[str, Content]) -> Generator[None]:
    """With other contents in some files of a folder, and afterwards with those that they had."""
    before = {path: (folder / path).read_bytes() for path in files}
    try:
        for path, content in files.items():
            (folder / path).unlink()
            _write(folder / path, content)
        yield
    finally:
        for path, content in before.items():
            _remove(folder / path)
            _write(folder / path, content)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _lay(root: Path, card: Card) -> None:
    above = root / "sys/devices/pci0000:00"
    for bridge in card.bridges:
        above /= bridge.address
        _files(above, {"vendor": bridge.vendor, "class": "0x060400", **bridge.files})
    folder = device(root, card)
    folder.mkdir(parents=True, exist_ok=True)
    _files(folder, card.files)
    (root / "sys/bus/pci/devices" / card.address).symlink_to(folder)
    if card.driver is not None:
        driver = root / "sys/bus/pci/drivers" / card.driver
        driver.mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(driver)
        (root / "sys/module" / card.driver).mkdir(parents=True, exist_ok=True)
    if card.nodes:
        for name in (f"card{card.minor}", f"renderD{128 + card.minor}"):
            (folder / "drm" / name).mkdir(parents=True, exist_ok=True)
            (root / "dev/dri" / name).touch()
    _files(root / "sys/kernel/debug/dri" / card.address, card.debugfs)


def _files(folder: Path, files: Mapping[str, Content]) -> None:
    for path, content in files.items():
        _write(folder / path, content)


def _write(path: Path, content: Content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    match content:
        case str():
            path.write_text(f"{content}\n")
        case bytes():
            path.write_bytes(content)
        case Broken.MISSING:
            pass
        case Broken.FOLDER:
            path.mkdir(exist_ok=True)
        case Broken.LOOP:
            path.symlink_to(path.name)
        case Broken.PIPE:
            os.mkfifo(path)
        case Broken.ENDLESS:
            path.touch()
            os.truncate(path, GIB)


def _other(path: str) -> str:
    """The number of a hwmon folder is another after a rebind, as is the card's."""
    return path.replace("hwmon/hwmon4/", "hwmon/hwmon11/")


def resource(*windows: tuple[int, int], flags: int = 0x14220C) -> str:
    """A device's `resource`: (number of the window, bytes), prefetchable unless the flags say otherwise."""
    sizes = dict(windows)
    lines = [
        f"{0x4000000000 + (number << 36):#018x} {0x4000000000 + (number << 36) + sizes[number] - 1:#018x} {flags:#018x}"
        if number in sizes
        else f"{0:#018x} {0:#018x} {0:#018x}"
        for number in range(13)
    ]
    return "\n".join(lines)


def switched(slot: Mapping[str, Content], vendor: str = "0x8086", root_vendor: str = "0x8086") -> tuple[Bridge, ...]:
    """Root port, and the two ends of the switch on a card: `slot` is the link of the one towards the slot."""
    inner = {"current_link_width": "1", "current_link_speed": "2.5 GT/s PCIe"}
    return (
        Bridge("0000:00:01.0", root_vendor, slot),
        Bridge("0000:01:00.0", vendor, slot),
        Bridge("0000:02:01.0", vendor, {**inner, "max_link_width": "1", "max_link_speed": "2.5 GT/s PCIe"}),
    )


SLOT: Mapping[str, Content] = {
    "current_link_width": "8",
    "current_link_speed": "16.0 GT/s PCIe",
    "max_link_width": "16",
    "max_link_speed": "32.0 GT/s PCIe",
}


def b70(address: str = "0000:03:00.0", minor: int = 0) -> Card:
    """An Arc Pro B70 as xe shows it: one tile, gt0 computing and gt1 for media, twenty temperatures."""
    return Card(
        address,
        "xe",
        minor,
        {
            **_pci("0x8086", "0xe223", GIB * 32),
            "current_link_width": "1",
            "current_link_speed": "2.5 GT/s PCIe",
            **_xe_gt("tile0/gt0", "gt0-rc", clock="2400", most="2800", idle="1000"),
            "tile0/gt0/engines/ccs/job_timeout_ms": "5000",
            **_xe_gt("tile0/gt1", "gt1-mc", clock="0", most="1500", idle="60000"),
            **_B70_SENSORS,
        },
        switched(SLOT),
    )


def a770(address: str = "0000:03:00.0", minor: int = 0) -> Card:
    """An Arc A770 as i915 shows it, of a kernel that has a folder for each gt."""
    gt = f"drm/card{minor}/gt/gt0"
    reasons = ("pl1", "pl2", "pl4", "thermal", "prochot", "ratl", "vr_thermalert", "vr_tdc")
    return Card(
        address,
        "i915",
        minor,
        {
            **_pci("0x8086", "0x56a0", GIB * 16),
            f"{gt}/rps_act_freq_mhz": "2100",
            f"{gt}/rps_max_freq_mhz": "2400",
            f"{gt}/rc6_residency_ms": "5000",
            f"{gt}/throttle_reason_status": "0",
            **{f"{gt}/throttle_reason_{name}": "0" for name in reasons},
            "hwmon/hwmon4/name": "i915",
            "hwmon/hwmon4/energy1_input": "20000000",
            "hwmon/hwmon4/power1_max": "190000000",
            "hwmon/hwmon4/temp1_input": "48000",
            "hwmon/hwmon4/fan1_input": "900",
            "hwmon/hwmon5/name": "i915_gt0",
            "hwmon/hwmon5/energy1_input": "9000000",
        },
        switched(SLOT),
    )


def radeon(address: str = "0000:0a:00.0", minor: int = 0) -> Card:
    """A Radeon with 16 GiB as amdgpu shows it."""
    sensors = {
        "name": "amdgpu",
        "temp1_label": "edge",
        "temp1_input": "51000",
        "temp2_label": "junction",
        "temp2_input": "63000",
        "temp3_label": "mem",
        "temp3_input": "70000",
        "power1_label": "PPT",
        "power1_average": "141000000",
        "power1_cap": "303000000",
        "fan1_input": "1200",
    }
    return Card(
        address,
        "amdgpu",
        minor,
        {
            **_pci("0x1002", "0x744c", GIB * 16),
            "mem_info_vram_total": str(16 * GIB),
            "mem_info_vram_used": str(5 * GIB),
            "pp_dpm_sclk": "0: 500Mhz\n1: 1730Mhz *\n2: 2526Mhz",
            "pp_dpm_mclk": "0: 96Mhz *\n1: 1249Mhz",
            "gpu_busy_percent": "37",
            "vbios_version": "113-D7020100-102",
            "ras/umc_err_count": "ue: 0\nce: 3",
            **{f"hwmon/hwmon4/{name}": text for name, text in sensors.items()},
        },
        switched(SLOT, "0x1002", "0x1022"),
    )


def _pci(vendor: str, device_id: str, window: int) -> dict[str, Content]:
    return {
        "class": "0x030000",
        "vendor": vendor,
        "device": device_id,
        "subsystem_vendor": vendor,
        "subsystem_device": "0x1701",
        "resource": resource((0, 16 * 2**20), (2, window)),
        "power/runtime_status": "active",
    }


def _xe_gt(path: str, idle_name: str, clock: str, most: str, idle: str) -> dict[str, Content]:
    reasons = ("pl1", "pl2", "pl4", "thermal", "prochot", "ratl", "vr_thermalert", "vr_tdc")
    return {
        f"{path}/freq0/act_freq": clock,
        f"{path}/freq0/cur_freq": most,
        f"{path}/freq0/max_freq": most,
        f"{path}/freq0/throttle/status": "0",
        **{f"{path}/freq0/throttle/reason_{name}": "0" for name in reasons},
        f"{path}/gtidle/name": idle_name,
        f"{path}/gtidle/idle_residency_ms": idle,
    }


_B70_SENSORS: Mapping[str, Content] = {
    f"hwmon/hwmon4/{name}": text
    for name, text in {
        "name": "xe",
        "energy1_label": "card",
        "energy1_input": "150000000",
        "energy2_label": "pkg",
        "energy2_input": "90000000",
        "power1_label": "card",
        "power1_cap": "230000000",
        "power1_crit": "460000000",
        "power2_label": "pkg",
        "power2_cap": "0",
        "temp2_label": "pkg",
        "temp2_input": "61000",
        "temp3_label": "vram",
        "temp3_input": "74000",
        "temp4_label": "mctrl",
        "temp4_input": "58000",
        "temp5_label": "pcie",
        "temp5_input": "55000",
        **{f"temp{6 + channel}_label": f"vram_ch_{channel}" for channel in range(16)},
        **{f"temp{6 + channel}_input": "70000" for channel in range(16)},
        "fan1_input": "1029",
        "fan2_input": "1193",
        "fan3_input": "0",
    }.items()
}
