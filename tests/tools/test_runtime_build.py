"""`make runtime` refuses early what it could not use, and says what to do."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.fakes.runtime import BUILDER, ROOT
from tests.helpers import cannot_run_here
from tools.vllm_cpu.torch_wheel import build_for_a_card

X86 = "x86_64"


def report(version: str, *requires: str) -> object:
    return {"install": [{"metadata": {"name": "torch", "version": version, "requires_dist": list(requires)}}]}


@pytest.mark.parametrize(
    "report",
    [
        report("2.13.0+cpu", "filelock", "optree; extra == 'optree'"),
        report("2.13.0", "filelock", "sympy"),
        report("2.13.0", 'nvidia-cublas==13.0; platform_system == "Linux" and platform_machine == "aarch64"'),
        {"install": []},
        {"install": [{"metadata": None}]},
        [],
        None,
    ],
)
def test_a_torch_for_the_cpu_or_one_that_does_not_tell_is_let_through(report: object) -> None:
    assert build_for_a_card(report, X86) is None


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (report("2.13.0+cu130"), "torch 2.13.0+cu130 is a build for a card"),
        (report("2.13.0+xpu", "intel-sycl-rt"), "torch 2.13.0+xpu is a build for a card"),
        (report("2.13.0+rocm7.0"), "torch 2.13.0+rocm7.0 is a build for a card"),
        (
            report("2.13.0", "filelock", 'nvidia-cublas==13.0; platform_machine == "x86_64"'),
            "torch 2.13.0 is a build for a card (it needs nvidia-cublas==13.0)",
        ),
        (
            report("2.13.0", "cuda-bindings>=13; platform_system == 'Linux'"),
            "torch 2.13.0 is a build for a card (it needs cuda-bindings>=13)",
        ),
    ],
)
def test_a_torch_for_a_card_is_told_with_its_reason(report: object, reason: str) -> None:
    assert build_for_a_card(report, X86) == reason


def build(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BUILDER), "--to", str(home)]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=90)


def wheel(folder: Path, version: str) -> None:
    """An empty torch that says that it is for a card."""
    info = f"torch-{version}.dist-info"
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.mark.processes
def test_a_pip_that_would_bring_a_torch_for_a_card_is_refused_before_it_loads_anything(tmp_path: Path) -> None:
    wheel(tmp_path, "2.13.0+cu999")
    done = build(tmp_path / "home", ARCOPS_PIP_ARGS=f"--find-links {tmp_path}")
    if "pinned wheels are for" in done.stderr or "a newer pip than" in done.stderr.partition("error:")[2]:
        cannot_run_here(done.stderr)
    assert done.returncode == 1
    assert "error: torch 2.13.0+cu999 is a build for a card" in done.stderr
    assert "PIP_EXTRA_INDEX_URL" in done.stderr
    assert "ARCOPS_PIP_ARGS" in done.stderr
    assert "installing the pinned packages" not in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("python", ["/nowhere/python3.11", "/bin/true"])
def test_an_interpreter_that_is_none_is_refused_with_a_way_to_get_one(tmp_path: Path, python: str) -> None:
    done = build(tmp_path, ARCOPS_PYTHON311=python)
    assert done.returncode == 1
    assert f"are for Python 3.11, and {python} is none" in done.stderr
    assert "python3.11-venv" in done.stderr


@pytest.mark.processes
def test_arguments_for_pip_that_no_shell_would_take_are_refused(tmp_path: Path) -> None:
    done = build(tmp_path, ARCOPS_PIP_ARGS="--index 'half")
    assert done.returncode == 1
    assert "ARCOPS_PIP_ARGS cannot be split" in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_looks_for_python_311_before_it_builds_anything(target: str) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", target, "ARCOPS_PYTHON311=/nowhere/python3.11", "VENV=/nowhere/venv"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "need exactly Python 3.11" in done.stderr
    assert "uv python install 3.11" in done.stderr
