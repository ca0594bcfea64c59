"""systemd's programs: asked with a deadline, and their failures turned into what a person can do."""

import os
from pathlib import Path

import pytest

from arcops.machine import managers
from arcops.machine.managers import Answer, ManagerError, NoUserBusError
from tests.helpers import eventually

ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}


def failed(argv: str, err: str) -> Answer:
    return Answer(tuple(argv.split()), 1, "", err)


def test_an_answer_is_what_was_said_and_returned() -> None:
    answer = managers.ask(("sh", "-c", "echo A=1; echo B=x=y; echo bad >&2; exit 3"), ENV)
    assert (answer.code, answer.properties, answer.complaint) == (3, {"A": "1", "B": "x=y"}, "bad")
    with pytest.raises(ManagerError, match="fails: bad"):
        managers.tell(("sh", "-c", "echo bad >&2; exit 3"), ENV)


def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(ManagerError, match=r"does not answer within 0\.5 s"):
        managers.ask(("sh", "-c", script), ENV, 0.5)
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])


def test_one_that_is_not_there_is_named() -> None:
    with pytest.raises(ManagerError, match="nosuchprogram cannot be started: No such file or directory"):
        managers.ask(("nosuchprogram",), ENV)


@pytest.mark.parametrize(
    "err",
    [
        "Failed to connect to bus: No medium found",
        "Failed to connect to user scope bus via local transport: $XDG_RUNTIME_DIR not defined",
        "Failed to connect to bus: Operation not permitted",
        "Failed to connect to bus: Permission denied",
    ],
)
def test_no_user_bus_is_an_error_of_its_own(err: str) -> None:
    error = managers.error_of(failed("systemctl --user start arcops", err), ENV)
    assert isinstance(error, NoUserBusError)
    assert "log in" in error.hint


def test_a_refusal_names_the_command_for_root() -> None:
    argv = "loginctl --no-ask-password enable-linger ann"
    error = managers.error_of(failed(argv, "Could not enable linger: Access denied"), ENV)
    assert error.hint == "as root: sudo loginctl enable-linger ann"
    assert "service install" in managers.error_of(failed("systemctl --user start x", "Unit x not found."), ENV).hint
    assert managers.error_of(failed("systemctl --user start x", ""), ENV).message.endswith("fails: exit code 1")


def test_ones_own_runtime_directory_is_filled_in_where_it_is_there(tmp_path: Path) -> None:
    assert "XDG_RUNTIME_DIR" not in managers.environment({}, str(tmp_path))
    own = tmp_path / str(os.getuid())
    own.mkdir()
    assert managers.environment({}, str(tmp_path))["XDG_RUNTIME_DIR"] == str(own)
    assert managers.environment({"XDG_RUNTIME_DIR": "/mine"}, str(tmp_path))["XDG_RUNTIME_DIR"] == "/mine"


def test_the_hint_fits_how_one_came_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / str(os.getuid())
    assert "loginctl enable-linger" in managers.no_bus_hint({}, str(tmp_path))
    own.mkdir()
    assert f"`export XDG_RUNTIME_DIR={own}`" in managers.no_bus_hint({}, str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    hint = managers.no_bus_hint({"XDG_RUNTIME_DIR": str(own)}, str(tmp_path))
    assert "and you are 4711 (su, sudo)" in hint


@pytest.mark.parametrize("more", ["", 'See "systemctl --user status x" for details.\n'])
def test_a_pointer_to_elsewhere_is_no_complaint(more: str) -> None:
    assert failed("systemctl --user start x", f"Job for x failed.\n{more}").complaint == "Job for x failed."
