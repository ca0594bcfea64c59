"""The files that a report is made of, and the secrets in them: found first, so that all else can be cleared of them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from arcops.config.locate import expand
from arcops.config.paths import Paths
from arcops.config.source import LARGEST_FILE, Data, UnusableError, parse_source
from arcops.core.launch import Launch
from arcops.machine import files, proc, process, record
from arcops.machine.files import Part
from arcops.report.hiding import in_arguments, in_data, in_url, is_secret

MOST_PROFILES = 200
SITE = "config/site.yaml"
_LARGEST_KEY = 4096
_LARGEST_ENVIRON = 1024 * 1024


@dataclass(slots=True)
class Sources:
    """What was read before anything is written."""

    config: dict[str, str] = field(default_factory=dict[str, str])
    """The text of site.yaml and of the user's own profiles, by the name in the archive."""
    record_text: str | None = None
    launch: Launch | None = None
    """Of the launch record, where that is believable."""
    pids: tuple[int, ...] = ()
    """Keeper and main process, if the record names some that live."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    """The backend's own, from /proc."""
    runtimes: tuple[str, ...] = ()
    """The vllm executables that site.yaml names."""
    unread: dict[str, str] = field(default_factory=dict[str, str])
    """What could not be read, and why."""
    secrets: set[str] = field(default_factory=set[str])


def read_sources(paths: Paths, env: Mapping[str, str]) -> Sources:
    """Everything that may hold a secret by name."""
    found = Sources()
    _read_record(found, paths)
    _read_config(found, paths)
    found.secrets.update(_in_environment(env), _in_environment(found.environment))
    key_files: set[str] = set() if found.launch is None else {found.launch.api_key_file or ""}
    for name, text in found.config.items():
        with suppress(UnusableError):
            data = parse_source(Path(name), text, may_be_empty=True).data
            found.secrets.update(in_data(data))
            key_files.update(_key_files(data))
            if name == SITE:
                found.runtimes = tuple(str(expand(vllm, env)) for vllm in _runtimes(data))
    for key_file in sorted(key_files - {""}):
        try:
            found.secrets.update(_lines(expand(key_file, env)))
        except OSError as error:
            found.unread[f"the key in {key_file}"] = f"{error.strerror}; so it is not hidden where it stands by itself"
    found.secrets.update(_hub_tokens(env))
    return found


def _read_record(found: Sources, paths: Paths) -> None:
    try:
        part = files.start(paths.record, LARGEST_FILE)
    except FileNotFoundError:
        return
    except OSError as error:
        found.unread["launch.json"] = error.strerror or str(error)
        return
    found.record_text = part.content.decode("utf-8", "replace")
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found.secrets.update(in_data(msgspec.json.decode(part.content)))
    believed = record.read(str(paths.record), process.boot_id())
    if not isinstance(believed, record.LaunchRecord):
        return
    found.launch = believed.launch
    found.secrets.update(in_arguments(believed.launch.argv))
    living = [one for one in (believed.keeper, believed.main) if one is not None and process.alive(one)]
    found.pids = tuple(one.pid for one in living)
    for one in living:
        if one == believed.main:
            _read_environ(found, one.pid)


def _read_environ(found: Sources, pid: int) -> None:
    try:
        content = files.start(Path(proc.ROOT) / str(pid) / "environ", _LARGEST_ENVIRON).content
    except OSError as error:
        found.unread["environment.json"] = error.strerror or str(error)
        return
    pairs = (entry.partition("=") for entry in content.decode("utf-8", "replace").split("\0") if "=" in entry)
    found.environment = {name: value for name, _, value in pairs}


def _read_config(found: Sources, paths: Paths) -> None:
    folder = paths.config_dir / "profiles"
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith((".yaml", ".yml")))
    except OSError as error:
        found.unread["config/profiles"] = f"{folder}: {error.strerror}"
        names = []
    if len(names) > MOST_PROFILES:
        found.unread["config/profiles"] = f"{len(names) - MOST_PROFILES} of {len(names)} profiles are left out"
    for name, path in [
        (SITE, paths.config_dir / "site.yaml"),
        *((f"config/profiles/{name}", folder / name) for name in names[:MOST_PROFILES]),
    ]:
        try:
            found.config[name] = files.start(path, LARGEST_FILE).content.decode("utf-8", "replace")
        except OSError as error:
            found.unread[name] = error.strerror or str(error)


def _in_environment(env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        if is_secret(name, value):
            yield value
        yield from in_url(value)


def _key_files(data: object) -> Iterator[str]:
    match data:
        case {"server": {"api_key_file": str() as path}}:
            yield path
        case _:
            return


def _runtimes(data: Mapping[str, Data]) -> Iterator[str]:
    kinds = data.get("runtimes")
    for section in (data.get("runtime"), *(kinds.values() if isinstance(kinds, dict) else ())):
        match section:
            case {"vllm": str() as vllm}:
                yield vllm
            case _:
                continue


def _lines(path: Path) -> Sequence[str]:
    """Every line of a file that holds a secret: which of them counts is not for a report to guess. Raises OSError."""
    part: Part = files.start(path, _LARGEST_KEY)
    return [line.strip() for line in part.content.decode("utf-8", "replace").splitlines()]


def _hub_tokens(env: Mapping[str, str]) -> Iterator[str]:
    """The token that huggingface_hub keeps: $HF_TOKEN_PATH, $HF_HOME/token, ~/.cache/huggingface/token."""
    home = env.get("HF_HOME") or f"{env.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    for path in {env.get("HF_TOKEN_PATH") or f"{home}/token", f"{home}/token"}:
        with suppress(OSError):
            yield from _lines(expand(path, env))
