"""`make demo`: arcops at work with real vLLM on this machine's processor.

Builds what is missing (the vLLM CPU runtime and the tiny models), starts a daemon of its own instance in a directory of
its own, switches to `demo-dflash2`, asks for one completion and opens the screen. Without a terminal it prints the
completion and `arcops status` instead. Afterwards everything that it started is stopped, and nothing of the demo is
left but the runtime in the cache.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import httpx
import yaml

from arcops.client import Client

ROOT = Path(__file__).resolve().parent.parent
BUILDER = ROOT / "tools" / "vllm_cpu" / "build.py"
PROFILES = ("demo-target-only", "demo-dflash2", "demo-mtp")
PROMPT = "The supervisor starts"
DAEMON_WITHIN = 20.0
"""Seconds for the daemon to answer."""


def main() -> int:
    """Run the demo; the exit code of the first step that failed."""
    vllm, models = runtime()
    with tempfile.TemporaryDirectory(prefix="arcops-demo-") as folder:
        port = free_port()
        env = configure(Path(folder), vllm, models, port)
        say("starting arcopsd (instance `demo`)")
        with (Path(folder) / "arcopsd.log").open("wb") as log:
            daemon = subprocess.Popen([sys.executable, "-m", "arcops.daemon.main"], env=env, stdout=log, stderr=log)
        try:
            return show(env, port)
        finally:
            say("stopping the daemon; it takes its backend down")
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()


def show(env: Mapping[str, str], port: int) -> int:
    """The part that is worth looking at."""
    wait_for_daemon(env)
    say("arcops switch demo-dflash2   (a real vLLM starts: half a minute)")
    switched = arcops(env, "switch", "demo-dflash2")
    if switched:
        return switched
    say(f"one completion of http://127.0.0.1:{port}")
    sys.stdout.write(f"{PROMPT}{complete(port)}\n")
    sys.stdout.flush()
    if sys.stdin.isatty() and sys.stdout.isatty():
        say("arcops tui   (q leaves; s switches, to demo-target-only or demo-mtp for example)")
        return arcops(env, "tui")
    say("arcops status")
    wait_for_numbers(env)
    return arcops(env, "status")


def runtime() -> tuple[Path, Path]:
    """The vLLM executable and the folder of the tiny models, built if they are missing."""
    say("vLLM for the CPU and the tiny models (built once, 2.3 GB in the cache)")
    built = subprocess.run([sys.executable, str(BUILDER)], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        raise SystemExit(built.returncode)
    lines = dict(line.split("=", 1) for line in built.stdout.splitlines())
    return Path(lines["vllm"]), Path(lines["models"])


def configure(folder: Path, vllm: Path, models: Path, port: int) -> dict[str, str]:
    """A configuration of its own, and the environment in which every command uses it."""
    profiles = folder / "config" / "profiles"
    profiles.mkdir(parents=True)
    (folder / "models").mkdir()
    (folder / "models" / "tiny").symlink_to(models)
    (folder / "run").mkdir(mode=0o700)
    site = {"runtime": {"vllm": str(vllm)}, "models_dir": str(folder / "models")}
    (folder / "config" / "site.yaml").write_text(yaml.safe_dump(site))
    for name in PROFILES:
        own = {"extends": name, "server": {"port": port}}
        (profiles / f"{name}.yaml").write_text(yaml.safe_dump(own))
    own_places = {
        "ARCOPS_CONFIG_DIR": str(folder / "config"),
        "ARCOPS_INSTANCE": "demo",
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    return {**os.environ, **own_places}


def wait_for_daemon(env: Mapping[str, str]) -> None:
    """Poll until the control socket answers."""
    deadline = time.monotonic() + DAEMON_WITHIN
    path = Path(env["XDG_RUNTIME_DIR"]) / "arcops" / "demo.sock"
    while not connects(path):
        if time.monotonic() > deadline:
            raise SystemExit(f"the daemon does not answer on {path}")
        time.sleep(0.05)


def wait_for_numbers(env: Mapping[str, str]) -> None:
    """Until the daemon's scrape, once a second, has seen the completion."""
    with Client(Path(env["XDG_RUNTIME_DIR"]) / "arcops" / "demo.sock") as client:
        for status in client.follow_status():
            if status.rates.ttft is not None:
                return


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def arcops(env: Mapping[str, str], *arguments: str) -> int:
    """Run the command `arcops` as a person would."""
    return subprocess.run([sys.executable, "-m", "arcops.cli.main", *arguments], env=env, check=False).returncode


def complete(port: int) -> str:
    """One greedy completion from vLLM itself."""
    body = {"model": "demo", "prompt": PROMPT, "max_tokens": 60, "temperature": 0}
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=120, trust_env=False)
    answer.raise_for_status()
    return str(answer.json()["choices"][0]["text"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(text: str) -> None:
    sys.stderr.write(f"== {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main())
