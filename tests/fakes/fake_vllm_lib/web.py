"""HTTP/1.1 as uvicorn speaks it: a thread for each connection, keep-alive, chunked event streams."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from threading import Lock, Thread
from typing import cast

LARGEST_HEAD = 65536
PHRASES = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Call:
    """One HTTP request."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes, client: str) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.client = client

    def json(self) -> dict[str, object]:
        """The body as a JSON object; ValueError for anything else."""
        value: object = json.loads(self.body)
        if not isinstance(value, dict):
            raise ValueError("the body is not a JSON object")  # noqa: TRY004  # bad input, not a fault of the program
        return cast("dict[str, object]", value)


class Reply:
    """An answer: a body, or the events of a stream."""

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        kind: str = "",
        events: Iterator[str] | None = None,
        more: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.status = status
        self.body = body
        self.kind = kind
        self.events = events
        self.more = more


def json_reply(value: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(), "application/json")


class Web:
    """Listens, and hands each request to `handle`; `log` hears of every answer as (call, status)."""

    def __init__(self, handle: Callable[[Call], Reply], log: Callable[[Call, int], None]) -> None:
        self._handle = handle
        self._log = log
        self._lock = Lock()
        self._busy: set[socket.socket] = set()

    @property
    def busy(self) -> int:
        """Requests that are being answered."""
        with self._lock:
            return len(self._busy)

    @property
    def awaited(self) -> int:
        """Requests that are being answered and whose client is still there."""
        with self._lock:
            return sum(not _has_left(connection) for connection in self._busy)

    def serve(self, listener: socket.socket) -> None:
        Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, address = listener.accept()
            except OSError:
                return
            client = f"{address[0]}:{address[1]}"
            Thread(target=self._talk, args=(connection, client), daemon=True).start()

    def _talk(self, connection: socket.socket, client: str) -> None:
        rest = b""
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                call, rest = _read(connection, rest, client)
                if call is None:
                    return
                with self._lock:
                    self._busy.add(connection)
                try:
                    reply = self._handle(call)
                    self._log(call, reply.status)
                    _write(connection, call, reply)
                finally:
                    with self._lock:
                        self._busy.discard(connection)
                if call.headers.get("connection", "").lower() == "close":
                    return
        except OSError:
            return  # the client went away: its business
        finally:
            connection.close()


def _has_left(connection: socket.socket) -> bool:
    """Whether the client has closed its side."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _read(connection: socket.socket, data: bytes, client: str) -> tuple[Call | None, bytes]:
    """The next request and what was read past it; no request at the end of the connection or of patience."""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more or len(data) > LARGEST_HEAD:
            return None, b""
        data += more
    head, _, data = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        return None, b""
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = int(headers.get("content-length") or 0)
    if headers.get("expect", "").lower() == "100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while len(data) < length:
        more = connection.recv(65536)
        if not more:
            return None, b""
        data += more
    call = Call(words[0], words[1].partition("?")[0], headers, data[:length], client)
    return call, data[length:]


def _write(connection: socket.socket, call: Call, reply: Reply) -> None:
    headers = [
        ("date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())),
        ("server", "uvicorn"),
        *reply.more,
    ]
    if reply.events is None:
        headers.append(("content-length", str(len(reply.body))))
    if reply.kind:
        headers.append(("content-type", reply.kind))
    if reply.events is not None:
        headers.append(("transfer-encoding", "chunked"))
    head = f"HTTP/1.1 {reply.status} {PHRASES[reply.status]}\r\n" + "".join(f"{n}: {v}\r\n" for n, v in headers)
    body = b"" if call.method == "HEAD" else reply.body
    connection.sendall(head.encode() + b"\r\n" + body)
    if reply.events is None:
        return
    try:
        for event in reply.events:
            payload = f"data: {event}\n\n".encode()
            connection.sendall(f"{len(payload):x}\r\n".encode() + payload + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
    finally:
        close = getattr(reply.events, "close", None)
        if close is not None:
            close()
