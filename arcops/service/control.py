"""What is asked of the managers: reload, enable, start, stop, lingering. Every call has its deadline."""

import os
from collections.abc import Mapping

from arcops.config.paths import Paths
from arcops.core.enclosure import EnclosureKind
from arcops.machine import managers, proc, process, record
from arcops.machine.managers import ManagerError
from arcops.machine.record import LaunchRecord
from arcops.service.state import ServiceState, look

_MARGIN = 30.0
"""Seconds over a unit's own limits: its manager tells of a limit that was hit only after having dealt with it."""
_SCOPE_STOPS_WITHIN = 120.0
"""Seconds: systemd gives a scope 90 (`DefaultTimeoutStopSec=`) before it kills."""


def reload(env: Mapping[str, str]) -> None:
    """Have the manager read the unit files again. Raises ManagerError, as all of these do."""
    managers.tell(("systemctl", "--user", "daemon-reload"), env, 60.0)


def enable(unit: str, env: Mapping[str, str]) -> None:
    managers.tell(("systemctl", "--user", "enable", unit), env, 60.0)


def disable(unit: str, env: Mapping[str, str]) -> None:
    managers.tell(("systemctl", "--user", "disable", unit), env, 60.0)


def start(state: ServiceState, env: Mapping[str, str]) -> None:
    """Start it, and wait until it is ready. A start limit that was hit is forgiven: it is a person who asks."""
    if state.active == "failed":
        forget_failure(state.unit, env)
    _do("start", state.unit, env, state.start_within + _MARGIN)


def stop(state: ServiceState, paths: Paths, env: Mapping[str, str]) -> None:
    """Stop it, and wait until it and its backend have ended. Raises ManagerError where they have not, or not in order.

    Where no supervisor runs at that moment (it has crashed, and the next one is not there yet, or was given up),
    nothing drains, and the backend's scope is stopped with the unit: that is waited for. systemctl says that all is
    well also where the time was up and systemd killed: the unit's own result tells.
    """
    _do("stop", state.unit, env, stops_within(state, paths) + _MARGIN)
    left = _left(paths)
    if left is not None and left.enclosure.kind is EnclosureKind.SCOPE:
        _do("stop", left.enclosure.name, env, _SCOPE_STOPS_WITHIN)
        if _left(paths) is None:
            record.remove(str(paths.record))
    after = look(state.unit, env)
    nothing_left(after, paths)
    _complain(after)


def restart(state: ServiceState, paths: Paths, env: Mapping[str, str]) -> None:
    """Stop and start it, and wait until it is ready."""
    if state.active == "failed":
        forget_failure(state.unit, env)
    _do("restart", state.unit, env, stops_within(state, paths) + state.start_within + _MARGIN)


def stops_within(state: ServiceState, paths: Paths) -> float:
    """Seconds: the longest that a stop may take. A profile with longer limits than the unit gets its time."""
    found = record.read(str(paths.record), process.boot_id())
    return max(state.stop_within, found.launch.limits.stop if isinstance(found, LaunchRecord) else 0.0)


def forget_failure(unit: str, env: Mapping[str, str]) -> None:
    managers.ask(("systemctl", "--user", "reset-failed", unit), env)


def running(template: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Instances of a template (`arcops@.service`) that run, or are about to."""
    stem, suffix = template.split("@")
    states = "--state=active,activating,reloading,deactivating"
    argv = ("systemctl", "--user", "list-units", "--plain", "--no-legend", states, f"{stem}@*{suffix}")
    return tuple(line.split()[0] for line in managers.tell(argv, env).out.splitlines() if line.split())


def user() -> str:
    """The name of this user, as logind knows it."""
    return proc.user_name(os.getuid())


def enable_lingering(env: Mapping[str, str]) -> None:
    """For oneself, which needs no rights; the name must be said, or it fails outside a session."""
    managers.tell(("loginctl", "--no-ask-password", "enable-linger", user()), env)


def disable_lingering(env: Mapping[str, str]) -> None:
    managers.tell(("loginctl", "--no-ask-password", "disable-linger", user()), env)


def sessions(env: Mapping[str, str]) -> int | None:
    """How many logins this user has now; None where logind does not say."""
    try:
        answer = managers.ask(("loginctl", "show-user", user(), "--property=Sessions"), env)
    except ManagerError:
        return None
    # One that is neither logged in nor lingers is no user to logind: an error, and no session.
    return len(answer.properties.get("Sessions", "").split())


def _do(verb: str, unit: str, env: Mapping[str, str], within: float) -> None:
    answer = managers.ask(("systemctl", "--user", verb, unit), env, within)
    if answer.code == 0:
        return
    error = managers.error_of(answer, env)
    error.hint = error.hint or "`arcops service logs` has what it said"
    raise error


def nothing_left(state: ServiceState, paths: Paths) -> None:
    """Raises ManagerError where a launch lives, and `state` is of a service that does not run any more."""
    left = _left(paths)
    if left is not None:
        raise ManagerError(
            f"{state.unit} is {state.active}, and launch {left.launch_id} runs on without a supervisor",
            hint="`arcops service start` adopts it; `arcops service stop` then ends it with its supervisor",
        )


def _left(paths: Paths) -> LaunchRecord | None:
    """The launch that lives, where no supervisor does; None if there is none."""
    found = record.read(str(paths.record), process.boot_id())
    if not isinstance(found, LaunchRecord):
        return None
    lives = any(one is not None and process.alive(one) for one in (found.keeper, found.main))
    return found if lives else None


def _complain(state: ServiceState) -> None:
    if state.active == "failed":
        raise ManagerError(
            f"{state.unit} has stopped, but not in good order: {state.result}",
            hint="`arcops service logs` has what it said; `arcops doctor` looks for what it left",
        )
