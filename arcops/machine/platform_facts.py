"""What is installed below the runtime: kernel, distribution, C library, drivers, the vendors' libraries and packages.

Each function reads files of the system's own, bounded, and gives what it found; None or nothing where it is not there.
"""

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

LARGEST: Final = 64 << 20
"""Bytes of a package database; Debian's with 3,000 packages has six million."""
WITHIN: Final = 30.0
"""Seconds that rpm has for its answer."""
LIBRARY_FOLDERS: Final = (
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)
PACKAGES: Final = re.compile(
    r"(?:lib)?level-zero|libze(?:1|-loader|-intel-gpu1?)|intel-level-zero-gpu(?:-raytracing)?|libze-intel-gpu-raytracing"
    r"|intel-(?:opencl(?:-icd)?|compute-runtime|igc-(?:core|opencl)(?:-\d)?|graphics-compiler|ocloc|gsc|fw-gpu)"
    r"|libigc\d*|libigdfcl\d*|libigdgmm\d*|libigsc\d*|intel-i915-dkms|xpu-kmod-dkms|xe-dkms"
    r"|linux-firmware(?:-intel.*)?|firmware-(?:intel-graphics|misc-nonfree|nvidia-.*)|intel-gpu-firmware"
    r"|nvidia-(?:driver|utils|open|dkms|kernel-open.*)(?:-\d.*)?|libnvidia-compute(?:-.*)?|cuda-(?:compat|drivers).*"
    r"|gcc|g\+\+|gcc-c\+\+|libnuma1|libtcmalloc-minimal4(?:t64)?"
)
"""Packages that decide what runs on a card, and what compiles kernels for it: Debian's, Ubuntu's, Intel's, Fedora's and
Arch's names."""
OPTIONS: Final = re.compile(
    r"(?:xe|i915|amdgpu|nvidia|drm|iommu|intel_iommu|amd_iommu|pci|pcie_aspm|mitigations)[.=].*"
)
"""Words of the kernel's command line that concern cards."""


@dataclass(frozen=True, slots=True)
class Library:
    """A shared library as the loader would find it."""

    name: str
    """`libze_loader.so.1`"""
    path: str
    """The file itself, links followed: its name has the version."""


def kernel(root: str = "/") -> dict[str, str]:
    """Release, build, and the options that concern cards."""
    found = os.uname()
    facts = {"kernel": found.release, "kernel build": found.version}
    words = _text(os.path.join(root, "proc/cmdline"), 1 << 16).split()
    options = sorted({word for word in words if OPTIONS.fullmatch(word)})
    return facts | ({"kernel options": " ".join(options)} if options else {})


def distribution(root: str = "/") -> str | None:
    """Name and version of the distribution (os-release(5))."""
    for place in ("etc/os-release", "usr/lib/os-release"):
        said = dict(_settings(_text(os.path.join(root, place), 1 << 16)))
        if "PRETTY_NAME" in said or "NAME" in said:
            version = said.get("VERSION_ID", "")
            name = said.get("PRETTY_NAME") or said["NAME"]
            return name if version in name else f"{name} {version}"
    return None


def c_library() -> str | None:
    """`glibc 2.41`; the one that this process has, and that a program of this system is linked with."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return " ".join(platform.libc_ver()).strip() or None


def processor(root: str = "/") -> str | None:
    """The first processor's model, as the kernel calls it."""
    for line in _text(os.path.join(root, "proc/cpuinfo"), 1 << 16).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model") and value.strip():
            return value.strip()
    return None


def driver(name: str, root: str = "/") -> str | None:
    """A kernel module's own version, where it has one (it was built beside the kernel), and its source's digest."""
    folder = os.path.join(root, "sys/module", name)
    if not os.path.isdir(folder):
        return None
    version = _text(os.path.join(folder, "version"), 4096).strip()
    source = _text(os.path.join(folder, "srcversion"), 4096).strip()
    return ", ".join(part for part in (version or "of the kernel", f"source {source}" if source else "") if part)


def one_api(setup: str | None, variables: Mapping[str, str]) -> dict[str, str]:
    """The components of oneAPI that a set-up script takes, each with its version: what `latest` leads to.

    A unified layout (`ROOT/2025.2/oneapi-vars.sh`) has one version for all.
    """
    root = variables.get("ONEAPI_ROOT") or ""
    if setup is not None and os.path.basename(setup) in ("setvars.sh", "oneapi-vars.sh"):
        root = root or os.path.dirname(setup)
        version = os.path.basename(os.path.dirname(os.path.realpath(setup)))
        if os.path.basename(setup) == "oneapi-vars.sh" and re.fullmatch(r"\d+(\.\d+)*", version):
            return {"oneapi": version}
    if not os.path.isabs(root):
        return {}
    found: dict[str, str] = {}
    for name in _names(root):
        latest = os.path.join(root, name, "latest")
        if os.path.islink(latest):
            found[f"oneapi {name}"] = os.path.basename(os.path.realpath(latest))
    return found


def libraries(names: Iterable[str], search: str = "", root: str = "/") -> tuple[Library, ...]:
    """These libraries where they are: `search` is an LD_LIBRARY_PATH, and comes before the system's folders."""
    first = [folder for folder in search.split(":") if os.path.isabs(folder)]
    places = (*first, *(os.path.join(root, folder.lstrip("/")) for folder in LIBRARY_FOLDERS))
    found: list[Library] = []
    for name in names:
        path = next((path for place in places if os.path.isfile(path := os.path.join(place, name))), None)
        if path is not None:
            found.append(Library(name, os.path.realpath(path)))
    return tuple(found)


def packages(root: str = "/", rpm: Sequence[str] = ("rpm",)) -> dict[str, str] | None:
    """Version of each installed package of `PACKAGES`, by the database of dpkg or pacman, or by asking rpm.

    None where there is no such database, or rpm does not answer.
    """
    status = os.path.join(root, "var/lib/dpkg/status")
    pacman = os.path.join(root, "var/lib/pacman/local")
    pairs: Iterable[tuple[str, str]] | None = None
    if os.path.isfile(status):
        pairs = _of_dpkg(_text(status, LARGEST))
    elif os.path.isdir(pacman):
        pairs = ((name.rsplit("-", 2)[0], "-".join(name.rsplit("-", 2)[1:])) for name in _names(pacman))
    elif any(os.path.isdir(os.path.join(root, place)) for place in ("var/lib/rpm", "usr/lib/sysimage/rpm")):
        pairs = _of_rpm(rpm)
    return None if pairs is None else {name: version for name, version in pairs if PACKAGES.fullmatch(name)}


def firmware_files(driver_name: str, root: str = "/") -> tuple[str, ...]:
    """The files that a driver loads into its cards (GuC, HuC, GSC); what a running card has is as old as its load."""
    folder = next(
        (
            one
            for place in ("lib/firmware", "usr/lib/firmware")
            if os.path.isdir(one := os.path.join(root, place, driver_name))
        ),
        None,
    )
    if folder is None:
        return ()
    files = (os.path.join(folder, name) for name in _names(folder))
    return tuple(path for path in files if os.path.isfile(path))[:200]


def _of_dpkg(text: str) -> Iterator[tuple[str, str]]:
    """From dpkg's database: paragraphs of `Field: value`. What is not installed (only its settings are) is left out."""
    for paragraph in text.split("\n\n"):
        said: dict[str, str] = {}
        for line in paragraph.split("\n"):
            name, colon, value = line.partition(": ")
            if colon and name in ("Package", "Version", "Status"):
                said[name] = value.strip()
        if said.get("Status", "").endswith(" installed") and "Package" in said and "Version" in said:
            yield said["Package"], said["Version"]


def _of_rpm(rpm: Sequence[str]) -> list[tuple[str, str]] | None:
    form = "%{NAME} %{VERSION}-%{RELEASE}\\n"
    try:
        done = subprocess.run(
            [*rpm, "-qa", "--qf", form], stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = (line.partition(" ") for line in done.stdout[:LARGEST].decode("utf-8", "replace").splitlines())
    return [(name, version.strip()) for name, space, version in lines if space]


def _settings(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            yield name.strip(), value.strip().strip("\"'")[:200]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(path: str, most: int) -> str:
    """A file of the system's; empty where it is not there, or may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            # A buffer is made as large as is asked for; files of /proc give their size as 0.
            size = max(os.fstat(descriptor).st_size, 1 << 16)
            return (file.read(min(size, most)) or b"").decode("utf-8", "replace")
    except OSError:
        return ""
