from pathlib import Path

from arcops.machine.gpu import CardIdentity, find_cards, reader_for


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
