"""An arcops of its own for the demo and the measurements: its configuration, its daemon, and an end to all of it.

Nothing here waits without a limit, and what went wrong is said with the end of the daemon's log before its folder goes.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import yaml

ROOT = Path(__file__).resolve().parent.parent
BUILDER = ROOT / "tools" / "vllm_cpu" / "build.py"
PROFILES = ("demo-target-only", "demo-dflash2", "demo-mtp")
DAEMON = (sys.executable, "-m", "arcops.daemon.main")
DAEMON_WITHIN = 20.0
"""Seconds for the daemon to answer."""
SWITCH_WITHIN = 300.0
"""Seconds for a switch between the tiny models; it takes 20 to 40."""
END_WITHIN = (60.0, 60.0)
"""Seconds for the daemon to end after the first SIGTERM, and after the second, which skips the drain."""
TAIL = 25
"""Lines of the daemon's log that are shown when something failed."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The vllm executable, and the folder of the tiny models."""

    vllm: Path
    models: Path


@dataclass(frozen=True, slots=True)
class Arcops:
    """A daemon that answers."""

    env: Mapping[str, str]
    """In which every command of arcops means this daemon."""
    port: int
    """Of its backends, on 127.0.0.1."""
    pid: int
    socket: Path

    def run(self, *arguments: str, within: float | None = None) -> int:
        """Run the command `arcops` as a person would. SystemExit if it takes more than `within` seconds."""
        try:
            done = subprocess.run(command(*arguments), env=self.env, check=False, timeout=within)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"arcops {' '.join(arguments)}: no end after {within:.0f} s") from None
        return done.returncode

    def must(self, *arguments: str, within: float | None = None) -> None:
        """Run the command `arcops`; SystemExit with its exit code if it fails."""
        code = self.run(*arguments, within=within)
        if code:
            say(f"arcops {' '.join(arguments)} failed with exit code {code}")
            raise SystemExit(code)


def command(*arguments: str) -> list[str]:
    """The command line of `arcops` with this interpreter."""
    return [sys.executable, "-m", "arcops.cli.main", *arguments]


def runtime() -> Runtime:
    """vLLM for the CPU and the tiny models, built if they are missing. SystemExit if that fails."""
    say("vLLM for the CPU and the tiny models (built once, 2.3 GB in the cache)")
    built = subprocess.run([sys.executable, str(BUILDER)], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        raise SystemExit(built.returncode)
    lines = dict(line.split("=", 1) for line in built.stdout.splitlines())
    return Runtime(Path(lines["vllm"]), Path(lines["models"]))


@contextmanager
def supervised(purpose: str, runtime: Runtime) -> Generator[Arcops]:
    """A daemon of instance `demo` in a folder of its own; whatever happens inside, it is ended, and its backend too.

    SystemExit if it does not answer, or does not end.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"arcops-{purpose}-"))
    failure: BaseException | None = None
    ended = True
    try:
        port = free_port()
        env = configure(folder, runtime, port)
        path = folder / "run" / "arcops" / "demo.sock"
        log = folder / "arcopsd.log"
        with log.open("wb") as output:
            daemon = subprocess.Popen(
                DAEMON,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            _wait_for(daemon, path)
            yield Arcops(env, port, daemon.pid, path)
        except BaseException as error:
            failure = error
            raise
        finally:
            ended = _end(daemon, folder)
            if failure is not None and _went_wrong(failure):
                _show_tail(log)
    finally:
        if ended:
            shutil.rmtree(folder, ignore_errors=True)
    if not ended:
        raise SystemExit(1)


def configure(folder: Path, runtime: Runtime, port: int) -> dict[str, str]:
    """Write the demo profiles' configuration; the environment in which every command uses it."""
    profiles = folder / "config" / "profiles"
    profiles.mkdir(parents=True)
    (folder / "models").mkdir()
    (folder / "models" / "tiny").symlink_to(runtime.models)
    (folder / "run").mkdir(mode=0o700)
    (folder / "t").mkdir()
    site = {"runtime": {"vllm": str(runtime.vllm)}, "models_dir": str(folder / "models")}
    (folder / "config" / "site.yaml").write_text(yaml.safe_dump(site))
    for name in PROFILES:
        own = {"extends": name, "server": {"port": port}}
        (profiles / f"{name}.yaml").write_text(yaml.safe_dump(own))
    own_places = {
        "ARCOPS_CONFIG_DIR": str(folder / "config"),
        "ARCOPS_INSTANCE": "demo",
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "XDG_STATE_HOME": str(folder / "state"),
        # vLLM leaves its sockets behind; their paths must be short.
        "TMPDIR": str(folder / "t"),
    }
    return {**os.environ, **own_places}


def _wait_for(daemon: "subprocess.Popen[bytes]", path: Path) -> None:
    """Poll until the control socket answers. SystemExit if the daemon ends first, or takes too long."""
    deadline = time.monotonic() + DAEMON_WITHIN
    while not _connects(path):
        if daemon.poll() is not None:
            raise SystemExit(f"the daemon ended at once, with exit code {daemon.returncode}")
        if time.monotonic() > deadline:
            raise SystemExit(f"the daemon does not answer on {path} after {DAEMON_WITHIN:.0f} s")
        time.sleep(0.05)


def _connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _end(daemon: "subprocess.Popen[bytes]", folder: Path) -> bool:
    """SIGTERM, and a second one that skips the drain; False if the daemon is still there after both.

    It is never killed: only the daemon can take its backend down, and a folder that stays tells why it did not.
    """
    for patience in END_WITHIN:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(patience)
        except subprocess.TimeoutExpired:
            say(f"the daemon (pid {daemon.pid}) has not ended after {patience:.0f} s")
        else:
            return True
    say(f"the daemon is left as it is, and so is its folder: {folder}")
    return False


def _went_wrong(error: BaseException) -> bool:
    """Somebody who asked for the end (Ctrl-C, SIGTERM) needs no explanation."""
    if isinstance(error, SystemExit):
        return error.code not in (None, 0, 128 + signal.SIGTERM)
    return not isinstance(error, KeyboardInterrupt)


def _show_tail(log: Path) -> None:
    lines = log.read_text(errors="replace").splitlines()
    if lines:
        say("the end of the daemon's log:")
        sys.stderr.writelines(f"   {line}\n" for line in lines[-TAIL:])
        sys.stderr.flush()


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def leave_on_sigterm() -> None:
    """SIGTERM becomes an exception like Ctrl-C, so that what was started is ended."""

    def leave(*_: object) -> NoReturn:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)


def say(text: str) -> None:
    """A line about what is being done, on stderr."""
    sys.stderr.write(f"== {text}\n")
    sys.stderr.flush()
