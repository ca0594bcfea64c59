"""Where an instance keeps its things."""

import os
from pathlib import Path

import pytest

from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode, InvalidProfileError


def env(root: Path) -> dict[str, str]:
    return {
        "HOME": str(root),
        "XDG_RUNTIME_DIR": str(root / "run"),
        "XDG_STATE_HOME": str(root / "state"),
        "XDG_CONFIG_HOME": str(root / "conf"),
    }


def test_each_thing_of_an_instance_has_its_place(tmp_path: Path) -> None:
    paths = Paths.of("second", env(tmp_path))
    run, state = tmp_path / "run/arcops", tmp_path / "state/arcops/second"
    assert paths.socket == run / "second.sock"
    assert paths.daemon_lock == run / "second.lock"
    assert paths.keeper_dir == run / "second"
    assert paths.record == run / "second/launch.json"
    assert paths.cpu_lock == run / "cpu.lock"
    assert paths.state_dir == state
    assert paths.database == state / "arcops.db"
    assert paths.log_dir == state / "logs"
    assert paths.config_dir == tmp_path / "conf/arcops"


def test_the_configuration_directory_can_be_named(tmp_path: Path) -> None:
    assert Paths.of("main", {**env(tmp_path), "ARCOPS_CONFIG_DIR": "/etc/x"}).config_dir == Path("/etc/x")


def test_a_relative_xdg_directory_is_ignored(tmp_path: Path) -> None:
    paths = Paths.of("main", {**env(tmp_path), "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": ""})
    assert paths.state_dir == tmp_path / ".local/state/arcops/main"
    assert paths.config_dir == tmp_path / ".config/arcops"


def test_without_a_runtime_directory_one_is_found_that_is_ours() -> None:
    paths = Paths.of("main", {"HOME": "/h"})
    user = os.getuid()
    assert paths.runtime_dir in (Path(f"/run/user/{user}/arcops"), Path(f"/tmp/arcops-{user}"))


def test_without_a_home_the_user_database_is_asked() -> None:
    assert Paths.of("main", {"XDG_RUNTIME_DIR": "/run/x"}).state_dir.is_absolute()


@pytest.mark.parametrize("name", ["", "Main", "-a", "a/b", "..", "a" * 33, "a b", "a\n", "ä", "cpu"])
def test_a_bad_instance_name_is_a_usage_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArcopsError) as caught:
        Paths.of(name, env(tmp_path))
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_socket_path_that_the_kernel_would_cut_is_refused(tmp_path: Path) -> None:
    long = "/" + "x" * (107 - len("//arcops/main.sock"))
    assert len(os.fsencode(Paths.of("main", {**env(tmp_path), "XDG_RUNTIME_DIR": long}).socket)) == 107
    with pytest.raises(InvalidProfileError, match="108 bytes long"):
        Paths.of("main", {**env(tmp_path), "XDG_RUNTIME_DIR": long + "x"})


def test_directories_are_made_private(tmp_path: Path) -> None:
    paths = Paths.of("main", env(tmp_path))
    paths.make()
    paths.make()
    for directory in (paths.runtime_dir, paths.keeper_dir, paths.state_dir, paths.log_dir):
        assert directory.stat().st_mode & 0o777 == 0o700


def test_a_runtime_directory_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    paths = Paths.of("main", env(tmp_path))
    paths.make()
    paths.runtime_dir.chmod(0o755)
    with pytest.raises(ArcopsError, match="not ours alone"):
        paths.make()


def test_a_runtime_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "run/arcops").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArcopsError, match="not ours alone"):
        Paths.of("main", env(tmp_path)).make()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(ArcopsError, match="cannot make the directory"):
        Paths.of("main", env(tmp_path)).make()
