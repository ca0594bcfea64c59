"""A vLLM server, fake or real, under test: start it, talk to it, watch its processes, and leave nothing behind."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import httpx

from tests.helpers import eventually

Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | int | bool | None"


@dataclass(frozen=True, slots=True)
class Event:
    """One `data:` line of a stream; None stands for `[DONE]`."""

    data: dict[str, Json] | None

    @property
    def choice(self) -> dict[str, Json]:
        """The first choice, empty where there is none."""
        match (self.data or {}).get("choices"):
            case [dict(first), *_]:
                return first
            case _:
                return {}


@dataclass(slots=True)
class Serving:
    """One started server in a session of its own; `with` ends every process that writes to its log."""

    argv: Sequence[str | Path]
    port: int
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    pass_fds: Sequence[int] = ()
    """Descriptors that the server inherits."""
    _process: "subprocess.Popen[bytes] | None" = None

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(word) for word in self.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.pass_fds,
                env={**os.environ, **self.environment},
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=10)
        eventually(lambda: not self.processes(), why="processes of the server are left")

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "not started"
        return self._process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_ready(self, within: float = 10.0) -> Self:
        def ready() -> bool:
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.text[-3000:]}"
            return self.health() == 200

        eventually(ready, within=within, every=0.01, why="never healthy")
        return self

    def wait_exit(self, within: float = 10.0) -> int:
        return self.process.wait(timeout=within)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def health(self) -> int | None:
        """Status of /health; None if nobody answers."""
        try:
            return self.get("/health").status_code
        except httpx.TransportError:
            return None

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, timeout=10)

    def post(self, path: str, body: Mapping[str, object], timeout: float = 60.0) -> httpx.Response:
        return httpx.post(self.url + path, json=dict(body), timeout=timeout)

    def misbehave(self, **settings: object) -> httpx.Response:
        """Change settings of a fake."""
        return self.post("/fake/misbehave", settings)

    @contextmanager
    def stream(
        self, body: Mapping[str, object], path: str = "/v1/completions", timeout: float = 60.0
    ) -> Generator[Iterator[Event]]:
        """The events of a streamed completion, as they come."""
        request = {**body, "stream": True}
        with (
            httpx.Client(timeout=timeout) as client,
            client.stream("POST", self.url + path, json=request) as response,
        ):
            yield _events(response)

    def metric(self, name: str, **labels: str) -> float | None:
        """The value of `vllm:NAME`, summed over its series with these labels; None if there is none."""
        values = [value for found, given, value in samples(self.get("/metrics").text) if found == f"vllm:{name}"
                  and labels.items() <= given.items()]  # fmt: skip
        return sum(values) if values else None

    def processes(self) -> list[int]:
        """Living processes that have the log as their output, whatever session they are in."""
        return [pid for pid in _pids() if _writes_to(pid, self.log) and state(pid) not in ("Z", "")]

    def engine(self) -> int:
        """Pid of EngineCore."""
        found = eventually(lambda: self._named("VLLM::EngineCor"), why="no EngineCore")
        assert found is not None
        return found

    def _named(self, name: str) -> int | None:
        return next((pid for pid in self.processes() if comm(pid) == name), None)


def _events(response: httpx.Response) -> Iterator[Event]:
    for line in response.iter_lines():
        if line.startswith("data: "):
            data = line.removeprefix("data: ")
            yield Event(None if data == "[DONE]" else json.loads(data))


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of each sample of a metrics page. Labels must not hold commas inside of quotes."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            head, _, value = line.rpartition(" ")
            name, _, inner = head.partition("{")
            pairs = (pair.split("=", 1) for pair in inner.rstrip("}").split('",') if "=" in pair)
            yield name, {key: text.strip('"') for key, text in pairs}, float(value)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _writes_to(pid: int, log: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/1") == str(log.resolve())
    except OSError:
        return False


def comm(pid: int) -> str:
    """The process's short name; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def state(pid: int) -> str:
    """The kernel's one-letter state of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_bound(port: int) -> bool:
    """Whether anybody holds the port, listening or not."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
