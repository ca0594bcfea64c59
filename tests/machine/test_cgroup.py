import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.machine import cgroup
from tests.helpers import cannot_run_here, eventually
from tests.machine.processes import kept, log_of, status_of

STRAY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def enclosure() -> Iterator[Enclosure]:
    chosen = cgroup.choose("test", f"L{os.getpid()}", {})
    if chosen.kind is not EnclosureKind.CGROUP:
        cannot_run_here("needs a cgroup2 directory that this user may write")
    yield chosen
    cgroup.kill(chosen)
    eventually(lambda: cgroup.members(chosen) == ())
    cgroup.remove(chosen)


def test_a_name_is_chosen_and_nothing_is_made(enclosure: Enclosure) -> None:
    assert enclosure.name.endswith(f"/arcops/test-L{os.getpid()}")
    assert cgroup.path(enclosure) is None
    assert cgroup.members(enclosure) == ()
    cgroup.kill(enclosure)
    cgroup.remove(enclosure)


def test_without_a_user_manager_there_is_no_scope(tmp_path: Path) -> None:
    (tmp_path / "systemd").mkdir()
    # A socket that nobody answers on is what a dead manager leaves.
    (tmp_path / "systemd" / "private").touch()
    env = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path)}
    assert cgroup.choose("test", "L1", env).kind is not EnclosureKind.SCOPE


def test_a_user_manager_that_answers_gives_a_scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bus").touch()
    tool = tmp_path / "systemctl"
    tool.write_text("#!/bin/sh\necho Version=252\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    env = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path)}
    assert cgroup.choose("main", "L1", env) == Enclosure(EnclosureKind.SCOPE, "arcops-main-L1.scope")


def test_only_a_scope_needs_another_command_line() -> None:
    scope = Enclosure(EnclosureKind.SCOPE, "arcops-main-L1.scope")
    assert cgroup.wrap(scope, ["vllm", "serve"])[-3:] == ("--", "vllm", "serve")
    assert "--unit=arcops-main-L1.scope" in cgroup.wrap(scope, ["vllm"])
    assert cgroup.wrap(Enclosure(EnclosureKind.SESSION, "x"), ["vllm"]) == ("vllm",)
    assert cgroup.enter(scope) is None


@pytest.mark.processes
def test_strays_are_members_and_one_kill_ends_them_all(enclosure: Enclosure, tmp_path: Path) -> None:
    place = cgroup.enter(enclosure)
    assert place == cgroup.path(enclosure)
    with kept(tmp_path, [sys.executable, "-c", STRAY], cgroup=place) as keeper:
        eventually(lambda: "up" in log_of(tmp_path) and len(cgroup.members(enclosure)) == 3)
        assert keeper.pid in cgroup.members(enclosure)
        assert os.getpid() not in cgroup.members(enclosure)
        with pytest.raises(OSError, match="busy"):
            cgroup.remove(enclosure)
        cgroup.kill(enclosure)
        assert keeper.wait(5) == -signal.SIGKILL
        eventually(lambda: cgroup.members(enclosure) == (), within=2)
    cgroup.remove(enclosure)
    assert cgroup.path(enclosure) is None


@pytest.mark.processes
def test_the_keeper_is_spared_while_it_has_company_and_ends_by_itself(enclosure: Enclosure, tmp_path: Path) -> None:
    place = cgroup.enter(enclosure)
    with kept(tmp_path, [sys.executable, "-c", STRAY], cgroup=place) as keeper:
        eventually(lambda: "up" in log_of(tmp_path) and len(cgroup.members(enclosure)) == 3)
        cgroup.kill(enclosure, keeper.pid)
        assert keeper.wait(5) == 0
        assert status_of(tmp_path, ended=True).exit == -signal.SIGKILL
        assert cgroup.members(enclosure, keeper.pid) == ()


@pytest.mark.processes
def test_a_keeper_that_is_left_alone_and_does_not_go_is_killed_too(enclosure: Enclosure, tmp_path: Path) -> None:
    place = cgroup.enter(enclosure)
    with kept(tmp_path, ["sleep", "60"], cgroup=place) as keeper:
        eventually(lambda: len(cgroup.members(enclosure)) == 2)
        keeper.send_signal(signal.SIGSTOP)
        cgroup.kill(enclosure, keeper.pid)
        eventually(lambda: cgroup.members(enclosure) == (keeper.pid,))
        assert keeper.poll() is None
        cgroup.kill(enclosure, keeper.pid)
        assert keeper.wait(5) == -signal.SIGKILL


@pytest.mark.processes
def test_a_scope_whose_maker_has_ended_is_not_searched_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    never = Enclosure(EnclosureKind.SCOPE, f"arcops-test-{os.getpid()}-never.scope")
    ended = os.fork()
    if ended == 0:
        os._exit(0)
    os.waitpid(ended, 0)
    assert cgroup.members(never, ended) == ()
    monkeypatch.setattr(cgroup, "_tree", lambda _: pytest.fail("the whole tree was walked again"))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - it is never called
    assert cgroup.members(never, ended) == ()


@pytest.mark.processes
def test_members_below_the_top_of_the_cgroup_count_and_are_removed_with_it(
    enclosure: Enclosure, tmp_path: Path
) -> None:
    place = cgroup.enter(enclosure)
    assert place is not None
    (place / "inner").mkdir()
    with kept(tmp_path, ["sleep", "60"], cgroup=place / "inner"):
        eventually(lambda: len(cgroup.members(enclosure)) == 2)
        cgroup.kill(enclosure)
        eventually(lambda: cgroup.members(enclosure) == ())
    cgroup.remove(enclosure)
    assert not place.exists()


@pytest.mark.processes
def test_a_scope_is_found_by_a_member_and_by_its_name_and_stays_gone(tmp_path: Path) -> None:
    stand_in = cgroup.choose("test", f"scope{os.getpid()}.scope", {})
    if stand_in.kind is not EnclosureKind.CGROUP:
        cannot_run_here("needs a cgroup2 directory that this user may write")
    place = cgroup.enter(stand_in)
    assert place is not None
    scope = Enclosure(EnclosureKind.SCOPE, place.name)
    try:
        with kept(tmp_path, ["sleep", "60"], cgroup=place) as keeper:
            status_of(tmp_path)
            assert cgroup.path(scope, keeper.pid) == place
            assert len(cgroup.members(scope, keeper.pid)) == 2
            cgroup.kill(scope)
            eventually(lambda: cgroup.members(scope) == ())
    finally:
        eventually(lambda: cgroup.members(stand_in) == ())
        cgroup.remove(stand_in)
    assert cgroup.path(scope) is None
    assert cgroup.members(Enclosure(EnclosureKind.SCOPE, "arcops-test-never.scope")) == ()


@pytest.mark.processes
def test_a_session_has_its_strays_as_members_and_its_keeper_is_spared(tmp_path: Path) -> None:
    session = Enclosure(EnclosureKind.SESSION, "arcops-test-L1")
    with kept(tmp_path, [sys.executable, "-c", STRAY]) as keeper:
        eventually(lambda: "up" in log_of(tmp_path) and len(cgroup.members(session, keeper.pid)) == 3)
        assert cgroup.path(session) is None
        cgroup.kill(session, keeper.pid)
        # Not killed: it ends by itself once the last of its children has, and says so.
        assert keeper.wait(5) == 0
        assert status_of(tmp_path, ended=True).exit == -signal.SIGKILL
        assert cgroup.members(session, keeper.pid) == ()


def test_the_members_of_an_unknown_session_are_unknown_and_not_none() -> None:
    with pytest.raises(OSError, match="not known"):
        cgroup.members(Enclosure(EnclosureKind.SESSION, "x"))
