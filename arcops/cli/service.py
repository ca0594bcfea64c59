"""`arcops service`: the supervisor as a service of the user's own systemd."""

import os
from pathlib import Path
from typing import Annotated

import typer

from arcops.cli import output
from arcops.cli.main import instance_of
from arcops.cli.service_words import as_data, for_root, rows, standing
from arcops.config.paths import Paths, check_instance
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.quantity import Known
from arcops.machine import linger as linger_file
from arcops.machine import managers
from arcops.service import control, files, same, units
from arcops.service.files import UnitFile
from arcops.service.state import ServiceState, look
from arcops.service.units import Unit

_PASSED_ON = ("ARCOPS_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""What moves arcops' directories. A service does not get the environment of a shell."""
_OFF_ENDS = (
    "with no session left, switching lingering off ends this user's manager, and with it a running service and its "
    "backend, within half a second"
)

app = typer.Typer(
    help="Install and run the supervisor as a service of systemd.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

InstanceOption = Annotated[
    str | None, typer.Option("--instance", metavar="NAME", help="Which supervisor; default: that of `arcops -i`.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def install(
    ctx: typer.Context,
    instance: InstanceOption = None,
    enable: Annotated[bool, typer.Option("--enable", help="Start it whenever the user's manager starts.")] = False,
    now: Annotated[bool, typer.Option("--now", help="Start it now.")] = False,
    linger: Annotated[
        bool, typer.Option("--linger", help="Let the user's manager run from boot on, without a login.")
    ] = False,
    system: Annotated[
        bool, typer.Option("--system", help="Change nothing; print what root has to do for a system service.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a unit that was changed.")] = False,
) -> None:
    """Write the unit of the user's systemd, with the place of this arcops in it."""
    name = _instance(ctx, instance)
    if system:
        _system(name)
        return
    unit, env = Unit.of(name), managers.environment(os.environ)
    path = files.directory(env) / unit.file
    text = units.wanted(unit.file, units.programs())
    found = files.read(path, unit.name)
    before = look(unit.name, env)  # first: where no manager answers, nothing is to be written
    written = _write(found, text, force=force)
    if written or before.needs_reload:
        control.reload(env)
    _is_seen(look(unit.name, env), found)
    if enable:
        control.enable(unit.name, env)
    if linger:
        control.enable_lingering(env)
    if now:
        _start(look(unit.name, env))
    _installed(look(unit.name, env), found, was_running=written and before.runs)


@app.command()
def uninstall(
    ctx: typer.Context,
    instance: InstanceOption = None,
    now: Annotated[bool, typer.Option("--now", help="Stop it first if it runs, and its backend with it.")] = False,
) -> None:
    """Disable the service, and remove the unit that `install` wrote."""
    name, env = _instance(ctx, instance), managers.environment(os.environ)
    unit = Unit.of(name)
    found = files.read(files.directory(env) / unit.file, unit.name)
    state = look(unit.name, env)
    if state.runs and not now:
        raise ArcopsError(
            f"{unit.name} is {state.active}: removing its unit would leave nobody to stop it",
            hint="`arcops service uninstall --now` stops it first, and its backend with it",
            exit_code=ExitCode.BUSY,
        )
    if state.runs:
        output.note(f"stopping {unit.name}, and its backend: at most {state.stop_within:.0f} s")
        control.stop(state, Paths.of(name, env), env)
    else:
        control.nothing_left(state, Paths.of(name, env))
    if state.enabled.startswith("enabled"):
        control.disable(unit.name, env)
        output.data(f"disabled   {unit.name}")
    control.forget_failure(unit.name, env)
    _remove(found, unit, control.running(unit.file, env) if "@" in unit.file else ())
    control.reload(env)


@app.command()
def status(ctx: typer.Context, instance: InstanceOption = None, as_json: Json = False) -> None:
    """Say how the service is doing. Exit code 3 when it does not run."""
    name = _instance(ctx, instance)
    unit, env = Unit.of(name), managers.environment(os.environ)
    state = look(unit.name, env)
    lingering = linger_file.lingering(control.user())
    on = lingering.value if isinstance(lingering, Known) else None
    sameness = same.compare(state, Paths.of(name, env))
    if as_json:
        output.json_data(as_data(state, sameness, on))
    else:
        for row in rows(state, sameness, on, "" if isinstance(lingering, Known) else lingering.reason):
            output.data(output.printable(row))
    output.leave(ExitCode.DONE if state.active in ("active", "reloading") else ExitCode.NOT_RUNNING)


@app.command()
def logs(
    ctx: typer.Context,
    instance: InstanceOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many lines.")] = 200,
) -> None:
    """Show what the supervisor said, from the journal (`arcops logs` shows the backend's own words)."""
    unit, env = Unit.of(_instance(ctx, instance)), managers.environment(os.environ)
    argv = ["journalctl", "--user", f"--unit={unit.name}"]
    if not follow:
        seen = managers.ask([*argv, "--quiet", "--no-pager", "--lines=1"], env, 30.0)
        if seen.code != 0 or not seen.out.strip():
            why = f": {seen.complaint}" if seen.code or seen.err.strip() else ""
            raise ArcopsError(
                f"the journal shows this user nothing of {unit.name}{why}",
                hint=f"was it ever started? As root: journalctl _SYSTEMD_USER_UNIT={unit.name} _UID={os.getuid()}",
            )
    try:
        os.execvpe(argv[0], [*argv, f"--lines={lines}", *(["--follow"] if follow else [])], {**os.environ, **_bus(env)})  # noqa: S606 - the point: journalctl has the terminal
    except OSError as error:
        raise ArcopsError(f"journalctl cannot be started: {error.strerror}") from error


@app.command()
def start(ctx: typer.Context, instance: InstanceOption = None) -> None:
    """Start the service, and wait until its supervisor takes orders."""
    state = _known(_instance(ctx, instance))
    _start(state)
    output.data(standing(look(state.unit, managers.environment(os.environ))))


@app.command()
def stop(ctx: typer.Context, instance: InstanceOption = None) -> None:
    """Stop the service and its backend, in order. The order to run stays: the next start takes it up."""
    name, env = _instance(ctx, instance), managers.environment(os.environ)
    state = _known(name)
    output.note(f"stopping {state.unit}, and its backend: at most {state.stop_within:.0f} s")
    control.stop(state, Paths.of(name, env), env)
    output.data(standing(look(state.unit, env)))


@app.command()
def restart(
    ctx: typer.Context,
    instance: InstanceOption = None,
    keep_backend: Annotated[
        bool, typer.Option("--keep-backend", help="The backend goes on; the new supervisor adopts it.")
    ] = False,
) -> None:
    """Restart the supervisor, after an upgrade of arcops for one."""
    name, env = _instance(ctx, instance), managers.environment(os.environ)
    state = _known(name)
    if keep_backend:
        _keep_backend(state, Paths.of(name, env))
    elif state.runs:
        output.note(f"restarting {state.unit}, and its backend: at most {state.stop_within:.0f} s until it has stopped")
    control.restart(state, env)
    output.data(standing(look(state.unit, env)))


@app.command()
def linger(
    ctx: typer.Context,
    switch: Annotated[str, typer.Argument(metavar="on|off", help="Whether services run without a login.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Let this user's services start at boot and outlive a logout, or not."""
    env = managers.environment(os.environ)
    match switch:
        case "on":
            control.enable_lingering(env)
        case "off":
            _may_switch_off(instance_of(ctx), yes=yes)
            control.disable_lingering(env)
        case _:
            raise ArcopsError(f"linger {switch!r}: on or off", exit_code=ExitCode.USAGE)
    found = linger_file.lingering(control.user())
    if not isinstance(found, Known) or found.value is not (switch == "on"):
        raise ArcopsError(
            f"loginctl says that all is well, but lingering is not {switch}: "
            + ("its file says otherwise" if isinstance(found, Known) else found.reason),
            hint=f"loginctl show-user {control.user()} --property=Linger",
        )
    output.data(f"lingering is {switch} for {control.user()}")


def _keep_backend(state: ServiceState, paths: Paths) -> None:
    """Have the supervisor leave its backend to the next one. Raises ArcopsError where it is not the service's."""
    from arcops.client import Client

    with Client(paths.socket) as client:
        pid = client.status().daemon.pid
        if pid != state.main_pid:
            raise ArcopsError(
                f"arcopsd (pid {pid}) answers, and does not run as {state.unit}: a restart of that would not end it",
                hint="end it where it was started, and then: arcops service start",
            )
        kept = client.keep_backend()
    output.note("there is no backend to keep" if kept.launch_id is None else f"launch {kept.launch_id} runs on")


def _instance(ctx: typer.Context, said: str | None) -> str:
    name = instance_of(ctx) if said is None else said
    check_instance(name)
    return name


def _known(instance: str) -> ServiceState:
    """The service, which has to be installed."""
    state = look(Unit.of(instance).name, managers.environment(os.environ))
    if not state.installed:
        raise ArcopsError(
            f"{state.unit} is not installed",
            hint="`arcops service install --enable --now`",
            exit_code=ExitCode.NOT_RUNNING,
        )
    return state


def _bus(env: dict[str, str]) -> dict[str, str]:
    """Only the way to the bus: journalctl may page, colour and speak the user's language."""
    return {name: env[name] for name in ("XDG_RUNTIME_DIR",) if name in env}


def _write(found: UnitFile, text: str, *, force: bool) -> bool:
    """Bring the file to `text`; False where it is that already. Raises ArcopsError where somebody else changed it."""
    path = found.path
    if found.masked:
        raise ArcopsError(f"{path.name} is masked", hint=f"systemctl --user unmask {path.name}")
    if found.text == text and found.link is None:
        output.data(f"unchanged  {path}")
    elif found.text is not None and not force:
        _agree(found, text)
        files.write(path, text)
        output.data(f"replaced   {path}")
    else:
        files.write(path, text)
        output.data(f"{'written' if found.text is None else 'replaced':<10} {path}")
    for drop_in in found.drop_ins:
        output.data(f"kept       {drop_in}")
    return found.text != text or found.link is not None


def _agree(found: UnitFile, text: str) -> None:
    """Show what would change, and go on only if a person says yes."""
    output.note(output.printable(units.difference(found.path, found.text or "", text)))
    if found.link is not None:
        output.note(f"{found.path} is a link to {found.link}: a file would take its place")
    whose = "was changed, or is of another arcops" if found.ours else "was not written by `arcops service install`"
    if output.can_ask() and output.confirmed(f"{found.path} {whose}. Overwrite it?"):
        return
    raise ArcopsError(
        f"{found.path} {whose}, and was left as it is",
        hint="--force overwrites it; what you want to keep goes into a drop-in (systemctl --user edit)",
        exit_code=ExitCode.USAGE,
    )


def _is_seen(state: ServiceState, found: UnitFile) -> None:
    """The manager reads the file that was written. Raises ArcopsError."""
    if not state.installed or (state.fragment and not _is_same_file(Path(state.fragment), found.path)):
        raise ArcopsError(
            f"the user's systemd does not read {found.path}" + (f", but {state.fragment}" if state.fragment else ""),
            hint="is XDG_CONFIG_HOME another one for the manager? `systemctl --user show-environment` says",
        )
    if state.load == "bad-setting":
        raise ArcopsError(
            f"{state.unit} has a setting that systemd refuses", hint=f"systemctl --user status {state.unit}"
        )


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _start(state: ServiceState) -> None:
    env = managers.environment(os.environ)
    if not state.runs:
        output.note(f"starting {state.unit}")
    control.start(state, env)


def _installed(state: ServiceState, found: UnitFile, *, was_running: bool) -> None:
    """What there is now, and what is still lacking for a service that runs unattended."""
    lingering = linger_file.lingering(control.user())
    on = isinstance(lingering, Known) and lingering.value
    output.data(f"{state.enabled or 'unknown':<10} {state.unit}")
    output.data(f"{state.active:<10} {state.unit}")
    output.data(f"lingering  {'on' if on else 'off' if isinstance(lingering, Known) else 'unknown'}")
    if was_running:
        output.note(f"{state.unit} runs with what it was started with: `arcops service restart` (--keep-backend)")
    missing = [
        option
        for option, there in (
            ("--enable", state.enabled.startswith("enabled")),
            ("--now", state.runs),
            ("--linger", on),
        )
        if not there
    ]
    if missing:
        output.note(f"not done: arcops service install {' '.join(missing)}")
    set_here = [name for name in _PASSED_ON if os.environ.get(name)]
    if set_here and not found.drop_ins:
        output.note(
            f"{', '.join(set_here)}: set in this shell, and unknown to the service; "
            f"`systemctl --user edit {state.unit}` can say Environment= for it"
        )


def _remove(found: UnitFile, unit: Unit, running: tuple[str, ...]) -> None:
    """Remove the file if it is ours and nobody else needs it: an instance that is enabled, or one that runs."""
    path = found.path
    others = sorted({*running, *(files.enabled_instances(path.parent, unit.file) if "@" in unit.file else ())})
    if found.text is None and found.link is None:
        output.data(f"not there  {path}")
    elif others:
        output.data(f"kept       {path}: {', '.join(others)} need it")
    elif not found.ours:
        output.data(f"kept       {path}: `arcops service install` did not write it")
    else:
        files.remove(path)
        output.data(f"removed    {path}")
    for drop_in in found.drop_ins:
        output.data(f"kept       {drop_in}: yours")


def _may_switch_off(instance: str, *, yes: bool) -> None:
    """Say what switching lingering off ends, and ask."""
    env = managers.environment(os.environ)
    logins = control.sessions(env)
    runs = _runs(Unit.of(instance).name, env)
    now = "" if logins is None else f" (sessions now: {logins})"
    output.warn(f"{_OFF_ENDS}{now}; {runs}")
    if yes or (output.can_ask() and output.confirmed("Switch lingering off?")):
        return
    raise ArcopsError("lingering was left on", hint="--yes switches it off without asking", exit_code=ExitCode.USAGE)


def _runs(unit: str, env: dict[str, str]) -> str:
    try:
        return f"{unit} is {look(unit, env).active}"
    except managers.ManagerError as error:
        return f"whether {unit} runs is unknown: {error.message}"


def _system(instance: str) -> None:
    """Print what root has to do; nothing is changed."""
    directory, user = units.programs(), control.user()
    output.data(for_root(instance, user))
    output.note(f"clients of {user} then need XDG_RUNTIME_DIR=/run/arcops-{user}")
    home = os.path.expanduser("~")
    if str(directory).startswith(f"{home}/"):
        output.note(f"{directory} is in {home}: it must be there, and readable, when the machine boots")
