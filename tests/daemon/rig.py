"""A whole arcops on its own island: its directories, its configuration, a real `arcopsd`, and a client."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import httpx
import yaml

from arcops import wire
from arcops.client import Client
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError
from arcops.machine import proc
from tests.fakes.runtime import fake_model, fake_vllm_path
from tests.helpers import eventually, free_port

FAKE_ENVIRONMENT = {"FAKE_VLLM_START_SECONDS": "0.2", "FAKE_VLLM_STOP_SECONDS": "0.02"}
"""A fake that starts fast enough for a test, and slow enough to be seen starting."""


@dataclass(slots=True)
class Result:
    """What a command said and returned."""

    code: int
    out: str
    err: str


@dataclass(slots=True)
class Rig:
    """One instance of arcops. Use it with `with`: it ends its daemon and whatever its backends left."""

    root: Path
    instance: str = "test"
    runtime: Path | None = None
    """Another rig's runtime directory, to compete with it for the CPU's lock."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    port: int = field(default_factory=free_port)
    daemon: "subprocess.Popen[bytes] | None" = None
    _short: "tempfile.TemporaryDirectory[str] | None" = None

    def __post_init__(self) -> None:
        if self.runtime is None:
            # A Unix socket's path is short, pytest's directories are long.
            self._short = tempfile.TemporaryDirectory(prefix="arcops-")
            self.runtime = Path(self._short.name)
            self.runtime.chmod(0o700)
        (self.root / "config" / "profiles").mkdir(parents=True, exist_ok=True)
        fake_model(self.root / "models" / "target", mtp=True)
        fake_model(self.root / "models" / "draft")
        self.site(runtime={"vllm": str(fake_vllm_path())}, models_dir=str(self.root / "models"))
        self.profile("target-only")
        self.profile(
            "dflash2", extends="target-only", speculation={"method": "dflash", "model": "draft", "num_tokens": 3}
        )
        self.profile("mtp", extends="target-only", speculation={"method": "mtp", "num_tokens": 2})

    # -- configuration ------------------------------------------------------------------------------------------------
    def site(self, **settings: object) -> None:
        (self.root / "config" / "site.yaml").write_text(yaml.safe_dump(settings))

    def profile(self, name: str, **sections: object) -> Path:
        """Write a profile; without `extends` it is a complete one for the fake."""
        path = self.root / "config" / "profiles" / f"{name}.yaml"
        if "extends" not in sections:
            complete: dict[str, object] = {
                "device": {"kind": "cpu"},
                "model": {"path": "target", "served_name": "tiny"},
                "server": {"port": self.port},
                "scheduling": {"max_model_len": 32768, "max_num_seqs": 4},
                "limits": {"drain": "2s", "shutdown_timeout": "1s", "stop_grace": "5s", "clear": "10s"},
                "restart": {"first_delay": "0.1s"},
                "runtime": {"env": {**FAKE_ENVIRONMENT, "FAKE_VLLM_STARTS_FILE": str(self.starts_file)}},
            }
            sections = {key: merged(complete.get(key), sections.get(key)) for key in (*complete, *sections)}
        path.write_text(yaml.safe_dump(sections))
        return path

    def misbehaving(self, name: str, **fake: object) -> Path:
        """A profile whose backend misbehaves as FAKE_VLLM_... says."""
        faults = {f"FAKE_VLLM_{key.upper()}": str(value) for key, value in fake.items()}
        return self.profile(name, extends="target-only", runtime={"env": faults})

    @property
    def starts_file(self) -> Path:
        """A line for each start of the fake."""
        return self.root / "starts"

    def starts(self) -> int:
        return len(self.starts_file.read_text().splitlines()) if self.starts_file.exists() else 0

    # -- life ---------------------------------------------------------------------------------------------------------
    def env(self) -> dict[str, str]:
        own = {
            "ARCOPS_CONFIG_DIR": str(self.root / "config"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "ARCOPS_INSTANCE": self.instance,
            "NO_COLOR": "1",
        }
        return {**os.environ, **own, **self.environment}

    @property
    def paths(self) -> Paths:
        return Paths.of(self.instance, self.env())

    def start(self) -> Self:
        """Start the daemon and wait until it answers."""
        self.launch_daemon()
        eventually(self.answers, within=60.0, why=f"the daemon does not answer: {self.daemon_log()}")
        return self

    def daemon_command(self) -> list[str]:
        """What is started as the daemon; a rig that tampers with it has another one."""
        return [sys.executable, "-m", "arcops.daemon.main"]

    def launch_daemon(self) -> "subprocess.Popen[bytes]":
        with (self.root / "arcopsd.log").open("ab") as log:
            self.daemon = subprocess.Popen(
                self.daemon_command(),
                env=self.env(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self.daemon

    def answers(self) -> bool:
        if not connects(self.paths.socket):
            return False
        with suppress(ArcopsError), self.client() as client:
            return client.ping().pid == (self.daemon.pid if self.daemon else None)
        return False

    def kill_daemon(self) -> None:
        """What a crash is: SIGKILL."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()

    def end_daemon(self, within: float = 20.0) -> int:
        """An orderly end."""
        assert self.daemon is not None
        self.daemon.terminate()
        return self.daemon.wait(within)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            sys.stderr.write(f"--- arcopsd of {self.instance}\n{self.daemon_log()[-6000:]}\n")
        if self.daemon is not None and self.daemon.poll() is None:
            self.kill_daemon()
        self.end_strays()
        if self._short is not None:
            self._short.cleanup()

    def end_strays(self) -> None:
        """SIGKILL for whatever a backend left: the youngest first, and each is gone before its elders follow.

        The lock is with the keeper and the API server. Were they to die first, it would be free while an engine lived,
        and a witness of the laws would see what only this did.
        """
        for pid in reversed(by_age(self.backend_pids())):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            eventually(lambda pid=pid: pid not in self.backend_pids(), why=f"process {pid} of a backend is left")
        eventually(lambda: not self.backend_pids(), why="processes of a backend are left")

    # -- looking ------------------------------------------------------------------------------------------------------
    def client(self) -> Client:
        return Client(self.paths.socket)

    def status(self) -> wire.Status:
        with self.client() as client:
            return client.status()

    def phase(self) -> str:
        return self.status().phase

    def wait_for(self, *phases: str, within: float = 60.0) -> wire.Status:
        """Poll until the phase is one of these."""

        def there() -> wire.Status | None:
            if not connects(self.paths.socket):
                return None
            try:
                status = self.status()
            except ArcopsError:
                return None
            return status if status.phase in phases else None

        found = eventually(there, within=within, why=f"not {' or '.join(phases)}: {self.daemon_log()[-2000:]}")
        assert found is not None
        return found

    def daemon_log(self) -> str:
        log = self.root / "arcopsd.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def backend_pids(self) -> list[int]:
        """Every process that has one of this rig's log files open: keeper, main, engine, strays."""
        log_dir = f"{self.root}/state/arcops/{self.instance}/logs/"
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and opens(entry, log_dir)]

    def arcops(self, *arguments: str, within: float = 60.0) -> Result:
        """Run the command `arcops`."""
        done = subprocess.run(
            [sys.executable, "-m", "arcops.cli.main", *arguments],
            env=self.env(),
            capture_output=True,
            text=True,
            timeout=within,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    # -- the backend --------------------------------------------------------------------------------------------------
    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def complete(self, tokens: int = 8, prompt: str = "one two", timeout: float = 30.0) -> dict[str, object]:
        """One completion from the backend itself."""
        answer = httpx.post(
            f"{self.url}/v1/completions",
            json={"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0},
            timeout=timeout,
            trust_env=False,
        )
        answer.raise_for_status()
        return dict(answer.json())

    def misbehave(self, **settings: object) -> None:
        """Tell the running fake to misbehave from now on."""
        httpx.post(f"{self.url}/fake/misbehave", content=json.dumps(settings), trust_env=False).raise_for_status()


def merged(below: object, above: object) -> object:
    """Sections merged one level deep, as `extends` does it."""
    if above is None:
        return below
    if isinstance(below, dict) and isinstance(above, dict):
        return cast("dict[str, object]", below) | cast("dict[str, object]", above)
    return above


def connects(path: Path) -> bool:
    """Whether somebody listens on a Unix socket. (httpcore leaks the socket of a connection that fails.)"""
    with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
        probe.connect(str(path))
        return True
    return False


def by_age(pids: Iterable[int]) -> list[int]:
    """Those of these processes that live, the oldest first: who was started by another comes after it."""
    found = (proc.stat(pid) for pid in pids)
    return [one.pid for one in sorted((one for one in found if one is not None), key=lambda one: (one.start, one.pid))]


def opens(process: Path, prefix: str) -> bool:
    """Whether a process has a file open whose path begins with `prefix`."""
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                if os.readlink(descriptor).startswith(prefix):
                    return True
    return False
