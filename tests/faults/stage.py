"""A rig that is brought into a phase and held there until it is released."""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx

from arcops import wire
from arcops.core.errors import ArcopsError
from arcops.core.profile.sections import ChecksSection
from tests.daemon.rig import FAKE_ENVIRONMENT, Rig
from tests.faults.witness import Witness
from tests.helpers import eventually

T = TypeVar("T")

WITHIN = 60.0
"""Seconds for anything to come: generous, for a machine may stand still for seconds."""
LONG = 600.0
"""Seconds: a limit that no cell runs into."""
STREAM_TOKENS = 30_000
"""More than any cell sees the end of, at `SLOW` tokens a second."""
SLOW = 100


class Stream:
    """A client with an open streamed completion, and a thread that counts what comes."""

    def __init__(self, port: int, model: str, tokens: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WITHIN)
        body = json.dumps(
            {
                "model": model,
                "prompt": "one two",
                "max_tokens": tokens,
                "temperature": 0,
                "stream": True,
                "ignore_eos": True,
            }
        ).encode()
        head = (
            f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        )
        self._socket.sendall(f"{head}\r\n\r\n".encode() + body)
        self.events = 0
        self.done = False
        """It came to its own end, with `[DONE]`."""
        self.ended = threading.Event()
        """The server has ended the stream, or cut it."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            self._socket.settimeout(None)
            while data := self._socket.recv(65536):
                self.events += data.count(b"data: ")
                if b"data: [DONE]" in data:
                    self.done = True
                    break
        self.ended.set()

    def leave(self) -> None:
        """The client goes away."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join(WITHIN)
        self._socket.close()


class Stage:
    """One rig, and how each phase is arranged on it. One cell after the other may use it, as long as all is well."""

    profile = "cell"
    other = "other"
    model = "tiny"
    within = WITHIN
    stream_tokens = STREAM_TOKENS

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.start_gate = rig.root / "start-gate"
        self.answer_gate = rig.root / "answer-gate"
        self.setup_gate = rig.root / "setup-gate"
        self.stream: Stream | None = None
        self.stranger: socket.socket | None = None
        self._release: list[Callable[[], None]] = []
        state = rig.root / "state"
        runtime = rig.runtime
        assert runtime is not None
        self.witness = Witness(state, runtime, rig.paths.cpu_lock, rig.port)
        setup = rig.root / "setup.sh"
        setup.write_text(f"while [ -e {self.setup_gate} ]; do sleep 0.05; done\nexport SET_UP=yes\n")

    def __enter__(self) -> Self:
        self.rig.__enter__()
        self.start_daemon()
        self.witness.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self.release()
        self.end_stream()
        self.end_stranger()
        self.witness.end()
        self.rig.__exit__(kind, error, trace)

    # -- the parts ----------------------------------------------------------------------------------------------------
    def start_daemon(self) -> None:
        self.rig.launch_daemon()
        assert self.rig.daemon is not None
        self.witness.supervisors.append(self.rig.daemon.pid)
        eventually(
            self.rig.answers, within=self.within, why=f"the daemon does not answer: {self.rig.daemon_log()[-2000:]}"
        )

    def status(self) -> wire.Status:
        return patiently(self.rig.status)

    def events(self, after: int) -> tuple[wire.Event, ...]:
        with self.rig.client() as client:
            return patiently(lambda: client.events(after=after, limit=1000).events)

    def newest_event(self) -> int:
        events = self.events(-1)
        return events[-1].id if events else 0

    def wait_for(self, *phases: str) -> wire.Status:
        return self.rig.wait_for(*phases, within=self.within)

    @property
    def main(self) -> int:
        """Pid of the API server."""
        return eventually(lambda: (one := self.status().backend) and one.pid, why="no main process")

    @property
    def launch(self) -> str | None:
        backend = self.status().backend
        return None if backend is None else backend.launch_id

    @property
    def record(self) -> Path:
        return self.rig.paths.record

    @property
    def keeper(self) -> int:
        return int(json.loads(self.record.read_text())["keeper"]["pid"])

    @property
    def engine(self) -> int:
        """Pid of EngineCore."""
        return eventually(lambda: self.named("VLLM::EngineCor"), within=self.within, why="no EngineCore")

    def named(self, comm: str) -> int | None:
        """A process of the launch that has this short name."""
        for one in self.witness.living():
            with suppress(OSError):
                if Path(f"/proc/{one.pid}/comm").read_text().strip() == comm:
                    return one.pid
        return None

    def switch(self, profile: str, *, drain: float | None = 0.0, replace: bool = False) -> int | None:
        """Order a switch; its number, or None where there is nothing to do."""
        with self.rig.client() as client:
            return client.switch(wire.SwitchRequest(profile=profile, drain=drain, replace=replace)).order_id

    def restart(self) -> int | None:
        with self.rig.client() as client:
            return client.restart(wire.RestartRequest(drain=0.0, replace=True)).order_id

    def stop(self) -> int | None:
        with self.rig.client() as client:
            return client.stop(wire.StopRequest(drain=0.0)).order_id

    def outcome(self, order: int) -> wire.OutcomeInfo:
        """What became of an order."""
        return eventually(
            lambda: next((one for one in self.status().settled if one.order_id == order), None),
            within=self.within,
            why=f"order {order} is not settled",
        )

    def misbehave(self, **settings: object) -> None:
        self.rig.misbehave(**settings)

    def works(self) -> None:
        """The backend answers a request."""
        self.rig.complete(tokens=2, timeout=self.within)

    def open_stream(self) -> Stream:
        self.stream = stream = Stream(self.rig.port, self.model, self.stream_tokens)
        eventually(lambda: stream.events > 2, within=self.within, why="the stream has not begun")
        return stream

    def end_stream(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.leave()

    def listen(self) -> socket.socket:
        """A stranger takes the port: this process."""
        stranger = socket.socket()
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        eventually(lambda: _binds(stranger, self.rig.port), within=self.within, why="the port does not become free")
        stranger.listen()
        self.stranger = stranger
        return stranger

    def end_stranger(self) -> None:
        stranger, self.stranger = self.stranger, None
        if stranger is not None:
            stranger.close()

    # -- profiles -----------------------------------------------------------------------------------------------------
    def write_profiles(self, phase: str, *, hasty: bool, **fake: object) -> None:
        """The two profiles as this cell needs them."""
        environment = {
            **FAKE_ENVIRONMENT,
            "FAKE_VLLM_START_SECONDS": "0.1",
            "FAKE_VLLM_DECODE_SPEED": str(SLOW),
            "FAKE_VLLM_START_GATE": str(self.start_gate),
            "FAKE_VLLM_ANSWER_GATE": str(self.answer_gate),
            **{f"FAKE_VLLM_{name.upper()}": str(value) for name, value in fake.items()},
        }
        sections: dict[str, object] = {
            "limits": limits(phase, hasty=hasty),
            "restart": {"first_delay": "300s" if phase == "backoff" else "0.05s", "factor": 1, "per_hour": 60},
        }
        if hasty and "idle_probe" in ChecksSection.model_fields:
            sections["checks"] = {"idle_probe": "1s"}
        self.rig.profile(self.profile, **sections, runtime={"env": environment})
        plain = {**environment, "FAKE_VLLM_FAIL_WITH": ""}
        setup = {"setup": str(self.rig.root / "setup.sh")} if phase == "clearing" else {}
        speculation = {"method": "dflash", "model": "draft", "num_tokens": 3}
        self.rig.profile(self.other, **sections, runtime={"env": plain, **setup}, speculation=speculation)

    def mend(self) -> None:
        """The profile as it should be, where a failure or a long delay was its point."""
        self.write_profiles("idle", hasty=False)

    # -- phases -------------------------------------------------------------------------------------------------------
    def serve(self) -> None:
        """The profile serves, whatever was before."""
        order = self.switch(self.profile, replace=True)
        if order is not None:
            outcome = self.outcome(order)
            assert outcome.exit_code == 0, outcome.summary
        self.wait_for("serving")

    def arrange(self, phase: str) -> None:
        """Bring the rig into `phase`; there it stays until `release`, or a limit of the profile."""
        if phase not in ("failed", "stopped"):
            self.serve()
        getattr(self, f"_arrange_{phase}")()
        assert self.status().phase == ("serving" if phase in ("idle", "busy") else phase), self.status().reason

    def release(self) -> None:
        """Open what holds the phase."""
        while self._release:
            self._release.pop()()

    def _close(self, gate: Path) -> None:
        gate.touch()
        self._release.append(lambda: gate.unlink(missing_ok=True))

    def _arrange_starting(self) -> None:
        self._close(self.start_gate)
        before = self.launch
        os.kill(self.main, signal.SIGKILL)
        eventually(lambda: self.launch not in (None, before), within=self.within, why="no new launch")
        self.wait_for("starting")
        log = Path(self.status().backend.log_path)  # pyright: ignore[reportOptionalMemberAccess]  # it was there just now
        eventually(
            lambda: "waiting at the gate" in log.read_text(), within=self.within, why="it does not come to the gate"
        )

    def _arrange_checking(self) -> None:
        self._close(self.answer_gate)
        before = self.launch
        os.kill(self.main, signal.SIGKILL)
        eventually(lambda: self.launch not in (None, before), within=self.within, why="no new launch")
        self.wait_for("checking")

    def _arrange_idle(self) -> None:
        self.works()

    def _arrange_busy(self) -> None:
        self.open_stream()

    def _arrange_suspect(self) -> None:
        self.open_stream()
        eventually(lambda: self.status().rates.running == 1, within=self.within, why="the request is not seen")
        self._close(self.answer_gate)
        self.wait_for("suspect")

    def _arrange_draining(self) -> None:
        self.open_stream()
        eventually(lambda: self.status().rates.running, within=self.within, why="the request is not seen")
        self.switch(self.other, drain=self.draining_for)
        self.wait_for("draining")
        self._release.append(self.end_stream)

    draining_for = 60.0

    def _arrange_stopping(self) -> None:
        engine = self.engine
        self.misbehave(sigterm_deaf=True)
        self._release.append(lambda: self._hear(engine))
        self.switch(self.other)
        self.wait_for("stopping")

    def _hear(self, engine: int) -> None:
        with suppress(httpx.HTTPError):
            self.misbehave(sigterm_deaf=False)
        with suppress(ProcessLookupError):
            os.kill(engine, signal.SIGUSR2)

    def _arrange_clearing(self) -> None:
        # A supervisor that is new reads the profile of the order first, and its setup script takes its time.
        self._arrange_draining()
        self.rig.kill_daemon()
        self._release.clear()
        self._close(self.setup_gate)
        self.start_daemon()
        self.wait_for("draining")
        self.end_stream()
        self.wait_for("clearing")
        eventually(lambda: not self.record.exists(), within=self.within, why="the launch record is not removed")

    def _arrange_backoff(self) -> None:
        os.kill(self.main, signal.SIGKILL)
        self.wait_for("backoff")

    def _arrange_failed(self) -> None:
        with self.rig.client() as client:
            request = wire.SwitchRequest(profile=self.profile, drain=0.0, replace=True, rollback=False)
            order = client.switch(request).order_id
        assert order is not None
        assert self.outcome(order).exit_code == 7
        self.wait_for("failed")

    def _arrange_stopped(self) -> None:
        self.stop()
        self.wait_for("stopped")

    def _arrange_blocked(self) -> None:
        self.rig.end_daemon(self.within)
        self.listen()
        self.start_daemon()
        self.wait_for("blocked")


def patiently(ask: Callable[[], T]) -> T:
    """Ask again where the answer was late: on a machine of two cores a decoding vLLM can starve all others for a while.

    (Seen with real vLLM: 40 s in which a loop that only slept was not run once.)
    """
    for _ in range(3):
        try:
            return ask()
        except ArcopsError as error:
            if "in time" not in error.message:
                raise
    return ask()


def limits(phase: str, *, hasty: bool) -> dict[str, str]:
    """A cell whose point is a limit has short ones; for any other they are out of reach."""
    always = {"drain": "1s", "shutdown_timeout": "0s", "clear": "60s"}
    if hasty:
        return {**always, "start_stall": "2s", "stop_grace": "1s", "stall_after": "1.5s", "probe": "3s"}
    stall_after = "0.2s" if phase == "suspect" else f"{LONG}s"
    return {**always, "start_stall": f"{LONG}s", "stop_grace": "60s", "stall_after": stall_after, "probe": f"{LONG}s"}


def _binds(one: socket.socket, port: int) -> bool:
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
