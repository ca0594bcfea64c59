"""Which build of torch pip would bring, told from its report before a byte of the wheel is loaded."""

import re
from typing import TypeGuard

_FOR_A_CARD = re.compile(r"(nvidia|cuda|triton|rocm|pytorch-triton|intel-sycl|dpcpp)([-_]|\b)")
"""Names of what the builds for cards depend on, and the CPU build does not."""
_ANOTHER_MACHINE = re.compile(r"platform_machine\s*==\s*['\"](\w+)['\"]")


def build_for_a_card(report: object, machine: str) -> str | None:
    """Version and reason, if the torch of pip's installation report is not for the CPU; None if it is, or not told.

    `report` is what `pip install --dry-run --report` writes (pip's documentation, "Installation Report"), `machine`
    this one's as `platform.machine()` says. A build says what it is for in the local part of its version
    ("2.13.0+cpu"), or, where the index allows no local part, by what it depends on.
    """
    metadata = _torch_in(report)
    if metadata is None:
        return None
    version = str(metadata.get("version", ""))
    _, _, local = version.partition("+")
    if local.startswith("cpu"):
        return None
    if local.startswith(("cu", "rocm", "xpu")):
        return f"torch {version} is a build for a card"
    requires = metadata.get("requires_dist")
    needs = [str(one) for one in requires] if _is_list(requires) else []
    for need in needs:
        other = _ANOTHER_MACHINE.search(need)
        if _FOR_A_CARD.match(need.lower()) and (other is None or other[1] == machine):
            return f"torch {version} is a build for a card (it needs {need.partition(';')[0].strip()})"
    return None


def _torch_in(report: object) -> dict[str, object] | None:
    installs = report.get("install") if _is_mapping(report) else None
    for one in installs if _is_list(installs) else []:
        metadata = one.get("metadata") if _is_mapping(one) else None
        if _is_mapping(metadata) and metadata.get("name") == "torch":
            return metadata
    return None


def _is_mapping(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)
