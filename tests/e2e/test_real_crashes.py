"""The supervisor dies under real vLLM: the next one goes on, and one server lives at any moment."""

import os
import threading
from collections.abc import Generator

import httpx
import pytest

from arcops import wire
from tests.daemon.rig import Rig
from tests.e2e.real import START_WITHIN, Census, real_rig
from tests.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]

PATIENCE = 120.0


@pytest.fixture
def arcops(tmp_path_factory: pytest.TempPathFactory) -> Generator[Rig]:
    with real_rig(tmp_path_factory.mktemp("real")) as rig:
        yield rig.start()


def test_one_supervisor_after_the_other_dies_and_what_was_ordered_is_reached(arcops: Rig) -> None:
    """While vLLM starts; while it serves with a stream open; while it stops; after a switch was acknowledged.

    One test, because each of these states is half a minute of vLLM away from the next.
    """
    census = Census(arcops.port)
    census.start()

    order(arcops, wire.SwitchRequest(profile="demo-target-only"))
    started = eventually(lambda: engines(arcops), within=PATIENCE, why="vLLM does not begin")
    succeed(arcops)
    status = arcops.wait_for("serving", within=START_WITHIN)
    assert (status.order.profile, status.order.committed) == ("demo-target-only", True)
    assert set(started) <= set(arcops.backend_pids()), "the start that was under way was not gone on with"
    served = pid_of(status)

    stream = Stream(arcops)
    arcops.kill_daemon()
    assert stream.goes_on, f"the stream ended before it could have been cut: {stream}"
    begin(arcops)
    assert pid_of(arcops.wait_for("serving")) == served
    stream.assert_uncut()

    old = set(arcops.backend_pids())
    order(arcops, wire.SwitchRequest(profile="demo-dflash2", drain=0))
    succeed(arcops)
    status = arcops.wait_for("serving", within=START_WITHIN)
    eventually(lambda: rests_as(arcops, "demo-dflash2"), within=START_WITHIN, why=arcops.daemon_log()[-2000:])
    assert old.isdisjoint(arcops.backend_pids()), "a process of the old launch is left"

    with arcops.client() as client:
        client.stop(wire.StopRequest(drain=0))
    arcops.wait_for("stopping", "clearing", "stopped")
    succeed(arcops)
    status = arcops.wait_for("stopped", within=PATIENCE)
    assert (status.order.goal, status.backend) == ("stop", None)
    assert arcops.backend_pids() == []
    assert census.end() == 1, "two backends lived at the same moment"
    assert census.looks > 100


def order(rig: Rig, request: wire.SwitchRequest) -> None:
    with rig.client() as client:
        assert client.switch(request).order_id is not None


def succeed(rig: Rig) -> None:
    """SIGKILL for the supervisor, and the next one."""
    rig.kill_daemon()
    begin(rig)


def begin(rig: Rig) -> None:
    """One more supervisor."""
    rig.launch_daemon()
    try:
        eventually(rig.answers, within=PATIENCE)
    except pytest.fail.Exception:
        pytest.fail(f"the next supervisor does not answer: {rig.daemon_log()[-4000:]}")


def engines(rig: Rig) -> list[int]:
    """The processes of the backend, once vLLM has more than its API server."""
    pids = rig.backend_pids()
    return pids if len(pids) > 2 else []


def rests_as(rig: Rig, profile: str) -> bool:
    status = rig.status()
    return (status.phase, status.order.profile, status.order.committed) == ("serving", profile, True)


def pid_of(status: wire.Status) -> int:
    assert status.backend is not None
    assert status.backend.pid is not None
    os.kill(status.backend.pid, 0)
    return status.backend.pid


class Stream:
    """One long completion, read while supervisors come and go."""

    def __init__(self, rig: Rig) -> None:
        self._lines: list[str] = []
        self._fault = ""
        self._reader = threading.Thread(target=self._read, args=(f"{rig.url}/v1/completions",), daemon=True)
        self._reader.start()
        eventually(lambda: len(self._lines) > 3, within=PATIENCE, why="the stream has not begun")

    def _read(self, url: str) -> None:
        body = {"model": "demo", "prompt": "one", "max_tokens": 30000, "temperature": 0, "stream": True}
        body["ignore_eos"] = True
        try:
            with httpx.stream("POST", url, json=body, timeout=PATIENCE, trust_env=False) as got:
                for line in got.iter_lines():
                    if line.startswith("data: "):
                        self._lines.append(line)
        except httpx.HTTPError as fault:
            self._fault = repr(fault)

    def __str__(self) -> str:
        return f"{len(self._lines)} lines, {self._fault or 'no fault'}, the last {self._lines[-2:]}"

    @property
    def goes_on(self) -> bool:
        return self._reader.is_alive()

    def assert_uncut(self) -> None:
        self._reader.join(PATIENCE)
        assert self._lines[-1] == "data: [DONE]", f"cut: {self}"
        assert '"length"' in "".join(self._lines[-3:]), self._lines[-3:]
