from dataclasses import replace
from pathlib import Path

import pytest

from arcops.machine.gpu import CardIdentity, find_cards, is_discrete, reader_for
from arcops.machine.gpu.pci import memory_of
from tests.trees.sysfs import b70, lay


def device(root: Path, address: str, **files: str) -> Path:
    folder = root / "bus" / "pci" / "devices" / address
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")
    return folder


def test_display_devices_are_found_in_address_order(tmp_path: Path) -> None:
    second = device(tmp_path, "0000:08:00.0", **{"class": "0x030000", "vendor": "0x8086", "device": "0xe223"})
    (second / "drm" / "renderD129").mkdir(parents=True)
    (second / "drm" / "card1").mkdir()
    drivers = tmp_path / "bus" / "pci" / "drivers" / "xe"
    drivers.mkdir(parents=True)
    (second / "driver").symlink_to(drivers)
    device(tmp_path, "0000:03:00.0", **{"class": "0x030200", "vendor": "0x10de", "device": "0x2335"})
    device(tmp_path, "0000:00:1f.3", **{"class": "0x040300", "vendor": "0x8086", "device": "0x7ad0"})
    assert find_cards(str(tmp_path)) == (
        CardIdentity("0000:03:00.0", 0x10DE, 0x2335, None, None, None),
        CardIdentity("0000:08:00.0", 0x8086, 0xE223, "xe", "Intel Arc Pro B70", "/dev/dri/renderD129"),
    )


def test_a_device_that_goes_away_or_makes_no_sense_is_left_out(tmp_path: Path) -> None:
    device(tmp_path, "0000:03:00.0")
    device(tmp_path, "0000:04:00.0", **{"class": "0x030000", "vendor": "?", "device": "0xe223"})
    assert find_cards(str(tmp_path)) == ()


def test_a_machine_without_pci_has_no_cards(tmp_path: Path) -> None:
    assert find_cards(str(tmp_path)) == ()


def test_every_known_driver_has_a_reader_and_others_have_none() -> None:
    assert all(reader_for(driver) is not None for driver in ("xe", "i915", "amdgpu"))
    assert reader_for("nouveau") is None
    assert reader_for(None) is None


NAMES = {
    0xE223: "Intel Arc Pro B70",
    0xE222: "Intel Arc Pro B65",
    0xE211: "Intel Arc Pro B60",
    0xE212: "Intel Arc Pro B50",
    0xE20B: "Intel Arc B580",
    0xE20C: "Intel Arc B570",
    0x56A0: "Intel Arc A770",
    0x56A1: "Intel Arc A750",
    0x56C0: "Intel Data Center GPU Flex 170",
    0x0BD5: "Intel Data Center GPU Max 1550",
    0xE202: None,
    0x7D55: None,
    0xFFFF: None,
}


@pytest.mark.parametrize("device_id", NAMES, ids=hex)
def test_a_card_is_called_by_its_name_and_a_device_without_one_by_none(tmp_path: Path, device_id: int) -> None:
    roots = lay(tmp_path, b70().having({"device": f"{device_id:#06x}"}))
    assert [card.name for card in find_cards(roots.sys)] == [NAMES[device_id]]


def identity(vendor: int, device_id: int, address: str) -> CardIdentity:
    return CardIdentity(address, vendor, device_id, None, None, None)


@pytest.mark.parametrize(
    ("card", "discrete"),
    [
        (identity(0x8086, 0xE223, "0000:03:00.0"), True),
        (identity(0x8086, 0xE223, "0000:00:02.0"), True),
        (identity(0x8086, 0xE202, "0000:00:02.0"), True),
        (identity(0x8086, 0x7D55, "0000:00:02.0"), False),
        (identity(0x8086, 0xFFFF, "0000:03:00.0"), True),
        (identity(0x10DE, 0x2335, "0000:00:06.0"), True),
        (identity(0x1002, 0x744C, "0000:0a:00.0"), None),
    ],
    ids=["a B70", "a B70 in a virtual machine", "a nameless one", "a processor's", "a newer one", "NVIDIA's", "AMD's"],
)
def test_a_card_of_its_own_is_told_from_a_part_of_a_processor(card: CardIdentity, discrete: bool | None) -> None:
    assert is_discrete(card) is discrete


def test_only_memory_that_is_smaller_than_its_window_is_in_the_table() -> None:
    sizes = {memory_of(identity(0x8086, device_id, "0000:03:00.0")) for device_id in range(0x10000)} - {None}
    assert sizes
    assert all(size & (size - 1) for size in sizes if size is not None), "a power of two is its window's size"
    assert memory_of(identity(0x10DE, 0xE20B, "0000:03:00.0")) is None


@pytest.mark.parametrize("text", ["", "8086", "0x80866", "-0x1", "0x" + "f" * 4000, "0x8_86"])
def test_an_id_that_is_none_is_no_card(tmp_path: Path, text: str) -> None:
    assert find_cards(lay(tmp_path, b70().having({"vendor": text})).sys) == ()


def test_an_accelerator_is_a_card_where_a_graphics_driver_drives_it(tmp_path: Path) -> None:
    accelerator = b70().having({"class": "0x120000"})
    assert [card.address for card in find_cards(lay(tmp_path, accelerator).sys)] == ["0000:03:00.0"]
    assert find_cards(lay(tmp_path, replace(accelerator, driver="habanalabs")).sys) == ()
    assert find_cards(lay(tmp_path, replace(accelerator, driver=None)).sys) == ()
