"""An arcops in a box: its user, its programs, its configuration with the fake vLLM (or the real one), and its units."""

import json
import shlex
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from arcops import wire
from tests.fakes.runtime import fake_vllm_path
from tests.helpers import eventually
from tests.systemd.box import ROOT, Box, Done

UNITS = ROOT / "units"
SERVED_WITHIN = 150.0
"""Seconds. The fake starts in one. Where seven processes wait for each processor, a supervisor was seen to get 0.4 s of
processor time in its first 49 s, and to wait for the rest on the kernel's run queue: nothing here can shorten that.
"""
FAKE = {"FAKE_VLLM_START_SECONDS": "0.3", "FAKE_VLLM_STOP_SECONDS": "0.02"}


@dataclass(frozen=True, slots=True)
class Household:
    """What one user of a box has of arcops. `system`: its supervisor is a unit of the system, not of the user."""

    box: Box
    user: str
    port: int = 8000
    system: bool = False

    # -- set up -------------------------------------------------------------------------------------------------------
    def install(self) -> "Household":
        """Programs, configuration, and for a user's own supervisor its units."""
        places = ("/usr/local/bin", None) if self.system else (f"{self.home}/.local/bin", self.user)
        for name, module in (("arcops", "arcops.cli.main"), ("arcopsd", "arcops.daemon.main")):
            # What an installed program is: it becomes the interpreter of its environment.
            command = f"exec {shlex.quote(sys.executable)} -m {module} "
            text = f'#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(ROOT))}\n{command}"$@"\n'
            self.box.write(f"{places[0]}/{name}", text, owner=places[1], mode="755")
        self.write("models/target/config.json", json.dumps({"max_position_embeddings": 32768}))
        self.write(".config/arcops/site.yaml", yaml.safe_dump(self.site()))
        self.profile("target")
        if self.system:
            self.box.write("/etc/systemd/system/arcops-system@.service", (UNITS / "arcops-system@.service").read_text())
            self.box.root("systemctl", "daemon-reload")
        else:
            for unit in ("arcops.service", "arcops@.service"):
                self.write(f".config/systemd/user/{unit}", (UNITS / unit).read_text())
            if self.box.manager_runs(self.user):
                self.box.ctl(self.user, "daemon-reload")
        return self

    def site(self) -> dict[str, object]:
        return {"runtime": {"vllm": str(fake_vllm_path())}, "models_dir": f"{self.home}/models"}

    def profile(self, name: str, *, fake: Mapping[str, str] | None = None, **sections: object) -> None:
        """A profile for the fake; a section that is given replaces its own."""
        complete: dict[str, object] = {
            "device": {"kind": "cpu"},
            "model": {"path": "target", "served_name": "tiny"},
            "server": {"port": self.port},
            "limits": {"drain": "20s", "shutdown_timeout": "1s", "stop_grace": "5s", "clear": "10s"},
            "restart": {"first_delay": "0.1s"},
            "runtime": {"env": {**FAKE, **(fake or {})}},
        }
        self.write(f".config/arcops/profiles/{name}.yaml", yaml.safe_dump({**complete, **sections}))

    def drop_in(self, unit: str, text: str) -> None:
        """The operator's own settings for a unit; `arcops@.service` means every instance of it."""
        if self.system:
            self.box.write(f"/etc/systemd/system/{unit}.d/test.conf", text)
            self.box.root("systemctl", "daemon-reload")
        else:
            self.write(f".config/systemd/user/{unit}.d/test.conf", text)
            self.box.ctl(self.user, "daemon-reload")

    def write(self, path: str, text: str, mode: str = "644") -> None:
        """A file below the home."""
        self.box.write(f"{self.home}/{path}", text, owner=self.user, mode=mode)

    @property
    def home(self) -> str:
        return self.box.home(self.user)

    # -- what it does -------------------------------------------------------------------------------------------------
    @property
    def unit(self) -> str:
        return f"arcops-system@{self.user}.service" if self.system else "arcops.service"

    def ctl(self, *argv: str, check: bool = True) -> Done:
        """systemctl, of whoever's unit it is."""
        if self.system:
            return self.box.root("systemctl", "--no-pager", *argv, check=check)
        return self.box.ctl(self.user, *argv, check=check)

    def show(self, *properties: str, unit: str | None = None) -> dict[str, str]:
        return self.box.show(None if self.system else self.user, unit or self.unit, *properties)

    def journal(self, unit: str | None = None) -> str:
        return self.box.journal(unit or self.unit, None if self.system else self.user)

    def arcops(self, *argv: str, instance: str = "main", check: bool = True) -> Done:
        """The command `arcops`, as the user has it."""
        env = {"ARCOPS_INSTANCE": instance}
        if self.system:
            env["XDG_RUNTIME_DIR"] = f"/run/arcops-{self.user}"
        return self.box.user(self.user, "arcops", *argv, env=env, check=check, within=180.0)

    def status(self, instance: str = "main") -> wire.Status | None:
        """None where no daemon answers."""
        done = self.curl("/v1/status", instance)
        return msgspec.json.decode(done.stdout, type=wire.Status) if done.returncode == 0 else None

    def curl(self, path: str, instance: str = "main", *more: str) -> Done:
        """The control API, without the time that a Python takes to start."""
        runtime = f"/run/arcops-{self.user}" if self.system else f"/run/user/{self.box.uid(self.user)}"
        socket = f"{runtime}/arcops/{instance}.sock"
        command = ("curl", "-sS", "--fail-with-body", "--max-time", "20", "--unix-socket", socket)
        return self.box.user(self.user, *command, f"http://arcops{path}", *more, check=False)

    def verdicts(self, *names: str) -> dict[str, str]:
        """What the doctor says of some checks."""
        done = self.arcops("doctor", "--json", *names, check=False)
        assert done.returncode in (0, 1), done.stderr
        found = {one["name"]: one["verdict"] for one in json.loads(done.stdout)["findings"]}
        assert done.returncode == (1 if "problem" in found.values() else 0)
        return found

    def until(self, phase: str, profile: str | None = None, *, instance: str = "main") -> wire.Status:
        """Wait until its supervisor says so."""

        def there() -> wire.Status | None:
            status = self.status(instance)
            right = status is not None and status.phase == phase and profile in (None, status.order.profile)
            return status if right else None

        return eventually(there, within=SERVED_WITHIN, every=0.1, why=f"{phase}: {self.curl('/v1/status', instance)}")

    def serve(self, profile: str = "target", instance: str = "main") -> wire.BackendInfo:
        """Order a profile, and wait until it serves."""
        done = self.curl("/v1/switch", instance, "-d", json.dumps({"profile": profile}))
        assert done.returncode == 0, done.stdout
        backend = self.until("serving", profile, instance=instance).backend
        assert backend is not None
        return backend

    def main_pid(self) -> int:
        return int(self.show("MainPID")["MainPID"])

    def restarts(self) -> int:
        return int(self.show("NRestarts")["NRestarts"])

    def events(self) -> list[str]:
        """The history, "KIND REASON" each; from the database itself, so also with no daemon."""
        path = f"{self.home}/.local/state/arcops/main/arcops.db"
        code = "import sqlite3,sys;[print(*row) for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2])]"
        query = "SELECT kind, reason FROM events ORDER BY id"
        return self.box.user(self.user, sys.executable, "-c", code, path, query).stdout.splitlines()

    def backends(self) -> list[int]:
        """Pids of every process that has a launch's log open: keeper, main, engine, strays."""
        logs = f"{self.home}/.local/state/arcops/*/logs/*"
        script = 'find /proc/[0-9]*/fd -lname "$1" 2>/dev/null | cut -d/ -f3 | sort -nu'
        return [int(line) for line in self.box.root("sh", "-c", script, "sh", logs).stdout.split()]

    def alive(self, pid: int | None) -> bool:
        return pid is not None and self.box.exists(f"/proc/{pid}")

    def stream(self, tokens: int) -> "Stream":
        """One request that is open."""
        return Stream(self, tokens)


class Stream:
    """A completion that streams: so many tokens, as fast as the fake gives them (500 a second)."""

    def __init__(self, house: Household, tokens: int) -> None:
        request = {"model": "tiny", "prompt": "one two", "max_tokens": tokens, "stream": True, "temperature": 0}
        self._house = house
        self._process = house.box.beside(
            *("curl", "-sSN", "--max-time", "120", f"http://127.0.0.1:{house.port}/v1/completions"),
            *("-H", "content-type: application/json", "-d", json.dumps(request)),
        )
        self._lines: list[str] = []
        # Read all the time: a full pipe would hold the backend up.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as out:
            for line in filter(None, map(str.strip, out)):
                self._lines.append(line)
        self._process.wait()

    def began(self) -> "Stream":
        """Wait for the first token."""
        eventually(lambda: self._lines, within=SERVED_WITHIN, why="no token came")
        assert self._lines[0].startswith("data: "), self._lines
        return self

    def seen(self) -> "Stream":
        """Wait until the supervisor knows of it: it counts open requests once a second."""

        def known() -> bool:
            status = self._house.status()
            return status is not None and bool(status.rates.running)

        eventually(known, within=SERVED_WITHIN, every=0.05, why="the supervisor sees no open request")
        return self

    def goes_on(self) -> bool:
        """Whether more tokens come; then nobody wants the rest of them."""
        before = len(self._lines)
        eventually(lambda: len(self._lines) > before or not self._reader.is_alive(), within=SERVED_WITHIN)
        more = self._reader.is_alive()
        self._process.terminate()
        self._reader.join()
        return more

    def is_whole(self) -> bool:
        """Wait for its end: whether it got all its tokens. A request that vLLM aborts ends with [DONE] as well."""
        self._reader.join()
        if len(self._lines) < 2 or self._lines[-1] != "data: [DONE]":
            return False
        return json.loads(self._lines[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"


def units_of(folder: Path = UNITS) -> list[Path]:
    """The units that arcops brings."""
    return sorted(folder.glob("*.service"))
