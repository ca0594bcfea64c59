"""The newcomer's walk: a fresh clone, and the two commands of the README."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.runtime import ROOT
from tests.helpers import cannot_run_here, eventually

pytestmark = [pytest.mark.newcomer, pytest.mark.real, pytest.mark.timeout(900)]

DEMO, TEST = "make demo", "make test"
COMMAND_WITHIN = 840.0
"""Seconds: a machine without the runtime builds it first."""
KEPT = frozenset({"ARCOPS_RUNTIME_HOME", "ARCOPS_PIP_ARGS", "ARCOPS_PYTHON311"})
"""What a newcomer may have set himself; everything else of arcops, of make and of this environment is not his."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A new folder with a clone of this checkout's HEAD, and one for temporary files."""

    clone: Path
    temporary: Path

    def env(self) -> dict[str, str]:
        foreign = ("ARCOPS_", "MAKE", "MFLAGS", "PYTHON", "PYTEST_", "VIRTUAL_ENV", "VENV")
        own = {name: value for name, value in os.environ.items() if name in KEPT or not name.startswith(foreign)}
        return {**own, "TMPDIR": str(self.temporary), "NO_COLOR": "1"}

    def says(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a line of the README there, without a terminal."""
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.clone,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_WITHIN,
        )

    def left(self) -> list[str]:
        """Processes that name one of the folders in their command line, environment or working directory."""
        folders = (str(self.clone).encode(), str(self.temporary).encode())
        return [found for entry in Path("/proc").iterdir() if entry.name.isdigit() and (found := names(entry, folders))]


def names(process: Path, folders: tuple[bytes, ...]) -> str:
    """Pid and command line of a process that names one of the folders, empty for another or one that has gone."""
    try:
        cmdline = (process / "cmdline").read_bytes()
        text = cmdline + (process / "environ").read_bytes() + os.fsencode((process / "cwd").readlink())
    except OSError:
        return ""
    return f"{process.name} {cmdline.decode(errors='replace')}" if any(folder in text for folder in folders) else ""


@pytest.fixture(scope="module")
def walk() -> Generator[Walk]:
    """Below the system's own temporary folder: a control socket's path is short, pytest's folders are long."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        cannot_run_here("this is no git checkout, there is nothing to clone")
    with tempfile.TemporaryDirectory(prefix="arcops-new-") as folder:
        one = Walk(Path(folder) / "clone", Path(folder) / "tmp")
        one.temporary.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(one.clone)], check=True, timeout=120)
        yield one


def test_the_readme_begins_with_exactly_these_two_commands(walk: Walk) -> None:
    block = (walk.clone / "README.md").read_text().partition("```sh\n")[2].partition("```")[0]
    assert [re.sub(r"\s*#.*", "", line) for line in block.splitlines()] == [DEMO, TEST]


def test_the_demo_shows_arcops_at_work_and_leaves_nothing(walk: Walk) -> None:
    demo = walk.says(DEMO)
    assert demo.returncode == 0, demo.stderr[-4000:]
    assert re.search(r"^The supervisor starts.*\w", demo.stdout, re.MULTILINE), demo.stdout
    assert re.search(r"^serving demo-dflash2", demo.stdout, re.MULTILINE), demo.stdout
    eventually(lambda: not walk.left(), why=f"left behind: {walk.left()}")
    assert list(walk.temporary.iterdir()) == []


def test_the_other_command_is_there_with_all_its_steps(walk: Walk) -> None:
    """It is what runs this test: running it in here again would have no end."""
    steps = walk.says(f"{TEST} --dry-run")
    assert steps.returncode == 0, steps.stderr
    for step in ("ruff check", "pyright", "lint-imports", "vllm_cpu/build.py", "pytest"):
        assert step in steps.stdout
