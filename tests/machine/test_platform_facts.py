"""What a system says of itself below a root of its own: packages, oneAPI, drivers, the vendors' libraries."""

from pathlib import Path

import pytest

from arcops.machine import platform_facts

STATUS = """\
Package: libze1
Status: install ok installed
Priority: optional
Version: 1.21.9.0-1~25.04
Description: words
 Version: not this one

Package: intel-opencl-icd
Status: deinstall ok config-files
Version: 25.18

Package: bash
Status: install ok installed
Version: 5.2

Package: libze-intel-gpu1
Status: install ok installed
Version: 25.40.35563.4-1
"""


def put(root: Path, path: str, text: str = "") -> Path:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def test_debians_packages_are_read_from_its_database(tmp_path: Path) -> None:
    put(tmp_path, "var/lib/dpkg/status", STATUS)
    assert platform_facts.packages(str(tmp_path)) == {
        "libze1": "1.21.9.0-1~25.04",
        "libze-intel-gpu1": "25.40.35563.4-1",
    }


def test_archs_packages_are_read_from_its_database(tmp_path: Path) -> None:
    for name in ("level-zero-loader-1.2-1", "intel-compute-runtime-25.40.35563.4-1", "linux-firmware-20260101-1"):
        put(tmp_path, f"var/lib/pacman/local/{name}/desc")
    found = platform_facts.packages(str(tmp_path))
    assert found == {"intel-compute-runtime": "25.40.35563.4-1", "linux-firmware": "20260101-1"}


def test_fedoras_packages_are_asked_of_rpm(tmp_path: Path) -> None:
    put(tmp_path, "var/lib/rpm/rpmdb.sqlite")
    rpm = put(tmp_path, "rpm", "#!/bin/sh\nprintf 'intel-compute-runtime 25.40-1.fc43\\nbash 5.2-1\\nodd\\n'\n")
    rpm.chmod(0o755)
    assert platform_facts.packages(str(tmp_path), (str(rpm),)) == {"intel-compute-runtime": "25.40-1.fc43"}
    assert platform_facts.packages(str(tmp_path), (str(tmp_path / "nowhere"),)) is None


def test_the_packages_of_a_system_without_a_database_are_unknown(tmp_path: Path) -> None:
    assert platform_facts.packages(str(tmp_path)) is None


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00" * 1000, b"Package: gcc\n" * 10_000, b"\n\n\n\n"])
def test_rubbish_in_the_database_is_no_package(tmp_path: Path, content: bytes) -> None:
    put(tmp_path, "var/lib/dpkg/status").write_bytes(content)
    assert platform_facts.packages(str(tmp_path)) == {}


def test_the_distribution_has_its_name_and_version(tmp_path: Path) -> None:
    put(tmp_path, "etc/os-release", '# words\nNAME="Arch Linux"\nPRETTY_NAME="Arch Linux"\nVERSION_ID=20260101\n')
    assert platform_facts.distribution(str(tmp_path)) == "Arch Linux 20260101"
    put(tmp_path, "etc/os-release", 'PRETTY_NAME="Ubuntu 26.04 LTS"\nVERSION_ID="26.04"\n')
    assert platform_facts.distribution(str(tmp_path)) == "Ubuntu 26.04 LTS"
    assert platform_facts.distribution(str(tmp_path / "nowhere")) is None


def test_the_kernels_options_for_cards_are_told_and_no_others(tmp_path: Path) -> None:
    put(tmp_path, "proc/cmdline", "quiet root=/dev/sda1 xe.max_vfs=0 iommu=pt cryptkey=secret\n")
    assert platform_facts.kernel(str(tmp_path))["kernel options"] == "iommu=pt xe.max_vfs=0"
    assert "kernel options" not in platform_facts.kernel(str(tmp_path / "nowhere"))


def test_a_driver_that_was_built_beside_the_kernel_has_its_own_version(tmp_path: Path) -> None:
    put(tmp_path, "sys/module/xe/srcversion", "ABC123\n")
    put(tmp_path, "sys/module/nvidia/version", "580.95.05\n")
    root = str(tmp_path)
    assert platform_facts.driver("xe", root) == "of the kernel, source ABC123"
    assert platform_facts.driver("nvidia", root) == "580.95.05"
    assert platform_facts.driver("i915", root) is None


def test_the_components_of_oneapi_are_what_latest_leads_to(tmp_path: Path) -> None:
    root = tmp_path / "oneapi"
    for name, version in (("compiler", "2025.2"), ("ccl", "2021.16")):
        (root / name / version).mkdir(parents=True)
        (root / name / "latest").symlink_to(version)
    (root / "licensing").mkdir()
    setup = str(put(root, "setvars.sh"))
    expected = {"oneapi compiler": "2025.2", "oneapi ccl": "2021.16"}
    assert platform_facts.one_api(setup, {}) == expected
    assert platform_facts.one_api(None, {"ONEAPI_ROOT": str(root)}) == expected
    assert platform_facts.one_api(None, {}) == {}
    assert platform_facts.one_api(str(put(tmp_path, "own.sh")), {}) == {}


def test_a_unified_oneapi_has_one_version(tmp_path: Path) -> None:
    assert platform_facts.one_api(str(put(tmp_path, "2025.2/oneapi-vars.sh")), {}) == {"oneapi": "2025.2"}


def test_a_library_is_the_first_that_the_loader_would_find(tmp_path: Path) -> None:
    put(tmp_path, "usr/lib/x86_64-linux-gnu/libze_loader.so.1.21.9")
    (tmp_path / "usr/lib/x86_64-linux-gnu/libze_loader.so.1").symlink_to("libze_loader.so.1.21.9")
    own = put(tmp_path, "own/libze_loader.so.1")
    names = ("libze_loader.so.1", "libcuda.so.1")
    (systems,) = platform_facts.libraries(names, "relative:", str(tmp_path))
    (first,) = platform_facts.libraries(names, str(own.parent), str(tmp_path))
    assert systems.path == str(tmp_path / "usr/lib/x86_64-linux-gnu/libze_loader.so.1.21.9")
    assert first.path == str(own)


def test_the_firmware_files_of_a_driver(tmp_path: Path) -> None:
    put(tmp_path, "lib/firmware/xe/bmg_guc_70.bin.zst")
    put(tmp_path, "lib/firmware/xe/bmg_huc.bin.zst")
    found = platform_facts.firmware_files("xe", str(tmp_path))
    assert [Path(path).name for path in found] == ["bmg_guc_70.bin.zst", "bmg_huc.bin.zst"]
    assert platform_facts.firmware_files("i915", str(tmp_path)) == ()
