"""From an executable to its Python: shebangs, wrappers, virtual environments, and what cannot be followed."""

import os
import platform
import sys
from pathlib import Path

import pytest

from arcops.machine.interpreter import Program, interpreter_of, program_of

REAL = os.path.realpath(sys.executable)


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    return made(tmp_path / "venv")


def made(prefix: Path, *, system: bool = False) -> Path:
    site = prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    site.mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python").symlink_to(REAL)
    (prefix / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(REAL)}\ninclude-system-site-packages = {str(system).lower()}\nversion = 3.9.1\n"
    )
    script(prefix / "bin" / "vllm", f"#!{prefix}/bin/python\nimport vllm\n")
    return prefix


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_interpreter_is_the_shebangs_and_its_environment_the_one_beside_it(venv: Path) -> None:
    vllm = str(venv / "bin" / "vllm")
    assert program_of(vllm) == Program(str(venv / "bin" / "python"), str(venv), (vllm,))


def test_its_version_is_what_it_says_itself_not_what_pyvenv_cfg_said_once(venv: Path) -> None:
    found = interpreter_of(program_of(str(venv / "bin" / "vllm")))
    assert found.version == f"{platform.python_implementation()} {platform.python_version()}"
    assert found.build is not None
    assert (found.folders, found.remarks) == ((str(next(venv.glob("lib/python3*/site-packages"))),), ())


def test_an_environment_that_sees_the_systems_packages_has_their_folders_as_well(tmp_path: Path) -> None:
    alone, more = (
        interpreter_of(program_of(str(prefix / "bin" / "vllm"))).folders
        for prefix in (made(tmp_path / "a"), made(tmp_path / "b", system=True))
    )
    assert len(more) > len(alone) == 1


def test_an_interpreter_that_does_not_answer_leaves_what_pyvenv_cfg_says_and_a_remark(venv: Path) -> None:
    (venv / "bin" / "python").unlink()
    script(venv / "bin" / "python", "#!/bin/sh\nexit 1\n")
    found = interpreter_of(program_of(str(venv / "bin" / "vllm")))
    assert found.version == "Python 3.9.1"
    assert len(found.folders) == 1
    assert "does not answer" in found.remarks[0]


def test_what_an_interpreter_says_instead_of_an_answer_is_not_believed(venv: Path) -> None:
    (venv / "bin" / "python").unlink()
    for said in ("[]", "nonsense", "[1,2,3,4,5,6,7]", "{}"):
        script(venv / "bin" / "python", f"#!/bin/sh\necho '{said}'\n")
        assert interpreter_of(program_of(str(venv / "bin" / "vllm"))).version == "Python 3.9.1"


@pytest.mark.parametrize(
    "line",
    [
        'exec {venv}/bin/vllm "$@"',
        'exec "{venv}/bin/vllm" "$@"',
        "source {venv}/bin/activate\nexec vllm",
        "{venv}/bin/python -m vllm",
    ],
)
def test_wrappers_in_shell_are_followed(venv: Path, tmp_path: Path, line: str) -> None:
    (venv / "bin" / "activate").touch()
    wrapper = script(tmp_path / "vllm", f"#!/bin/bash\n# not /usr/bin/python3\n{line.format(venv=venv)}\n")
    found = program_of(str(wrapper))
    assert found.python == str(venv / "bin" / "python")
    assert (found.prefix, found.scripts[0], found.remarks) == (str(venv), str(wrapper), ())


def test_a_shebang_that_was_too_long_for_the_kernel_is_understood(venv: Path, tmp_path: Path) -> None:
    text = f"#!/bin/sh\n'''exec' {venv}/bin/python \"$0\" \"$@\"\n' '''\nimport vllm\n"
    found = program_of(str(script(tmp_path / "vllm", text)))
    assert found.python == str(venv / "bin" / "python")


def test_env_looks_in_the_path_that_the_launch_has(venv: Path, tmp_path: Path) -> None:
    wrapper = script(tmp_path / "vllm", "#!/usr/bin/env -S python -u\n")
    assert program_of(str(wrapper), str(venv / "bin")).python == str(venv / "bin" / "python")


def test_wrappers_in_a_ring_end_in_a_remark(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "vllm"
    script(wrapper, f"#!/bin/sh\nexec {wrapper}\n")
    found = program_of(str(wrapper))
    assert (found.python, len(found.remarks)) == (None, 1)


@pytest.mark.parametrize(
    "content", [b"", b"#!", b"#!\n", b"\x7fELF", b"#!/bin/sh\nexec podman run vllm\n", b"#!/usr/bin/env\n"]
)
def test_what_cannot_be_followed_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "vllm").write_bytes(content)
    found = program_of(str(tmp_path / "vllm"))
    assert (found.python is None) == bool(found.remarks)
    assert interpreter_of(found).version is None or found.python


def test_an_executable_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert program_of(str(tmp_path / "vllm")).remarks == (f"{tmp_path}/vllm cannot be read",)


def test_folders_of_pth_files_and_of_pythonpath_are_looked_into(venv: Path, tmp_path: Path) -> None:
    source, overlay = tmp_path / "source", tmp_path / "overlay"
    source.mkdir()
    overlay.mkdir()
    (site,) = venv.glob("lib/python3*/site-packages")
    (site / "a.pth").write_text(f"# words\nimport os\n{source}\n/nowhere\n\0\n")
    found = interpreter_of(program_of(str(venv / "bin" / "vllm")), f"{overlay}:relative:/nowhere")
    assert found.folders == (str(overlay), str(site), str(source))
