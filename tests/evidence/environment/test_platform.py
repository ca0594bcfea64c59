"""What is below a runtime on an Arc Pro B70, on a machine of files."""

from dataclasses import replace
from pathlib import Path

import pytest

from arcops.evidence.environment.platform import Platform, platform_of
from arcops.machine.hashes import Hashes
from tests.evidence.environment.runtime import digest_of
from tests.machine.test_platform_facts import STATUS, put
from tests.trees.sysfs import Card, b70, lay

GUC = {"gt0/uc/guc_info": "GuC firmware: xe/bmg_guc_70.bin\n\tfound release version 70.44.1\n"}
LOADER = "usr/lib/x86_64-linux-gnu/libze_loader.so.1"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """With Level Zero, firmware and Debian's packages."""
    put(tmp_path, LOADER, "the loader")
    put(tmp_path, "lib/firmware/xe/bmg_guc_70.bin", "firmware")
    put(tmp_path, "var/lib/dpkg/status", STATUS)
    put(tmp_path, "etc/os-release", 'PRETTY_NAME="Ubuntu 26.04 LTS"\n')
    return tmp_path


def read(machine: Path, *cards: Card, addresses: tuple[str, ...] | None = None) -> Platform:
    roots = lay(machine, *cards)
    put(machine, "sys/module/xe/srcversion", "ABC\n")
    put(machine, "proc/cpuinfo", "model name\t: A Processor\n")
    wanted = tuple(card.address for card in cards) if addresses is None else addresses
    return platform_of(wanted, None, {}, Hashes(str(machine / "hashes")), root=str(machine), roots=roots)


def test_a_card_is_told_by_its_kind_driver_and_firmware(machine: Path) -> None:
    found = read(machine, replace(b70(), debugfs=GUC))
    (card,) = found.cards
    assert card.firmware == (("firmware", "GuC 70.44.1"),)
    assert (card.device_id or "").startswith("8086:e223")
    assert card.driver.startswith("xe")
    assert found.unread == ()


def test_what_a_backend_on_a_card_loads_of_the_systems_is_told(machine: Path) -> None:
    system = dict(read(machine, replace(b70(), debugfs=GUC)).system)
    assert system["level-zero"] == f"libze_loader.so.1, {digest_of(b'the loader')}"
    assert system["package libze1"] == "1.21.9.0-1~25.04"
    assert system["driver xe"] == "of the kernel, source ABC"
    assert system["firmware files xe"].startswith("1 files, sha256:")
    assert system["distribution"] == "Ubuntu 26.04 LTS"
    assert "processor" not in system


@pytest.mark.parametrize("path", [LOADER, "lib/firmware/xe/bmg_guc_70.bin", "var/lib/dpkg/status"])
def test_what_is_replaced_below_is_seen(machine: Path, path: str) -> None:
    before = read(machine, b70())
    text = (machine / path).read_text()
    put(machine, path, text.replace("1.21", "1.22") if "1.21" in text else "replaced")
    assert read(machine, b70()).system != before.system


def test_on_the_processor_nothing_of_cards_is_told(machine: Path) -> None:
    system = dict(read(machine, b70(), addresses=()).system)
    assert system["processor"] == "A Processor"
    assert not {"level-zero", "driver xe", "package libze1"} & system.keys()


def test_firmware_that_may_not_be_read_is_said(machine: Path) -> None:
    found = read(machine, b70())
    assert found.cards[0].firmware == ()
    assert any("the firmware of card 0000:03:00.0 cannot be read" in sentence for sentence in found.unread)


def test_two_like_cards_at_other_addresses_are_the_same(machine: Path) -> None:
    one, two = (read(machine, b70(address)).cards for address in ("0000:03:00.0", "0000:07:00.0"))
    assert one == two


def test_a_system_that_names_no_packages_is_said(machine: Path) -> None:
    (machine / "var/lib/dpkg/status").unlink()
    assert any("packages are not known" in sentence for sentence in read(machine, b70()).unread)
