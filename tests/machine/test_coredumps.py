"""Dumps that drivers have kept: of which card they are, and nothing of what is no card's."""

from pathlib import Path

import pytest

from arcops.machine import coredumps

CARD = "0000:03:00.0"


def with_dump(sys: Path, name: str, target: str) -> None:
    folder = sys / "class/devcoredump" / name
    folder.mkdir(parents=True)
    (folder / "failing_device").symlink_to(target)


def test_each_dump_is_named_with_the_card_that_failed(tmp_path: Path) -> None:
    with_dump(tmp_path, "devcd1", f"../../../pci0000:00/0000:00:01.0/{CARD}")
    with_dump(tmp_path, "devcd2", "../../platform/somewhere")
    with_dump(tmp_path, "disabled", f"../../{CARD}")
    (tmp_path / "class/devcoredump/devcd3").mkdir()
    assert coredumps.present(str(tmp_path)) == (("devcd1", CARD),)


@pytest.mark.parametrize("name", ["devcd9", "..", "devcd1"])
def test_a_dump_that_is_gone_again_is_nobodys(tmp_path: Path, name: str) -> None:
    assert coredumps.device_of(name, str(tmp_path)) is None


def test_a_kernel_without_such_a_class_has_none(tmp_path: Path) -> None:
    assert coredumps.present(str(tmp_path)) == ()
