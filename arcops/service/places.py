"""Which manager has the service of an instance: the user's own, or the system's (`arcops-system@USER.service`)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from arcops.machine.managers import ManagerError
from arcops.service import files
from arcops.service.state import look
from arcops.service.units import SYSTEM_FILE, Unit

SYSTEM_PLACES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""Where a unit of the system's may be. Source: systemd.unit(5)."""


@dataclass(frozen=True, slots=True)
class Place:
    """The service of an instance, and what its clients need."""

    unit: Unit
    env: Mapping[str, str]
    """With the XDG_RUNTIME_DIR in which its supervisor has its socket and its records."""
    rival: str = ""
    """A second service that would supervise the same instance; empty where there is none."""


def find(instance: str, user: str, env: Mapping[str, str], root: str = "/") -> Place:
    """Where the service of an instance is. The system's manager is asked only where root has installed our unit.

    The system's counts where it is enabled, runs or has failed: the file alone may be there for another user. A manager
    that cannot be asked has none.
    """
    own = Unit.of(instance)
    if not _is_the_systems(instance, user, env, root):
        return Place(own, env)
    in_its_place = {**env, "XDG_RUNTIME_DIR": runtime_dir(user)}
    return Place(Unit.of_system(user), in_its_place, own.name if files.exists(env, own) else "")


def runtime_dir(user: str) -> str:
    """RuntimeDirectory= of the system's unit."""
    return f"/run/arcops-{user}"


def _is_the_systems(instance: str, user: str, env: Mapping[str, str], root: str) -> bool:
    places = (os.path.join(root, place.lstrip("/"), SYSTEM_FILE) for place in SYSTEM_PLACES)
    if not any(map(os.path.lexists, places)):
        return False
    try:
        state = look(Unit.of_system(user).name, env)
    except ManagerError:
        return False
    counts = state.runs or state.active == "failed" or state.enabled.startswith("enabled")
    return state.installed and state.instance == instance and counts
