"""The command line as a whole: help, version, usage errors, and what is not loaded for them."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from arcops.cli.main import COMMANDS
from tests.cli.conftest import Ran
from tests.sites import MadeUpSite

HEAVY = ("pydantic", "textual", "httpx", "yaml", "starlette", "rich")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["-i", "main", "--help"]])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from arcops.cli.main import run\n"
        f"sys.argv = ['arcops', *{arguments!r}]\n"
        "try:\n"
        "    run()\n"
        "except SystemExit as ended:\n"
        f"    loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "    sys.exit(ended.code or loaded or None)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_no_command_loads_pydantic_or_textual_before_it_runs() -> None:
    modules = sorted({target.partition(":")[0] for _, target, _ in COMMANDS})
    code = (
        "import sys, importlib\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "sys.exit([name for name in ('pydantic', 'textual', 'yaml') if name in sys.modules] or None)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_help_names_every_command(arcops: Callable[..., Ran]) -> None:
    said = arcops("--help")
    assert said.code == 0
    assert all(f"  {name} " in said.out and summary in said.out for name, _, summary in COMMANDS)


def test_the_version_is_the_packages(arcops: Callable[..., Ran]) -> None:
    from arcops import __version__

    assert arcops("--version").out == f"arcops {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["nosuch"], ["--nosuch"], ["profile", "show"], ["profile", "nosuch"], [], ["-i"]]
)
def test_a_usage_error_is_exit_code_2_and_nothing_on_stdout(arcops: Callable[..., Ran], arguments: list[str]) -> None:
    said = arcops(*arguments)
    assert said.code == 2
    assert said.err


@pytest.mark.parametrize(
    "arguments", [["init", "--force"], ["profile", "list"], ["profile", "show", "x"], ["profile", "schema"]]
)
def test_ctrl_c_has_the_shells_own_exit_code_in_every_command(
    arcops: Callable[..., Ran], site: MadeUpSite, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for place in ("config.library.Config.load", "config.discover.find_runtimes", "core.profile.json_schema"):
        monkeypatch.setattr(f"arcops.{place}", interrupted)
    said = arcops(*arguments)
    assert (said.code, said.out, said.err) == (130, "", "")


def test_a_bad_instance_name_is_a_usage_error(arcops: Callable[..., Ran], site: MadeUpSite) -> None:
    said = arcops("--instance", "No Good", "profile", "list")
    assert (said.code, said.out) == (2, "")
    assert "'No Good' cannot be an instance name" in said.err


def test_the_instance_comes_from_the_environment_too(
    arcops: Callable[..., Ran], site: MadeUpSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCOPS_INSTANCE", "a/b")
    assert arcops("profile", "list").code == 2
