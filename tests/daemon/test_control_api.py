"""The control API under abuse: each fault has its answer, and the daemon goes on for everybody else."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from arcops import wire
from arcops.core.errors import ArcopsError
from arcops.core.phase import Phase
from arcops.daemon.routes import LARGEST_BODY
from tests.daemon.raw import Answer, ask, connected, exchange, post, received, streaming
from tests.daemon.rig import Rig
from tests.helpers import cannot_run_here, eventually

pytestmark = pytest.mark.processes

GROWTH = 24 * 1024 * 1024
"""Bytes by which the daemon may grow meanwhile: its allocator's play, far below what is thrown at it."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Generator[Rig]:
    """One daemon that has to take all of it."""
    with Rig(tmp_path_factory.mktemp("control")) as rig:
        yield rig.start()


@pytest.fixture
def control(daemon: Rig) -> Generator[Path]:
    """The control socket; afterwards the same daemon still answers, and has done nothing."""
    yield daemon.paths.socket
    assert daemon.answers()
    status = daemon.status()
    assert (status.phase, status.order.id, status.trouble) == ("stopped", 0, ())
    assert "Traceback" not in daemon.daemon_log()


def pid_of(rig: Rig) -> int:
    assert rig.daemon is not None
    return rig.daemon.pid


def memory(rig: Rig) -> int:
    """Resident bytes of the daemon."""
    lines = Path(f"/proc/{pid_of(rig)}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def descriptors(rig: Rig) -> int:
    return len(os.listdir(f"/proc/{pid_of(rig)}/fd"))


def is_error(answer: Answer, status: int, *words: str) -> None:
    """The answer is an error in the form that all have, for exit code 2."""
    assert answer.status == status, answer
    error = answer.error()
    assert error.exit_code == 2
    assert all(word in error.message for word in words), error
    assert len(error.message) < 300


# -- what is no HTTP --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0" * 5000,
        bytes(range(256)) * 40,
        b"\r\n" * 3000,
        b"GET\r\n\r\n",
        b"GET /v1/ping HTTP/1.1\r\n\r\n",
        b"GET /v1/ping HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/stop HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nContent-Length: 8\r\n\r\n{}",
        b"POST /v1/stop HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnot a length\r\n{}\r\n",
        b"POST /v1/stop HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n{}",
        b"POST /v1/stop HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n{}",
        b"GET /v1/ping HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 5_000_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 5_000_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /v1/ping HTTP/1.1\r\nHost: a\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(500_000)) + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
    ],
    ids=lambda sent: repr(sent[:60]),
)
def test_garbage_is_turned_away(control: Path, sent: bytes) -> None:
    assert exchange(control, sent).status in (0, 400, 404)


def test_half_a_request_and_silence_hold_up_nobody(control: Path) -> None:
    with ExitStack() as stack:
        for sent in (b"", b"GET /v1/st", b"POST /v1/stop HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{"):
            stack.enter_context(connected(control)).sendall(sent)
        assert ask(control, "/v1/status").status == 200


def test_an_upgrade_to_another_protocol_is_not_taken(control: Path) -> None:
    assert ask(control, "/v1/ping", head="Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n").status == 200


# -- what is no request -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("target", "body", "words"),
    [
        ("/v1/switch", b"", ["profile"]),
        ("/v1/switch", b"{}", ["profile"]),
        ("/v1/switch", b"not json", ["cannot be read"]),
        ("/v1/switch", b'{"profile": "dflash2"', ["cannot be read"]),
        ("/v1/switch", b"\xff\xfe\0", ["cannot be read"]),
        ("/v1/switch", b"[1]", ["object"]),
        ("/v1/switch", b"null", ["object"]),
        ("/v1/switch", b'{"profile": 7}', ["$.profile"]),
        ("/v1/switch", b'{"profile": null}', ["$.profile"]),
        ("/v1/switch", b'{"profile": "dflash2", "now": true}', ["now"]),
        ("/v1/switch", b'{"profile": "dflash2", "drain": "60s"}', ["$.drain"]),
        ("/v1/switch", b'{"profile": "dflash2", "drain": true}', ["$.drain"]),
        ("/v1/switch", b'{"profile": "dflash2", "drain": -1}', ["drain=-1"]),
        ("/v1/switch", b'{"profile": "dflash2", "drain": 1e300}', ["drain=1e+300"]),
        ("/v1/switch", b'{"profile": "dflash2", "drain": 1e999}', ["cannot be read"]),
        ("/v1/switch", b'{"profile": "dflash2", "drain": NaN}', ["cannot be read"]),
        ("/v1/switch", b'{"profile": "dflash2", "schema": 2}', ["schema 2", "speaks 1"]),
        ("/v1/switch", b'{"profile": "dflash2", "schema": "1"}', ["$.schema"]),
        ("/v1/switch", b'{"profile": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", ["cannot be read"]),
        ("/v1/stop", b'{"drain": -1e-9}', ["drain="]),
        ("/v1/stop", b'{"profile": "dflash2"}', ["profile"]),
        ("/v1/restart", b'{"drain": 86401}', ["drain=86401"]),
        ("/v1/restart", b'{"replace": "yes"}', ["$.replace"]),
        ("/v1/stop", b"x" * (LARGEST_BODY + 1), [f"larger than {LARGEST_BODY} bytes"]),
    ],
    ids=lambda value: repr(value[:50]) if isinstance(value, bytes) else "",
)
def test_a_body_that_is_no_request_is_refused(control: Path, target: str, body: bytes, words: list[str]) -> None:
    is_error(post(control, target, body), 400, *words)


@pytest.mark.parametrize(
    "target",
    [
        *(f"/v1/status?window={text}" for text in ("0", "-1", "nan", "inf", "1e999", "sixty", "", "9" * 5000, "%00")),
        *(f"/v1/stream?window={text}" for text in ("0.5", "nan", "-inf", "86401")),
        *(f"/v1/history?seconds={text}" for text in ("0", "-0", "NaN", "1e9", "0x10")),
        *(f"/v1/samples?step={text}" for text in ("0", "-60", "nan", "1e9", "")),
        *(f"/v1/samples?{bound}={text}" for bound in ("from", "to") for text in ("inf", "nan", "1e12", "yesterday")),
        *(f"/v1/events?after={text}" for text in ("1e30", "nan", "-99999", "x")),
        *(f"/v1/events?limit={text}" for text in ("0", "-1", "1e9", "none")),
        *(f"/v1/logs?lines={text}" for text in ("-1", "1e9", "inf", "all")),
        *(f"/v1/logs?follow=1&lines={text}" for text in ("-1", "nan")),
    ],
    ids=lambda target: target[:40],
)
def test_an_absurd_number_is_refused_by_name(control: Path, target: str) -> None:
    name = target.split("?")[1].split("&")[-1].partition("=")[0]
    is_error(ask(control, target), 400, f"{name}=", "is not a number from")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("/v1/samples?step=2", "step=2 is neither 1 nor a multiple of 60"),
        ("/v1/samples?step=60.5", "step=60.5 is neither"),
        ("/v1/logs?of=everybody", "of='everybody' is neither backend nor supervisor"),
        ("/v1/logs?of=supervisor&launch=20261130121758-e05a", "the supervisor's log is not that of a launch"),
        ("/v1/logs?of=supervisor&launch=x&follow=1", "the supervisor's log is not that of a launch"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_in_words(control: Path, target: str, words: str) -> None:
    is_error(ask(control, target), 400, words)


@pytest.mark.parametrize("follow", ["", "&follow=1"])
@pytest.mark.parametrize(
    "launch",
    ["nowhere", "..", "../arcops", "..%2f..%2farcops.db", "%2fetc%2fpasswd", "%00", "%ff%fe", "x" * 5000, "a%0ab", "*"],
    ids=lambda launch: launch[:20],
)
def test_no_file_but_a_launchs_log_is_ever_read(control: Path, daemon: Rig, launch: str, follow: str) -> None:
    (daemon.paths.state_dir / "arcops.log").write_text("not a launch's log")
    is_error(ask(control, f"/v1/logs?launch={launch}{follow}"), 400, "there is no log of a launch")


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("POST", "/v1/status", 405),
        ("GET", "/v1/stop", 405),
        ("DELETE", "/v1/stop", 405),
        ("BREW", "/v1/switch", 405),
        ("GET", "/", 404),
        ("GET", "/v2/status", 404),
        ("GET", "/v1/status/", 404),
        ("GET", "/v1/../v1/status", 404),
        ("GET", "/v1/%2e%2e/status", 404),
        ("GET", "//v1/status", 404),
        ("GET", "/%00", 404),
        ("GET", "http://elsewhere/v1/nothing", 404),
        ("POST", "/v1/switch/target-only", 404),
    ],
)
def test_what_there_is_not_is_said_so(control: Path, method: str, target: str, status: int) -> None:
    answer = ask(control, target, method=method)
    assert answer.status in (status, 404, 405, 400)
    error = answer.error()
    assert (error.exit_code, "there is no " in error.message) == (2, True)
    assert "docs/control-api.md" in error.hint


# -- too much ---------------------------------------------------------------------------------------------------------
def test_a_hundred_megabytes_are_refused_and_never_held(control: Path, daemon: Rig) -> None:
    before = memory(daemon)
    block, peak = b"x" * 1024 * 1024, 0
    with connected(control) as connection:
        connection.sendall(b"POST /v1/switch HTTP/1.1\r\nHost: a\r\nContent-Length: 104857600\r\n\r\n")
        try:
            for _ in range(100):
                connection.sendall(block)
                peak = max(peak, memory(daemon))
        except (BrokenPipeError, ConnectionResetError):
            pass  # turned away before the end: as good
        else:
            assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert peak - before < GROWTH


def test_a_body_in_endless_chunks_is_refused(control: Path, daemon: Rig) -> None:
    before = memory(daemon)
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    answer = exchange(control, b"POST /v1/stop HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 200)
    assert answer.status in (0, 400)
    assert memory(daemon) - before < GROWTH


def test_a_hundred_clients_at_once_are_all_served(control: Path, daemon: Rig) -> None:
    def one(number: int) -> int:
        return ask(control, "/metrics" if number % 2 else "/v1/status").status

    with ThreadPoolExecutor(100) as pool:
        assert set(pool.map(one, range(100))) == {200}


def test_more_clients_than_can_be_served_are_told_so_and_served_later(control: Path, daemon: Rig) -> None:
    with ExitStack() as stack:
        for _ in range(220):
            stack.enter_context(connected(control))
        with daemon.client() as client, pytest.raises(ArcopsError, match="503") as refused:
            eventually(lambda: client.ping() and None, why="all 220 are served")
        assert "too many connections" in refused.value.hint
        assert daemon.arcops("status").code == 1
    eventually(lambda: ask(control, "/v1/ping").status == 200, why="not served after the others have gone")


def test_many_bad_orders_at_once_are_each_refused(daemon: Rig) -> None:
    def one(number: int) -> Answer:
        return post(daemon.paths.socket, "/v1/switch", msgspec.json.encode({"profile": f"no-such-profile-{number}"}))

    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(one, range(30)))
    assert {answer.status for answer in answers} == {422}
    assert {answer.error().exit_code for answer in answers} == {6}


# -- streams ----------------------------------------------------------------------------------------------------------
def test_clients_that_vanish_in_the_middle_leave_nothing_behind(control: Path, daemon: Rig) -> None:
    eventually(lambda: ask(control, "/v1/ping").status == 200)
    before = descriptors(daemon)
    for target in ("/v1/stream", "/v1/events?follow=1&after=-5", "/v1/stream?window=5"):
        with ExitStack() as stack:
            for _ in range(15):
                stream = stack.enter_context(streaming(control, target))
                assert next(stream).startswith(b"{")
            assert descriptors(daemon) >= before + 15
    for _ in range(15):
        with connected(control) as connection:
            connection.sendall(b"POST /v1/switch HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n{")
    eventually(lambda: descriptors(daemon) <= before, why="descriptors of gone clients are still open")


def test_a_client_that_stops_reading_costs_no_memory_and_holds_up_nobody(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.misbehaving("flood", log_bytes_per_second=20_000_000)
        rig.start()
        assert rig.arcops("switch", "flood").code == 0
        backend = rig.status().backend
        assert backend is not None
        log = Path(backend.log_path)
        before, written = memory(rig), log.stat().st_size
        with ExitStack() as stack:
            for target in ("/v1/logs?follow=1&lines=10000", "/v1/stream") * 10:
                stack.enter_context(streaming(rig.paths.socket, target))
            eventually(lambda: log.stat().st_size > written + 25_000_000, within=30, why="the flood is not written")
            lines = stack.enter_context(streaming(rig.paths.socket, "/v1/logs?follow=1&lines=1"))
            assert all(msgspec.json.decode(next(lines), type=wire.LogLines).lines for _ in range(2))
            assert rig.status().phase == "serving"
            assert memory(rig) - before < 2 * GROWTH
        rig.arcops("stop", "--now")


def test_streams_end_in_good_order_when_the_daemon_ends(rig: Rig) -> None:
    rig.start()
    with ExitStack() as stack:
        streams = [
            stack.enter_context(streaming(rig.paths.socket, target))
            for target in ("/v1/stream", "/v1/events?follow=1&after=-9", "/v1/logs?follow=1")
        ]
        assert all(next(stream).startswith(b"{") for stream in streams)
        silent = stack.enter_context(connected(rig.paths.socket))
        silent.sendall(b"GET /v1/pi")
        assert rig.end_daemon() == 0
        assert received(silent) == b""
        assert all(msgspec.json.decode(event) for stream in streams for event in stream if event)
    assert not rig.paths.socket.exists()


# -- who may ----------------------------------------------------------------------------------------------------------
def test_the_socket_and_its_directory_are_this_users_alone(control: Path) -> None:
    assert stat.S_IMODE(control.stat().st_mode) == 0o600
    assert stat.S_ISSOCK(control.stat().st_mode)
    assert stat.S_IMODE(control.parent.stat().st_mode) == 0o700
    assert control.stat().st_uid == os.getuid()


def test_another_user_is_refused_even_where_the_socket_could_be_reached(rig: Rig) -> None:
    if os.getuid() != 0:
        cannot_run_here("becoming another user needs root")
    rig.start()
    path = rig.paths.socket
    code = (
        "import os,socket,sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "s.connect(sys.argv[1])\n"
        "s.settimeout(20)\n"
        "try:\n"
        "    s.sendall(b'GET /v1/ping HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'); print(s.recv(100))\n"
        "except OSError as error:\n"
        "    print(type(error).__name__)\n"
    )

    def stranger() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-c", code, str(path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert "PermissionError" in stranger().stderr
    for directory in (path.parent.parent, path.parent):
        directory.chmod(0o711)
    path.chmod(0o666)
    assert stranger().stdout.strip() in ("b''", "BrokenPipeError", "ConnectionResetError")
    assert "refused a connection" in rig.daemon_log()
    assert "65534" in rig.daemon_log()
    assert rig.answers()


def test_a_new_daemon_takes_the_place_of_a_stale_socket(rig: Rig) -> None:
    rig.start()
    rig.kill_daemon()
    assert rig.paths.socket.exists()
    assert rig.arcops("status").code == 8
    rig.start()
    assert rig.arcops("status").code == 3


def test_the_status_of_no_daemon_says_how_to_start_one(rig: Rig) -> None:
    asked = rig.arcops("status")
    assert asked.code == 8
    assert "`arcopsd`" in asked.err
    with socket.socket(socket.AF_UNIX) as deaf:
        rig.paths.make()
        deaf.bind(str(rig.paths.socket))
        assert rig.arcops("status").code == 8


# -- numbers ----------------------------------------------------------------------------------------------------------
def test_the_metrics_are_prometheus_text(control: Path) -> None:
    answer = ask(control, "/metrics")
    assert answer.status == 200
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    assert all(name.startswith("arcops") for name in families)
    phases = {sample.labels["phase"]: sample.value for sample in families["arcops_phase"].samples}
    assert phases == {phase.value: float(phase is Phase.STOPPED) for phase in Phase}
    for name in ("arcops_phase_code", "arcops_phase_seconds", "arcops_loop_turns", "arcops_locks_held"):
        assert families[name].samples[0].value >= 0
    assert "arcops_backend_processes" not in families, "what is not there has no sample"
    assert all(family.documentation for family in families.values())
