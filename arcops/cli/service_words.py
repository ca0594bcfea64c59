"""What `arcops service` says of a service, in words and as data; and what root would have to do for the system's."""

from arcops import wire, words
from arcops.config.paths import DEFAULT_INSTANCE
from arcops.service import units
from arcops.service.same import Sameness
from arcops.service.state import ServiceState

_SYSTEM_UNITS = "/etc/systemd/system"


def standing(state: ServiceState) -> str:
    """How it is now, in a line."""
    says = f": {state.says}" if state.says and state.runs else ""
    pid = f", pid {state.main_pid}" if state.main_pid is not None else ""
    return words.clean(f"{state.unit} is {state.active} ({state.sub}{pid}){says}")


def rows(state: ServiceState, sameness: Sameness, lingering: bool | None, why: str) -> list[str]:
    """All there is to say; `why` it is unknown whether lingering is on."""
    unit_file = state.fragment or "not installed"
    found = [
        standing(state),
        f"  unit         {unit_file} ({', '.join(filter(None, (state.load, state.enabled)))})",
        *(f"  drop-in      {path}" for path in state.drop_ins),
        f"  restarts     {words.count(state.restarts)} by systemd; last result: {state.result or 'unknown'}",
        f"  watchdog     {'none' if state.watchdog is None else f'{state.watchdog:g} s'}",
        f"  lingering    {'not needed' if state.system else _lingers(lingering, why)}",
        f"  arcops       {sameness.words}",
    ]
    if state.needs_reload:
        reload = "sudo systemctl daemon-reload" if state.system else "systemctl --user daemon-reload"
        found.append(f"  changed      the unit file was, and systemd has not read it: {reload}")
    return found


def _lingers(lingering: bool | None, why: str) -> str:
    return f"unknown: {why}" if lingering is None else "on" if lingering else "off"


def as_data(state: ServiceState, sameness: Sameness, lingering: bool | None) -> dict[str, object]:
    """The same for --json."""
    return {
        "schema": wire.SCHEMA,
        "unit": state.unit,
        "load": state.load,
        "enabled": state.enabled,
        "active": state.active,
        "sub": state.sub,
        "main_pid": state.main_pid,
        "restarts": state.restarts,
        "result": state.result,
        "watchdog": state.watchdog,
        "fragment": state.fragment,
        "drop_ins": list(state.drop_ins),
        "needs_reload": state.needs_reload,
        "says": state.says,
        "lingering": lingering,
        "same": sameness.same,
        "same_why": sameness.words,
    }


def for_root(instance: str, user: str) -> str:
    """What root has to do for a service of the system's that runs as `user`, for copy and paste. Raises ArcopsError."""
    text = units.wanted(units.SYSTEM_FILE, units.programs())
    name = units.Unit.of_system(user).name
    lines = [
        f"# Nothing was changed. As root, for a service of the system's that runs as {user}:",
        f"cat > {_SYSTEM_UNITS}/{units.SYSTEM_FILE} <<'EOF'",
        text.rstrip("\n"),
        "EOF",
    ]
    if instance != DEFAULT_INSTANCE:
        lines += [
            f"mkdir -p {_SYSTEM_UNITS}/{name}.d",
            f"printf '[Service]\\nEnvironment=ARCOPS_INSTANCE={instance}\\n' > {_SYSTEM_UNITS}/{name}.d/instance.conf",
        ]
    return "\n".join([*lines, "systemctl daemon-reload", f"systemctl enable --now {name}"])
