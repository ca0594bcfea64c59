"""The measurements leave no server behind, and an error is never measured."""

import os
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from arcops.config import Config
from arcops.core.launch import Launch
from tests.e2e.real import Census
from tests.helpers import eventually, free_port
from tools.bench import __main__ as bench
from tools.bench import switches
from tools.bench.load import Load
from tools.bench.terminal import Terminal
from tools.own import Arcops, Runtime, configure

pytestmark = pytest.mark.processes


@pytest.fixture
def arcops(runtime: Runtime, temporary: Path) -> Arcops:
    """A configuration without a daemon."""
    port = free_port()
    env = configure(temporary, runtime, port)
    return Arcops(env, port, 0, temporary / "run" / "arcops" / "demo.sock")


@pytest.fixture
def launches(arcops: Arcops) -> Mapping[str, Launch]:
    return {name: Config.load(arcops.env).launch(name) for name in switches.PAIR}


def test_a_bare_pair_is_timed_and_leaves_nothing(arcops: Arcops, launches: Mapping[str, Launch]) -> None:
    there, back = switches.bare_pair(launches, arcops.env)
    assert there > 0
    assert back > 0
    assert Census(arcops.port).servers() == set()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_start_leaves_nothing(
    arcops: Arcops,
    launches: Mapping[str, Launch],
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
) -> None:
    census = Census(arcops.port)

    def interrupted(_: httpx.Client) -> bool:
        eventually(census.servers, why="no server was started")
        raise error

    monkeypatch.setattr(switches, "healthy", interrupted)
    with pytest.raises(error):
        switches.bare_pair(launches, arcops.env)
    assert census.servers() == set()


def test_a_server_that_is_deaf_to_sigterm_is_killed_with_its_session(
    arcops: Arcops, launches: Mapping[str, Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switches, "STOP_GRACE", 0.3)
    monkeypatch.setattr(switches, "TERM_AGAIN", 0.1)
    launch = launches[switches.PAIR[0]]
    with switches.server(launch, {**arcops.env, "FAKE_VLLM_SIGTERM_DEAF": "1"}) as process:
        switches.wait_until_it_answers(process, launch)
        assert len(switches.session_members(process.pid)) > 1
    assert switches.session_members(process.pid) == []
    assert process.returncode == -9


def test_a_server_that_ends_while_it_starts_is_no_measurement(arcops: Arcops, launches: Mapping[str, Launch]) -> None:
    with pytest.raises(SystemExit, match="bare vLLM ended"):
        switches.bare_pair(launches, {**arcops.env, "FAKE_VLLM_FAIL_AT": "load"})


def test_a_switch_that_fails_is_no_measurement(arcops: Arcops) -> None:
    with pytest.raises(SystemExit, match="failed with exit code 8"):
        switches.run_switch(arcops, "demo-dflash2")


def test_a_status_that_fails_is_no_measurement(arcops: Arcops) -> None:
    with pytest.raises(SystemExit, match="failed with exit code 8"):
        bench.measure_status(arcops, runs=1)


def test_a_load_that_broke_off_is_told() -> None:
    with pytest.raises(SystemExit, match=r"broke off: .*refused"), Load(free_port()) as load:
        eventually(lambda: load.failed)


def test_a_keys_effect_is_timed_on_a_real_terminal() -> None:
    with Terminal(["cat"], os.environ) as there:
        assert 0 < there.effect_of(b"painted\n", "painted") < 10


def test_a_key_without_effect_is_no_measurement() -> None:
    with Terminal(["cat"], os.environ) as there, pytest.raises(SystemExit, match="has not painted"):
        there.effect_of(b"one thing\n", "another", within=0.3)
