"""One arcops for the runs on a card: its folders, its daemon, and commands as a person would give them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import yaml

from arcops import wire
from arcops.client import Client
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError

T = TypeVar("T")


class NeverError(Exception):
    """What was waited for did not come."""


def until(look: Callable[[], T | None], within: float, what: str, every: float = 0.02) -> tuple[T, float]:
    """The first thing that `look` finds, and the seconds that it took. Raises NeverError after `within` seconds."""
    began = time.monotonic()
    while True:
        found = look()
        took = time.monotonic() - began
        if found:
            return found, took
        if took > within:
            raise NeverError(f"not within {within:.0f} s: {what}")
        time.sleep(every)


@dataclass(frozen=True, slots=True)
class Said:
    """What a command said, its exit code, and the seconds that it took."""

    code: int
    out: str
    err: str
    seconds: float


@dataclass(slots=True, eq=False)
class Instance:
    """An instance of arcops below `root`; several may share `root`, and so the configuration."""

    root: Path
    name: str
    daemon: "subprocess.Popen[bytes] | None" = None
    extra: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def env(self) -> dict[str, str]:
        runtime = self.root / "run"
        runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = {
            "ARCOPS_CONFIG_DIR": str(self.root / "config"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "XDG_RUNTIME_DIR": str(runtime),
            "ARCOPS_INSTANCE": self.name,
            "NO_COLOR": "1",
        }
        return {**os.environ, **own, **self.extra}

    @property
    def socket(self) -> Path:
        return Paths.of(self.name, self.env).socket

    @property
    def log(self) -> Path:
        return self.root / f"arcopsd-{self.name}.log"

    def start(self) -> float:
        """Start the daemon; seconds until it answers."""
        with self.log.open("ab") as log:
            self.daemon = subprocess.Popen(
                [sys.executable, "-m", "arcops.daemon.main"],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return until(self.answers, 60, "the daemon answers")[1]

    def answers(self) -> bool:
        try:
            with Client(self.socket) as client:
                return self.daemon is not None and client.ping().pid == self.daemon.pid
        except ArcopsError:
            return False

    def end(self, sig: int = signal.SIGTERM, within: float = 180) -> float:
        """End the daemon; seconds until it is gone."""
        assert self.daemon is not None
        began = time.monotonic()
        self.daemon.send_signal(sig)
        self.daemon.wait(within)
        return time.monotonic() - began

    def status(self) -> wire.Status:
        with Client(self.socket) as client:
            return client.status()

    def wait_for(self, *phases: str, within: float) -> tuple[wire.Status, float]:
        def there() -> wire.Status | None:
            try:
                status = self.status()
            except ArcopsError:
                return None
            return status if status.phase in phases else None

        return until(there, within, f"{self.name} is {' or '.join(phases)}", every=0.1)

    def arcops(self, *arguments: str, within: float = 400) -> Said:
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "arcops.cli.main", *arguments],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def json(self, *arguments: str) -> object:
        return json.loads(self.arcops(*arguments, "--json").out)

    def launched(self) -> set[int]:
        """Every living process that has a log of this instance open: keeper, API server, engine, whatever is left."""
        prefix = f"{self.root}/state/arcops/{self.name}/logs/"
        return {int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and _opens(one, prefix)}


def write_configuration(root: Path, site: Mapping[str, object], profiles: Mapping[str, Mapping[str, object]]) -> None:
    """`site.yaml` and the profiles, in the folder that instances below `root` read."""
    folder = root / "config" / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    (root / "config" / "site.yaml").write_text(yaml.safe_dump(dict(site)), encoding="utf-8")
    for name, profile in profiles.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(dict(profile)), encoding="utf-8")


def child_of(pid: int, part: str) -> int | None:
    """The child of a process whose name (comm) contains `part`."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue
        parent = int(fields[2].split()[1])
        if parent == pid and part in fields[0]:
            return int(entry.name)
    return None


def _opens(process: Path, prefix: str) -> bool:
    try:
        return any(os.readlink(one).startswith(prefix) for one in (process / "fd").iterdir())
    except OSError:
        return False
