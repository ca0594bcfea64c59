"""Whether this supervisor outlives a logout and comes back after a reboot: what the daemon knows of it by itself.

Three things make a user's service unattended: lingering is on, the unit is enabled, and the daemon runs as that unit.
All of it is read from files, so that no manager has to be asked (it may be the one that hangs).
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from arcops import wire
from arcops.config.paths import Paths, xdg_dir
from arcops.daemon.clock import Clock
from arcops.service.units import Unit

KEPT_FOR = 30.0
"""Seconds for which an answer is kept."""
_USERS = ("/etc/systemd/user",)
_SYSTEM = ("/etc/systemd/system",)


@dataclass(frozen=True, slots=True)
class Placing:
    """How this daemon runs."""

    unit: str | None
    """The service that it runs in; None in a terminal or a scope."""
    of_user: bool | None
    """The unit is of a user's manager, not of root's. None where the cgroup does not say."""
    lingering: bool | None
    enabled: bool | None
    """The unit (or, without one, the one that this instance would have) is wanted at the manager's start."""


class Survival:
    """The answer, looked up now and then."""

    def __init__(self, paths: Paths, clock: Clock, lingering: Callable[[], bool | None]) -> None:
        self._paths = paths
        self._clock = clock
        self._lingering = lingering
        self._at = float("-inf")
        self._value = wire.SurvivalInfo(logout=None, reboot=None, why="whether this survives was not looked up yet")

    def __call__(self) -> wire.SurvivalInfo:
        now = self._clock.monotonic()
        if now - self._at > KEPT_FOR:
            self._at = now
            self._value = judge(look(self._paths.instance, self._lingering(), os.environ))
        return self._value


def look(
    instance: str, lingering: bool | None, env: Mapping[str, str], *, cgroup: str = "/proc/self/cgroup", root: str = "/"
) -> Placing:
    """Read where this process runs, and whether that comes back."""
    unit, of_user = _unit_of(cgroup)
    own = [xdg_dir(env, "XDG_CONFIG_HOME", ".config") / "systemd" / "user"]
    places = [Path(root, place.lstrip("/")) for place in (_SYSTEM if of_user is False else _USERS)]
    return Placing(
        unit,
        of_user,
        lingering,
        _wanted(unit or Unit.of(instance).name, places if of_user is False else [*own, *places]),
    )


def judge(placing: Placing) -> wire.SurvivalInfo:
    """What that means."""
    if placing.unit is not None and placing.of_user is False:
        why = f"{placing.unit} is the system's own, and is {_enabled(placing.enabled)}"
        return wire.SurvivalInfo(logout=True, reboot=placing.enabled, why=f"{why}: {_both(True, placing.enabled)}")
    if placing.lingering is False:
        why = "lingering is off: nothing of this survives a logout or comes back after a reboot"
        return wire.SurvivalInfo(logout=False, reboot=False, why=why)
    lingers = "lingering is on" if placing.lingering else "whether lingering is on is unknown"
    if placing.unit is None:
        comes = {
            True: "its unit, which is enabled, would",
            False: "its unit is not enabled",
            None: "what would is unknown",
        }
        why = f"started by hand: it ends with its terminal; after a reboot {comes[placing.enabled]}"
        return wire.SurvivalInfo(logout=None, reboot=False if placing.enabled is False else None, why=why)
    reboot = False if placing.enabled is False else True if placing.enabled and placing.lingering else None
    why = f"{lingers}, and {placing.unit} is {_enabled(placing.enabled)}: {_both(placing.lingering, reboot)}"
    return wire.SurvivalInfo(logout=placing.lingering, reboot=reboot, why=why)


def _enabled(enabled: bool | None) -> str:
    return "enabled or not, unknown" if enabled is None else "enabled" if enabled else "not enabled"


def _both(logout: bool | None, reboot: bool | None) -> str:
    match logout, reboot:
        case True, True:
            return "this survives a logout, and comes back after a reboot"
        case True, False:
            return "this survives a logout, and does not come back after a reboot"
        case True, None:
            return "this survives a logout; whether it comes back after a reboot is unknown"
        case _, False:
            return "whether this survives a logout is unknown, and it does not come back after a reboot"
        case _:
            return "whether this survives a logout or a reboot is unknown"


def _unit_of(cgroup: str) -> tuple[str | None, bool | None]:
    """The service that a cgroup path lies in, and whether a user's manager has it. Source: systemd.slice(5)."""
    try:
        lines = Path(cgroup).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None, None
    # 0:: is cgroup2; hosts with the old hierarchies beside it have systemd's own as well.
    path = next((line.partition("::")[2] for line in lines if line.startswith("0::")), "")
    parts = [part for part in path.split("/") if part]
    managers = [number for number, part in enumerate(parts) if part.startswith("user@") and part.endswith(".service")]
    inside = parts[managers[-1] + 1 :] if managers else parts
    unit = next((part for part in inside if part.endswith(".service")), None)
    return unit, bool(managers) if unit is not None else None


def _wanted(unit: str, places: list[Path]) -> bool | None:
    """Whether something wants the unit at its start; None where a place cannot be looked into."""
    unknown = False
    for place in places:
        try:
            folders = [entry.path for entry in os.scandir(place) if entry.name.endswith((".wants", ".requires"))]
        except FileNotFoundError:
            continue
        except OSError:
            unknown = True
            continue
        if any(os.path.lexists(os.path.join(folder, unit)) for folder in folders):
            return True
    return None if unknown else False
