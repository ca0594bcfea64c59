"""What a launch makes on the file system goes with it, and nothing else does."""

import errno
import mmap
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from arcops.machine import launch_folder, proc
from arcops.machine.launch_folder import COMPILED, LONGEST_SOCKET, SOCKETS, TEMPORARY
from tests.helpers import cannot_run_here

LAUNCH = "20270115080000-ab12"
SHARED = Path("/dev/shm")


def folder_below(path: Path) -> str:
    return launch_folder.of(str(path / f"{LAUNCH}.json"))


def test_sockets_and_temporary_files_get_folders_that_nobody_else_may_look_into(tmp_path: Path) -> None:
    folder = folder_below(tmp_path)
    made = launch_folder.make(folder, {TEMPORARY: str(tmp_path), "USER": "op/er"}, own=())
    temporary = tmp_path / f"arcops-{os.getuid()}-{LAUNCH}"
    assert made.variables[TEMPORARY] == str(temporary)
    assert made.variables[COMPILED] == f"{tmp_path}/torchinductor_op_er"
    assert made.lost is None or "would have more than" in made.lost
    assert [path.stat().st_mode & 0o777 for path in (Path(folder), temporary)] == [0o700, 0o700]
    (temporary / "below").mkdir()
    (temporary / "below" / "file").touch()
    launch_folder.remove(folder)
    assert list(tmp_path.iterdir()) == []
    launch_folder.remove(folder)


def test_the_longest_path_that_is_used_for_sockets_takes_one_and_a_longer_one_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(prefix="long-") as short:
        monkeypatch.setattr(launch_folder, "SHORT", short)
        own = {TEMPORARY: short}
        longest = f"{short}/{'x' * (LONGEST_SOCKET - len(short) - 38)}"
        assert launch_folder.make(longest, own, own=own).variables == {SOCKETS: longest}
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"{longest}/{uuid.uuid4()}")
        refused = launch_folder.make(f"{longest}x", own, own=own)
        assert refused.variables[SOCKETS] != f"{longest}x"
        assert refused.elsewhere is not None


@pytest.fixture
def short() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="s-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch_folder, "SHORT", folder)
        yield Path(folder)


def test_where_neither_has_room_for_a_socket_a_short_place_is_made_and_goes_with_the_launch(
    tmp_path: Path, short: Path
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    folder = folder_below(deep)
    made = launch_folder.make(folder, {TEMPORARY: str(deep)}, own=())
    place = short / f"arcops-{os.getuid()}-{LAUNCH}"
    assert made.variables[SOCKETS] == str(place)
    assert made.variables[TEMPORARY].startswith(f"{deep}/")
    assert made.lost is None
    assert made.elsewhere is not None
    assert made.elsewhere.startswith(f"the launch's sockets are in {place}: ")
    assert place.stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"{place}/{uuid.uuid4()}")
        assert launch_folder.in_use(folder)
    launch_folder.remove(folder)
    assert [*deep.iterdir(), *short.iterdir()] == []


def test_where_the_short_place_is_somebody_elses_sockets_stay_beside_it_and_that_is_said(
    tmp_path: Path, short: Path
) -> None:
    """Left to itself, vLLM would make them in its temporary folder, find the path too long, and not start."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    taken = short / f"arcops-{os.getuid()}-{LAUNCH}"
    taken.mkdir()
    made = launch_folder.make(folder_below(deep), {TEMPORARY: str(deep)}, own=())
    assert made.variables[SOCKETS] == str(short)
    assert made.lost is not None
    assert made.lost.startswith(f"vLLM's sockets stay in {short}: ")
    launch_folder.remove(folder_below(deep))
    assert taken.exists()


def test_a_folder_that_cannot_be_made_is_said_and_spoils_no_launch(tmp_path: Path) -> None:
    made = launch_folder.make(str(tmp_path / "not there" / LAUNCH), {}, own=())
    assert made.variables == {}
    assert made.lost is not None
    assert "No such file or directory" in made.lost


def test_what_a_profile_sets_is_left_alone(tmp_path: Path) -> None:
    environment = {SOCKETS: "/own", TEMPORARY: "/own", COMPILED: "/own"}
    assert launch_folder.make(folder_below(tmp_path), environment, own=environment).variables == {}


@contextmanager
def shared(name: str) -> Generator[Path]:
    path = SHARED / name
    path.write_bytes(bytes(16))
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            yield path
    finally:
        with suppress(FileNotFoundError):
            path.unlink()


def test_shared_memory_of_the_launch_is_removed_and_what_others_have_laid_there_is_not(tmp_path: Path) -> None:
    folder = Path(folder_below(tmp_path))
    folder.mkdir()
    since = time.time() - 5.0
    number = secrets.token_hex(4)
    with shared(f"psm_{number}") as own, shared(f"weights-{number}") as weights, shared(f"psm_{number}0") as replaced:
        launch_folder.note_shared(str(folder), [os.getpid()], since)
        assert (folder / "shared-memory").stat().st_size > 0
        # Another of the same name since: it is not the one that was noted.
        held = replaced.open("rb")
        replaced.unlink()
        replaced.write_bytes(b"another's")
        launch_folder.remove(str(folder))
        held.close()
        assert [path.exists() for path in (own, weights, replaced)] == [False, True, True]


def test_what_was_there_before_the_launch_and_what_it_does_not_map_is_not_noted(tmp_path: Path) -> None:
    folder = Path(folder_below(tmp_path))
    folder.mkdir()
    number = secrets.token_hex(4)
    with shared(f"psm_{number}"):
        launch_folder.note_shared(str(folder), [os.getpid()], since=time.time() + 60.0)
        launch_folder.note_shared(str(folder), [], since=0.0)
    assert list(folder.iterdir()) == []


def test_a_process_that_may_not_be_looked_at_is_told_and_the_others_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(folder_below(tmp_path))
    folder.mkdir()
    mappings = proc.mappings

    def of(pid: int) -> frozenset[tuple[int, str]]:
        if pid == 1:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return mappings(pid)

    monkeypatch.setattr(proc, "mappings", of)
    with shared(f"psm_{secrets.token_hex(4)}") as own:
        with pytest.raises(PermissionError):
            launch_folder.note_shared(str(folder), [1, os.getpid()], since=time.time() - 5.0)
        assert str(own) in (folder / "shared-memory").read_text()


def test_a_link_is_not_followed_and_a_strange_temporary_folder_is_left_alone(tmp_path: Path) -> None:
    folder, strange = Path(folder_below(tmp_path)), tmp_path / "strange"
    folder.mkdir()
    strange.mkdir()
    (folder / "temporary").symlink_to(strange)
    launch_folder.remove(str(folder))
    assert strange.exists()
    assert not folder.exists()
    folder.symlink_to(strange)
    launch_folder.remove(str(folder))
    assert strange.exists()


@pytest.mark.parametrize("name", ["documents", "20270115080000", f"{LAUNCH}.old", "..", ""])
def test_a_folder_that_no_launch_could_have_is_refused(tmp_path: Path, name: str) -> None:
    """A status path that was tampered with, or torn, takes nothing else with it."""
    (tmp_path / "below" / "documents").mkdir(parents=True)
    with pytest.raises(OSError, match="no folder of a launch"):
        launch_folder.remove(str(tmp_path / "below" / name) if name else "")
    assert (tmp_path / "below" / "documents").exists()


def test_a_temporary_folder_that_is_there_already_is_another_launchs_and_stays(tmp_path: Path) -> None:
    """Another instance of this user, whose launch happens to have the same id."""
    folder, place = folder_below(tmp_path), tmp_path / f"arcops-{os.getuid()}-{LAUNCH}"
    place.mkdir()
    (place / "of the other").touch()
    made = launch_folder.make(folder, {TEMPORARY: str(tmp_path)}, own=())
    assert made.variables == {}
    assert made.lost is not None
    assert "File exists" in made.lost
    launch_folder.remove(folder)
    assert (place / "of the other").exists()
    assert not Path(folder).exists()


def test_a_temporary_folder_of_another_users_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_below(tmp_path)
    own = os.getuid()
    place = tmp_path / f"arcops-{own + 1}-{LAUNCH}"
    for one in (Path(folder), place):
        one.mkdir()
    (Path(folder) / "temporary").symlink_to(place)
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    launch_folder.remove(folder)
    assert place.exists()
    assert Path(folder).exists()


def test_where_a_relative_folder_is_usual_the_launch_is_told_the_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in another directory than its supervisor."""
    monkeypatch.chdir(tmp_path)
    made = launch_folder.make(folder_below(tmp_path), {TEMPORARY: "."}, own=())
    assert made.variables[TEMPORARY] == str(tmp_path / f"arcops-{os.getuid()}-{LAUNCH}")


def test_what_goes_while_it_is_removed_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(folder_below(tmp_path))
    folder.mkdir()
    for number in range(3):
        (folder / str(number)).touch()
    unlink = os.unlink

    def as_well(path: str, *, dir_fd: int | None = None) -> None:
        unlink(path, dir_fd=dir_fd)
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", as_well)
    launch_folder.remove(str(folder))
    assert not folder.exists()


@pytest.mark.processes
def test_a_file_system_that_is_mounted_below_is_not_emptied(tmp_path: Path) -> None:
    """A bind mount has the device of the folder around it, so that only the table of mounts tells."""
    folder = Path(folder_below(tmp_path))
    below, precious = folder / "with a blank", tmp_path / "precious"
    for one in (below, precious):
        one.mkdir(parents=True)
    (precious / "file").touch()
    remove = f"from arcops.machine import launch_folder; launch_folder.remove({str(folder)!r})"
    script = 'mount --bind "$1" "$2" || exit 77; exec "$3" -c "$4"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(precious), str(below), sys.executable, remove],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 77 or done.stderr.startswith("unshare"):
        cannot_run_here(f"nothing can be mounted: {done.stderr}")
    assert "a file system is mounted there" in done.stderr
    assert (precious / "file").exists()
    launch_folder.remove(str(folder))
    assert not folder.exists()


def test_the_folders_of_launches_are_found_by_their_names_and_one_with_a_living_socket_is_in_use(
    tmp_path: Path,
) -> None:
    for name in (LAUNCH, "20270115070000-ff00", "strange"):
        (tmp_path / name).mkdir()
    (tmp_path / "20270115060000-ff00").touch()
    first, second = launch_folder.left(str(tmp_path))
    assert (Path(first).name, Path(second).name) == ("20270115070000-ff00", LAUNCH)
    here = os.open(second, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert not launch_folder.in_use(second)
    finally:
        os.close(here)
    assert launch_folder.left(str(tmp_path / "nowhere")) == ()


def test_fresh_caches_are_empty_whatever_the_profile_sets_and_go_with_the_launch(tmp_path: Path) -> None:
    old = tmp_path / "cache of an earlier launch"
    environment = {TEMPORARY: str(tmp_path), "VLLM_CACHE_ROOT": str(old), COMPILED: str(old), "HOME": "/home/op"}
    folder = folder_below(tmp_path / "run")
    Path(folder).parent.mkdir()
    made = launch_folder.make(folder, environment, own=("VLLM_CACHE_ROOT",), fresh_caches=True)
    caches = {name: Path(made.variables[name]) for name in launch_folder.CACHES}
    assert {"VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "SYCL_CACHE_DIR"} <= caches.keys()
    assert len(set(caches.values())) == len(caches)
    for place in caches.values():
        assert place.is_relative_to(made.variables[TEMPORARY])
        assert list(place.iterdir()) == []
        assert place.stat().st_mode & 0o777 == 0o700
    (caches["TRITON_CACHE_DIR"] / "kernel").mkdir()
    launch_folder.remove(folder)
    assert not any(place.exists() for place in caches.values())
    assert not Path(made.variables[TEMPORARY]).exists()


def test_a_launch_that_keeps_the_temporary_folder_of_its_profile_has_fresh_caches_all_the_same(tmp_path: Path) -> None:
    folder = folder_below(tmp_path)
    environment = {TEMPORARY: str(tmp_path / "of the profile")}
    Path(environment[TEMPORARY]).mkdir()
    made = launch_folder.make(folder, environment, own=environment, fresh_caches=True)
    assert TEMPORARY not in made.variables
    cache = Path(made.variables["VLLM_CACHE_ROOT"])
    assert cache.is_relative_to(environment[TEMPORARY])
    launch_folder.remove(folder)
    assert list(Path(environment[TEMPORARY]).iterdir()) == []


def test_without_a_place_for_fresh_caches_there_is_no_launch_with_old_ones(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        launch_folder.make(str(tmp_path / "not there" / LAUNCH), {}, own=(), fresh_caches=True)
    (tmp_path / f"arcops-{os.getuid()}-{LAUNCH}").mkdir()
    with pytest.raises(FileExistsError):
        launch_folder.make(folder_below(tmp_path), {TEMPORARY: str(tmp_path)}, own=(), fresh_caches=True)


def test_a_launch_that_asks_for_none_has_the_caches_that_it_would_have_anyway(tmp_path: Path) -> None:
    made = launch_folder.make(folder_below(tmp_path), {TEMPORARY: str(tmp_path)}, own=())
    assert made.variables.keys() & launch_folder.CACHES.keys() == {COMPILED}
