"""Finding on this machine what a profile names. Looks, and changes nothing; downloads nothing."""

import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path

from arcops.config.paths import home, xdg_dir

SYSFS = Path("/sys")
TINY = "tiny/"
"""How profiles name the tiny models of `make runtime`, which need no models_dir."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


class NotHereError(Exception):
    """What was looked for is not on this machine, or not usable: in words that follow the key."""


def expand(text: str, env: Mapping[str, str]) -> Path:
    """`~` and `~/x` are of the user's home; everything else is as it stands."""
    return home(env) / text[2:] if text == "~" or text.startswith("~/") else Path(text)


def find_executable(text: str, env: Mapping[str, str]) -> str:
    """An executable file by its absolute path. Symlinks stay as written: a virtual environment is known by them."""
    path = _file(text, env)
    if not os.access(path, os.X_OK):
        raise NotHereError(f"{path} is not executable")
    return path


def find_file(text: str, env: Mapping[str, str]) -> str:
    """A readable file by its absolute path."""
    path = _file(text, env)
    if not os.access(path, os.R_OK):
        raise NotHereError(f"{path} cannot be read")
    return path


def find_secret(text: str, env: Mapping[str, str]) -> str:
    """A file that only its owner may read, with something in its first line."""
    path = find_file(text, env)
    try:
        with open(path, encoding="utf-8") as file:
            mode, first = os.fstat(file.fileno()).st_mode, file.readline(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotHereError(f"{path} cannot be read as text") from error
    if mode & 0o077:
        raise NotHereError(f"{path} can be read by others; chmod 600 it")
    if not first:
        raise NotHereError(f"{path} holds no key in its first line")
    return path


def find_model(text: str, revision: str | None, models_dir: str | None, env: Mapping[str, str]) -> str:
    """The directory of a checkpoint. Raises NotHereError naming every place that was looked at."""
    places = _model_places(text, revision, models_dir, env)
    if not places:
        raise NotHereError(f"{text} is relative, and site.yaml names no models_dir")
    for place in places:
        if os.path.isdir(place):
            if not os.path.isfile(place / "config.json"):
                raise NotHereError(f"{place} is no checkpoint: it holds no config.json")
            return str(place)
    advice = "; `make runtime` builds the tiny models" if text.startswith(TINY) else ""
    raise NotHereError(f"no such model; looked at {', '.join(str(place) for place in places)}{advice}")


def find_directory(text: str, models_dir: str | None, env: Mapping[str, str]) -> str:
    """A directory, absolute or below `models_dir`."""
    path = expand(text, env)
    if not path.is_absolute():
        if models_dir is None:
            raise NotHereError(f"{text} is relative, and site.yaml names no models_dir")
        path = expand(models_dir, env) / path
    if not os.path.isdir(path):
        raise NotHereError(f"{path} is not a directory")
    return str(path)


def hub_cache(env: Mapping[str, str]) -> Path:
    """The Hugging Face cache, as huggingface_hub finds it: $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub."""
    if env.get("HF_HUB_CACHE"):
        return expand(env["HF_HUB_CACHE"], env)
    own = env.get("HF_HOME")
    return (expand(own, env) if own else xdg_dir(env, "XDG_CACHE_HOME", ".cache") / "huggingface") / "hub"


def arcops_cache(env: Mapping[str, str]) -> Path:
    """Where `make runtime` builds: $ARCOPS_RUNTIME_HOME, else arcops' directory in the user's cache."""
    own = env.get("ARCOPS_RUNTIME_HOME")
    return expand(own, env) if own else xdg_dir(env, "XDG_CACHE_HOME", ".cache") / "arcops"


def built(env: Mapping[str, str], what: str) -> list[Path]:
    """Complete builds called `what`-SOMETHING in arcops' cache, the newest first. A build that was cut short has no
    `.complete`, and does not count."""
    marks: list[tuple[float, Path]] = []
    for mark in glob.glob(f"{glob.escape(str(arcops_cache(env)))}/{what}-*/.complete"):
        try:
            marks.append((os.stat(mark).st_mtime, Path(mark).parent))
        except OSError:  # removed since
            continue
    return [folder for _, folder in sorted(marks, reverse=True)]


def _file(text: str, env: Mapping[str, str]) -> str:
    """The absolute path of a file that is there. os.path says "no" where a Path would raise: names too long, say."""
    path = expand(text, env)
    if not path.is_absolute():
        raise NotHereError(f"{text} must be an absolute path, or begin with ~/")
    if not os.path.exists(path):
        raise NotHereError(f"{path} does not exist")
    if not os.path.isfile(path):
        raise NotHereError(f"{path} is not a file")
    return str(path)


def _model_places(text: str, revision: str | None, models_dir: str | None, env: Mapping[str, str]) -> list[Path]:
    path = expand(text, env)
    if path.is_absolute():
        return [path]
    places = [] if models_dir is None else [expand(models_dir, env) / path]
    if text.startswith(TINY):
        places += [folder / text.removeprefix(TINY) for folder in built(env, "tiny-models")[:1]]
    if _HUB_NAME.fullmatch(text):
        places.append(_snapshot(hub_cache(env) / f"models--{text.replace('/', '--')}", revision or "main"))
    return places


def _snapshot(model: Path, revision: str) -> Path:
    """A snapshot by branch, tag (`refs/` names the commit) or commit."""
    try:
        commit = (model / "refs" / revision).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        commit = revision
    return model / "snapshots" / (commit or revision)
