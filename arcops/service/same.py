"""Whether the service runs this very arcops: by the unit's program, and by what the daemon says of itself."""

import os
import socket
import sys
from dataclasses import dataclass

from arcops import __version__, wire
from arcops.client import Client
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError
from arcops.service.state import ServiceState
from arcops.service.units import programs

_CONNECTS_WITHIN = 2.0
"""Seconds; a daemon that hangs still has a queue for those who call."""


@dataclass(frozen=True, slots=True)
class Sameness:
    """The answer, and why in words. None where it cannot be told."""

    same: bool | None
    words: str


def compare(state: ServiceState, paths: Paths) -> Sameness:
    """Ask both. Never raises ArcopsError: what cannot be asked is said."""
    unit = of_unit(state.program)
    status = ask(paths)
    daemon = of_daemon(status if isinstance(status, str) else status.daemon)
    if unit.same is False or daemon.same is False:
        return Sameness(False, "; ".join(one.words for one in (unit, daemon) if one.same is not True))
    if unit.same is None or daemon.same is None:
        return Sameness(None, "; ".join(dict.fromkeys((unit.words, daemon.words))))
    return Sameness(True, f"this one, {daemon.words}")


def of_unit(program: str) -> Sameness:
    """The unit's ExecStart against the arcopsd of this environment."""
    if not program:
        return Sameness(None, "no unit says which arcopsd is started")
    try:
        ours = programs() / "arcopsd"
    except ArcopsError as error:
        return Sameness(None, error.message)
    if os.path.abspath(program) == str(ours) or _same_file(program, str(ours)):
        return Sameness(True, f"the unit starts {program}")
    if not os.access(program, os.X_OK):
        return Sameness(False, f"the unit starts {program}, which is not there")
    return Sameness(False, f"the unit starts {program}, and this arcops has {ours}")


def of_daemon(info: "wire.DaemonInfo | str") -> Sameness:
    """The daemon that runs against this arcops; `info` is a reason in words where none answered."""
    if isinstance(info, str):
        return Sameness(None, info)
    if info.version != __version__:
        return Sameness(False, f"the daemon (pid {info.pid}) is arcops {info.version}, this is {__version__}")
    if info.prefix is None:
        return Sameness(None, f"the daemon (pid {info.pid}, {info.version}) does not say where it is installed")
    if info.prefix != sys.prefix and not _same_file(info.prefix, sys.prefix):
        return Sameness(False, f"the daemon (pid {info.pid}) is of {info.prefix}, this arcops of {sys.prefix}")
    return Sameness(True, f"the daemon is arcops {info.version} of {info.prefix}")


def ask(paths: Paths) -> "wire.Status | str":
    """The daemon's status, or why there is none, in words."""
    if not _listens(str(paths.socket)):
        return f"no daemon answers on {paths.socket}"
    try:
        with Client(paths.socket) as client:
            return client.status()
    except ArcopsError as error:
        return error.message


def _listens(path: str) -> bool:
    """Tried first by hand: the HTTP library drops the socket of a connection that fails without closing it."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECTS_WITHIN)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
