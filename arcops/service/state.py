"""A service as its manager sees it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from arcops.machine import managers
from arcops.service.units import SYSTEM_FILE

_PROPERTIES = (
    "LoadState",
    "UnitFileState",
    "ActiveState",
    "SubState",
    "MainPID",
    "NRestarts",
    "Result",
    "WatchdogUSec",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
    "StatusText",
    "ExecStart",
    "TimeoutStopUSec",
    "TimeoutStartUSec",
    "Environment",
)
_PATH = re.compile(r"\{ path=(.*?) ; argv\[\]=")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SYSTEM = SYSTEM_FILE.partition("@")[0] + "@"
_LONGEST = 3600.0
"""Seconds that are waited for a unit whose own limits are longer, or infinite."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What `systemctl show` says; an empty text or None is what it does not say."""

    unit: str
    load: str
    """`loaded`, `not-found`, `masked`, `bad-setting`."""
    enabled: str
    """`enabled`, `disabled`, ...; empty without a file."""
    active: str
    """`active`, `activating`, `inactive`, `failed`, ..."""
    sub: str
    main_pid: int | None
    restarts: int | None
    """How often systemd has restarted it since it was started by somebody."""
    result: str
    """Of the last run: `success`, `timeout`, `watchdog`, ..."""
    watchdog: float | None
    """Seconds; None where none is set."""
    fragment: str
    drop_ins: tuple[str, ...]
    needs_reload: bool
    """The file was changed since the manager read it."""
    says: str
    """STATUS= of the daemon."""
    program: str
    """The absolute path that ExecStart names."""
    stop_within: float
    """Seconds: the longest that a stop may take."""
    start_within: float
    instance: str
    """ARCOPS_INSTANCE of its environment, which the system's unit sets; else empty."""

    @property
    def system(self) -> bool:
        """The system's manager has it, and only root may start or stop it."""
        return of_system(self.unit)

    @property
    def runs(self) -> bool:
        """Processes of it are there, or are about to be."""
        return self.active in ("active", "activating", "reloading", "deactivating", "refreshing")

    @property
    def installed(self) -> bool:
        return self.load not in ("not-found", "")


def look(unit: str, env: Mapping[str, str], within: float = managers.ANSWER_WITHIN) -> ServiceState:
    """Ask the manager whose unit it is. Raises ManagerError."""
    argv = ("systemctl", manager(unit), "show", unit, f"--property={','.join(_PROPERTIES)}")
    return parse(unit, managers.tell(argv, env, within).properties)


def of_system(unit: str) -> bool:
    """Whether a unit of ours is one of the system's, by its name."""
    return unit.startswith(_SYSTEM)


def manager(unit: str) -> str:
    """systemctl's and journalctl's option for the manager that has it."""
    return "--system" if of_system(unit) else "--user"


def parse(unit: str, properties: Mapping[str, str]) -> ServiceState:
    program = _PATH.search(properties.get("ExecStart", ""))
    watchdog = seconds(properties.get("WatchdogUSec", ""))
    return ServiceState(
        unit=unit,
        load=properties.get("LoadState", ""),
        enabled=properties.get("UnitFileState", ""),
        active=properties.get("ActiveState", ""),
        sub=properties.get("SubState", ""),
        main_pid=_number(properties.get("MainPID", "")) or None,
        restarts=_number(properties.get("NRestarts", "")),
        result=properties.get("Result", ""),
        watchdog=watchdog or None,
        fragment=properties.get("FragmentPath", ""),
        drop_ins=tuple(properties.get("DropInPaths", "").split()),
        needs_reload=properties.get("NeedDaemonReload") == "yes",
        says=properties.get("StatusText", ""),
        program=program[1] if program else "",
        stop_within=min(_LONGEST, seconds(properties.get("TimeoutStopUSec", "")) or _LONGEST),
        start_within=min(_LONGEST, seconds(properties.get("TimeoutStartUSec", "")) or _LONGEST),
        instance=_variable(properties.get("Environment", ""), "ARCOPS_INSTANCE"),
    )


def seconds(text: str) -> float | None:
    """`1min 30s` in seconds, as systemctl prints a time span; None for `infinity` and what is none."""
    found = [(word, re.fullmatch(r"([0-9.]+)([a-z]+)", word)) for word in text.split()]
    if not found or any(match is None or match[2] not in _UNITS for _, match in found):
        return 0.0 if text == "0" else None
    return sum(float(match[1]) * _UNITS[match[2]] for _, match in found if match is not None)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _variable(environment: str, name: str) -> str:
    """The value of a variable that a unit sets; empty where it does not."""
    found = (word.partition("=") for word in environment.split())
    return next((value for key, _, value in found if key == name), "")
