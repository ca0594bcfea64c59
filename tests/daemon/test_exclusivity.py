"""Two backends never share a card (here: the CPU's lock) or a port, and who is in the way is named."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from arcops import wire
from arcops.core.errors import ArcopsError
from tests.daemon.rig import Result, Rig
from tests.helpers import eventually

pytestmark = pytest.mark.processes

RACES = 50


@pytest.fixture
def pair(tmp_path: Path) -> Generator[tuple[Rig, Rig]]:
    """Two instances of one user: they share the runtime directory, and so the CPU's lock, but not the port."""
    with ExitStack() as stack:
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        one = stack.enter_context(Rig(tmp_path / "one", instance="one"))
        two = stack.enter_context(Rig(tmp_path / "two", instance="two", runtime=one.runtime))
        yield one, two


def test_a_second_daemon_of_the_same_instance_is_refused_by_name(rig: Rig) -> None:
    rig.start()
    assert rig.daemon is not None
    second = subprocess.run(
        [sys.executable, "-m", "arcops.daemon.main"],
        env=rig.env(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert second.returncode == 4
    assert str(rig.daemon.pid) in second.stderr
    assert rig.phase() == "stopped"


def test_a_lock_that_another_instance_holds_is_refused_by_name(pair: tuple[Rig, Rig]) -> None:
    one, two = pair[0].start(), pair[1].start()
    assert one.arcops("switch", "target-only").code == 0
    refused = two.arcops("switch", "target-only")
    assert refused.code == 5
    held_by = one.backend_pids()
    assert one.daemon is not None
    assert any(f"pid {pid} " in refused.err for pid in (one.daemon.pid, *held_by)), refused.err
    assert "user" in refused.err
    assert two.backend_pids() == []
    assert one.status().phase == "serving"


def test_the_lock_stays_held_when_the_supervisor_dies(pair: tuple[Rig, Rig]) -> None:
    one, two = pair[0].start(), pair[1].start()
    one.arcops("switch", "target-only")
    one.kill_daemon()
    refused = two.arcops("switch", "target-only")
    assert refused.code == 5
    assert any(f"pid {pid} " in refused.err for pid in one.backend_pids()), refused.err


def test_a_lock_is_free_again_after_a_stop(pair: tuple[Rig, Rig]) -> None:
    one, two = pair[0].start(), pair[1].start()
    one.arcops("switch", "target-only")
    one.arcops("stop")
    assert two.arcops("switch", "target-only").code == 0


def test_a_taken_port_is_refused_by_the_holders_name_and_nothing_is_started(rig: Rig) -> None:
    rig.start()
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind(("127.0.0.1", rig.port))
        stranger.listen()
        refused = rig.arcops("switch", "target-only")
    assert refused.code == 5
    assert f"pid {os.getpid()} " in refused.err
    assert str(rig.port) in refused.err
    assert rig.starts() == 0
    assert rig.arcops("switch", "target-only").code == 0


def test_a_standing_order_waits_for_a_taken_port_and_goes_on_when_it_is_free(rig: Rig) -> None:
    rig.start()
    rig.arcops("switch", "target-only")
    rig.end_daemon()
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", rig.port))
        stranger.listen()
        rig.start()
        blocked = rig.wait_for("blocked")
        assert f"pid {os.getpid()} " in blocked.reason
        assert rig.backend_pids() == []
    assert rig.wait_for("serving").order.profile == "target-only"


def test_a_stranger_that_answers_on_the_port_is_never_taken_for_the_backend(rig: Rig) -> None:
    """A foreign server binds beside ours while ours is loading, and answers first."""
    rig.misbehaving("slow", start_seconds=60, reuse_port=True)
    rig.start()
    rig.arcops("switch", "slow", "--no-wait")
    rig.wait_for("starting")
    eventually(lambda: len(rig.backend_pids()) > 1, why="the backend has no processes yet")
    serve = (
        "import http.server,socket,sys\n"
        "class S(http.server.HTTPServer):\n"
        "    def server_bind(self):\n"
        "        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); super().server_bind()\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        '        self.send_response(200); self.end_headers(); self.wfile.write(b\'{"data":[{"id":"tiny"}]}\')\n'
        "S(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
    )
    stranger = subprocess.Popen([sys.executable, "-c", serve, str(rig.port)], stderr=subprocess.DEVNULL)
    try:
        status = rig.wait_for("stopped", "failed", "blocked", "backoff", within=30)
        assert status.phase != "serving"
        outcome = status.settled[-1]
        assert outcome.exit_code in (5, 7)
        assert f"pid {stranger.pid} " in outcome.summary
        assert rig.backend_pids() == []
    finally:
        stranger.terminate()
        stranger.wait()


@pytest.mark.timeout(600)
def test_two_daemons_that_race_for_one_lock_never_have_two_backends(pair: tuple[Rig, Rig]) -> None:
    for rig in pair:
        rig.profile("target-only", checks={"first_answer": False})
        rig.start()
    watcher = Watcher(pair)
    watcher.start()
    winners = [race(pair) for _ in range(RACES)]
    assert watcher.end() <= 1, "two backends lived at the same moment"
    assert winners.count(0) == 0, "a race that nobody won"
    assert all(count == 1 for count in winners)


def race(pair: tuple[Rig, Rig]) -> int:
    """Order both to run at the same moment; how many serve. Both are stopped afterwards."""
    results: list[Result] = []

    def order(rig: Rig) -> None:
        results.append(switch(rig))

    runners = [threading.Thread(target=order, args=(rig,)) for rig in pair]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    codes = sorted(result.code for result in results)
    assert codes in ([0, 5], [5, 5]), [result.err for result in results]
    for rig in pair:
        stop(rig)
    return codes.count(0)


def switch(rig: Rig) -> Result:
    """As `arcops switch target-only` does, without a new interpreter each time."""
    with rig.client() as client:
        try:
            order = client.switch(wire.SwitchRequest(profile="target-only")).order_id
        except ArcopsError as error:
            return Result(int(error.exit_code), "", str(error))
        for status in client.follow_status():
            outcome = next((one for one in status.settled if one.order_id == order), None)
            if outcome is not None:
                return Result(outcome.exit_code, "", outcome.summary)
    return Result(-1, "", "the daemon went away")


def stop(rig: Rig) -> None:
    with rig.client() as client:
        client.stop(wire.StopRequest(drain=0))
    rig.wait_for("stopped")


class Watcher(threading.Thread):
    """Counts, as often as it can, the fakes' main processes of both rigs that live at one moment."""

    def __init__(self, rigs: tuple[Rig, Rig]) -> None:
        super().__init__(daemon=True)
        self._ports = tuple(str(rig.port) for rig in rigs)
        self._done = threading.Event()
        self._most = 0

    def run(self) -> None:
        while not self._done.wait(0.01):
            self._most = max(self._most, len(self.living()))

    def living(self) -> set[str]:
        """The ports whose server process lives: a command line that serves, not the keeper in front of it."""
        found: set[str] = set()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                dead = b"State:\tZ" in (entry / "status").read_bytes()
            except OSError:
                continue
            if b"serve" in words and not dead and not any(word.endswith(b"keeper.py") for word in words):
                found.update(port for port in self._ports if port.encode() in words)
        return found

    def end(self) -> int:
        """The most that were seen at once."""
        self._done.set()
        self.join()
        return self._most


def test_the_watcher_would_see_two(pair: tuple[Rig, Rig]) -> None:
    """The proof above is worth something only if its witness is not blind."""
    one, two = pair
    own_lock = two.root / "run"
    own_lock.mkdir(mode=0o700)
    with Rig(two.root, instance="apart", runtime=own_lock, port=two.port) as apart:
        one.start()
        apart.start()
        one.arcops("switch", "target-only")
        apart.arcops("switch", "target-only")
        watcher = Watcher((one, apart))
        assert len(watcher.living()) == 2
        assert apart.daemon is not None
        apart.daemon.send_signal(signal.SIGTERM)
