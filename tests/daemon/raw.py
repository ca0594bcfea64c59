"""The control socket without a polite client: bytes in, bytes out."""

import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from arcops import wire

PATIENCE = 20.0
"""Seconds for anything on the socket; the machine may be busy."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of an HTTP response whose connection was closed afterwards."""

    status: int
    body: bytes

    def error(self) -> wire.ErrorInfo:
        """The body as the one form that errors have."""
        return msgspec.json.decode(self.body, type=wire.ErrorInfo)


@contextmanager
def connected(path: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(path))
        yield connection


def ask(path: Path, target: str, *, method: str = "GET", body: bytes = b"", head: str = "") -> Answer:
    """One request as it stands, its answer read to the end of the connection."""
    length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
    request = f"{method} {target} HTTP/1.1\r\nHost: arcops\r\nConnection: close\r\n{length}{head}\r\n"
    with connected(path) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request.encode("latin-1") + body)
        return answer(received(connection))


def post(path: Path, target: str, body: bytes) -> Answer:
    return ask(path, target, method="POST", body=body, head="Content-Type: application/json\r\n")


def exchange(path: Path, sent: bytes) -> Answer:
    """Send bytes, say that there are no more, and read the answer. Status 0 where none came."""
    with connected(path) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        return answer(received(connection))


def received(connection: socket.socket) -> bytes:
    """Everything until the other side closes."""
    content = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            content += chunk
    return content


def answer(content: bytes) -> Answer:
    """A response apart; of a body in chunks only what is asked for in these tests, the first chunk."""
    head, _, body = content.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    return Answer(status, body)


@contextmanager
def streaming(path: Path, target: str) -> Generator[Iterator[bytes]]:
    """An open stream; the lines of its events. It ends with StopIteration where the daemon ends it in good order."""
    with connected(path) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: arcops\r\n\r\n".encode())
        yield events(connection)


def events(connection: socket.socket) -> Iterator[bytes]:
    """The data of each event. ConnectionError where the stream breaks off instead of ending."""
    rest = b""
    while True:
        chunk = connection.recv(65536)
        if not chunk:
            if not rest.endswith(b"0\r\n\r\n"):
                raise ConnectionError(f"the stream broke off: {rest[-80:]!r}")
            return
        *lines, rest = (rest + chunk).split(b"\n\n")
        for line in lines:
            yield line.partition(b"data: ")[2]
