"""Where to measure: the server at a URL, or the daemon's own backend, with the key that it wants."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arcops.config.library import Config
from arcops.config.locate import NotHereError, find_secret
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode, NoDaemonError
from arcops.evidence import fresh
from arcops.evidence.setting import same_place

_GIVE: Final = "give --url, or start the daemon with `arcopsd`"


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and how to be let in."""

    url: str
    api_key: str | None
    socket: Path | None
    """The control socket of the instance's daemon; None where there is none to be asked."""


def target_of(url: str | None, api_key_file: Path | None, paths: Paths) -> Target:
    """Blocking. Raises ArcopsError: neither a URL nor a daemon (8), nothing that serves (3), an unreadable key (2)."""
    given = None if api_key_file is None else read_key(api_key_file)
    socket = paths.socket if os.path.exists(paths.socket) else None
    if url is not None:
        own = None if given is not None else _key_of_own(url, paths, socket)
        return Target(url, given or own, socket)
    if socket is None:
        raise NoDaemonError(f"there is no server to measure: no daemon answers on {paths.socket}", hint=_GIVE)
    try:
        backend = fresh.serving(socket)
    except NoDaemonError as error:
        raise NoDaemonError(f"there is no server to measure: {error.message}", hint=_GIVE) from error
    return Target(backend.url, given or key_of(backend.profile, paths), socket)


def read_key(path: Path) -> str:
    """The first line of a file that only its owner may read. Raises ArcopsError (usage)."""
    try:
        find_secret(str(path), os.environ)
        with open(path, encoding="utf-8") as file:
            return file.readline(4096).strip()
    except (NotHereError, OSError, UnicodeDecodeError) as error:
        raise ArcopsError(f"the API key cannot be read: {error}", exit_code=ExitCode.USAGE) from error


def key_of(profile: str, paths: Paths) -> str | None:
    """The key of a profile's server; None where it has none, or it cannot be read: the server will say so."""
    try:
        launch = Config.load(instance=paths.instance).launch(profile)
        return None if launch.api_key_file is None else read_key(Path(launch.api_key_file))
    except ArcopsError:
        return None


def _key_of_own(url: str, paths: Paths, socket: Path | None) -> str | None:
    """Where the URL is the daemon's own backend's."""
    if socket is None:
        return None
    try:
        backend = fresh.serving(socket)
    except ArcopsError:
        return None
    return key_of(backend.profile, paths) if same_place(backend.url, url) else None
