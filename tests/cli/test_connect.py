"""The road from a command to its daemon, and what is said where it ends nowhere."""

import json
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from arcops.cli.connect import DaemonEndedError
from arcops.core.errors import ExitCode
from tests.cli.conftest import Ran
from tests.sites import MadeUpSite

READERS = ("status", "stop", "restart", "logs", "events", "status --watch", "logs -f", "events -f", "switch x --now")

LEAKS = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""httpcore 1.0 does not close the socket of a Unix connection that fails; the collector does, with a warning."""


@pytest.fixture
def run(site: MadeUpSite, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """The runtime directory: a short path, for a socket is to be in it."""
    with TemporaryDirectory(prefix="arcops-") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        (Path(short) / "arcops").mkdir(mode=0o700)
        yield Path(short) / "arcops"


@contextmanager
def somebody(path: Path, *answers: bytes) -> Generator[list[bytes]]:
    """A stranger in the daemon's place: each connection gets the next answer, and is closed. The requests, as bytes."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    heard.append(connection.recv(65536))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield heard
        thread.join(20)


def http(status: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


@LEAKS
@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("left", ["nothing", "a stale socket", "a file", "a directory"])
def test_without_a_daemon_every_command_ends_with_8_and_says_how_to_start_one(
    arcops: Callable[..., Ran], run: Path, command: str, left: str
) -> None:
    path = run / "main.sock"
    match left:
        case "a stale socket":
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(str(path))
        case "a file":
            path.write_text("")
        case "a directory":
            path.mkdir()
        case _:
            assert not path.exists()
    said = arcops(*command.split())
    assert (said.code, said.out) == (8, "")
    assert said.err == (
        f"arcops: no daemon answers on {path}\nhint: start one with `arcopsd`, or `arcops service start`\n"
    )


@LEAKS
def test_the_instance_chooses_the_socket(arcops: Callable[..., Ran], run: Path) -> None:
    assert f"{run}/second.sock" in arcops("-i", "second", "status").err


def test_an_error_of_the_daemon_is_told_with_its_hint_and_code(arcops: Callable[..., Ran], run: Path) -> None:
    error = {"message": "another order is under way\x1b[2J", "hint": "wait", "exit_code": 4}
    with somebody(run / "main.sock", http("409 Conflict", json.dumps(error).encode())) as heard:
        said = arcops("stop")
    assert (said.code, said.out) == (4, "")
    assert said.err == "arcops: another order is under way�[2J\nhint: wait\n"
    assert heard[0].startswith(b"POST /v1/stop ")


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (b"", 8, "went away in the middle of an answer"),
        (b"not HTTP at all\r\n\r\n", 8, "went away in the middle of an answer"),
        (http("200 OK", b"{"), 1, "cannot be read"),
        (http("200 OK", b"\xff\xfe"), 1, "cannot be read"),
        (http("200 OK", b'{"schema": 1}'), 1, "cannot be read"),
        (http("500 Oh", b"<html>", "text/html"), 1, "refused the request: 500 "),
        (http("503 Busy", b"Service Unavailable", "text/plain"), 1, "refused the request: 503 "),
        (http("400 Bad", b'{"message": "m", "exit_code": 99}'), 1, "arcops: m"),
        (http("400 Bad", b'{"message": 7}'), 1, "cannot be read"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", 8, "went away"),
    ],
)
def test_an_answer_that_makes_no_sense_is_an_error_in_words(
    arcops: Callable[..., Ran], run: Path, answer: bytes, code: int, words: str
) -> None:
    with somebody(run / "main.sock", answer):
        said = arcops("status")
    assert (said.code, said.out) == (code, "")
    assert words in said.err


def test_a_proxy_of_the_environment_is_not_asked(
    arcops: Callable[..., Ran], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with somebody(run / "main.sock", http("200 OK", b"{}")) as heard:
        arcops("status")
    assert heard


def test_what_stands_on_the_command_line_is_one_value_of_the_query(arcops: Callable[..., Ran], run: Path) -> None:
    page = b'{"launch_id": null, "lines": []}'
    with somebody(run / "main.sock", http("200 OK", page)) as heard:
        assert arcops("logs", "--launch", "a b&follow=1#x/../?").code == 0
    assert heard[0].split()[1] == b"/v1/logs?lines=200&launch=a%20b%26follow%3D1%23x%2F..%2F%3F"


def test_the_end_of_the_daemon_has_its_exit_code() -> None:
    assert DaemonEndedError().exit_code is ExitCode.NO_DAEMON
