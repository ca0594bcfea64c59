"""`arcops service`: the supervisor as a service of the user's own systemd."""

import os
from typing import Annotated

import typer

from arcops.cli import output, service_files
from arcops.cli.main import instance_of
from arcops.cli.service_words import as_data, for_root, rows, standing
from arcops.config.paths import Paths, check_instance
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.quantity import Known
from arcops.machine import linger as linger_file
from arcops.machine import managers
from arcops.service import control, files, same, units
from arcops.service.places import Place, find
from arcops.service.state import ServiceState, look
from arcops.service.units import Unit

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
    place = find(name, control.user(), env)
    if place.unit.system:
        output.warn(f"{place.unit.name} supervises this instance already: whichever is second will fail")
    path = files.directory(env) / unit.file
    text = units.wanted(unit.file, units.programs())
    found = files.read(path, unit.name)
    before = look(unit.name, env)  # first: where no manager answers, nothing is to be written
    written = service_files.write(found, text, force=force)
    if written or before.needs_reload:
        control.reload(env)
    service_files.is_seen(look(unit.name, env), found)
    if enable:
        control.enable(unit.name, env)
    if linger:
        control.enable_lingering(env)
    if now:
        _start(look(unit.name, env))
    service_files.installed(look(unit.name, env), found, was_running=written and before.runs)


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
        within = control.stops_within(state, Paths.of(name, env))
        output.note(f"stopping {unit.name}, and its backend: at most {within:.0f} s")
        control.stop(state, Paths.of(name, env), env)
    else:
        control.nothing_left(state, Paths.of(name, env))
    if state.enabled.startswith("enabled"):
        control.disable(unit.name, env)
        output.data(f"disabled   {unit.name}")
    control.forget_failure(unit.name, env)
    service_files.remove(found, unit, control.running(unit.file, env) if "@" in unit.file else ())
    control.reload(env)


@app.command()
def status(ctx: typer.Context, instance: InstanceOption = None, as_json: Json = False) -> None:
    """Say how the service is doing. Exit code 3 when it does not run."""
    name = _instance(ctx, instance)
    place = _place(name)
    state = look(place.unit.name, place.env)
    lingering = linger_file.lingering(control.user())
    on = lingering.value if isinstance(lingering, Known) else None
    sameness = same.compare(state, Paths.of(name, place.env))
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
    place = _place(_instance(ctx, instance))
    unit, env = place.unit, dict(place.env)
    # --system would leave out what journald keeps in the user's own journal: all that a unit with User= says.
    argv = ["journalctl", *(() if unit.system else ("--user",)), f"--unit={unit.name}"]
    if not follow:
        seen = managers.ask([*argv, "--quiet", "--no-pager", "--lines=1"], env, 30.0)
        if seen.code != 0 or not seen.out.strip():
            why = f": {seen.complaint}" if seen.code or seen.err.strip() else ""
            raise ArcopsError(
                f"the journal shows this user nothing of {unit.name}{why}",
                hint=f"was it ever started? {_as_root(unit)}",
            )
    try:
        os.execvpe(argv[0], [*argv, f"--lines={lines}", *(["--follow"] if follow else [])], {**os.environ, **_bus(env)})  # noqa: S606 - the point: journalctl has the terminal
    except OSError as error:
        raise ArcopsError(f"journalctl cannot be started: {error.strerror}") from error


@app.command()
def start(ctx: typer.Context, instance: InstanceOption = None) -> None:
    """Start the service, and wait until its supervisor takes orders."""
    state = _known(_instance(ctx, instance), "start")
    _start(state)
    output.data(standing(look(state.unit, managers.environment(os.environ))))


@app.command()
def stop(ctx: typer.Context, instance: InstanceOption = None) -> None:
    """Stop the service and its backend, in order. The order to run stays: the next start takes it up."""
    name, env = _instance(ctx, instance), managers.environment(os.environ)
    state = _known(name, "stop")
    within = control.stops_within(state, Paths.of(name, env))
    output.note(f"stopping {state.unit}, and its backend: at most {within:.0f} s")
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
    if keep_backend and (place := _place(name)).unit.system:
        _keep_backend(look(place.unit.name, place.env), Paths.of(name, place.env))
        output.note(f"within a minute, as root: systemctl restart {place.unit.name}")
        return
    state = _known(name, "restart")
    if keep_backend:
        _keep_backend(state, Paths.of(name, env))
    elif state.runs:
        within = control.stops_within(state, Paths.of(name, env))
        output.note(f"restarting {state.unit}, and its backend: at most {within:.0f} s until it has stopped")
    control.restart(state, Paths.of(name, env), env)
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


def _place(instance: str) -> Place:
    """Where the service is: with the user's manager, or the system's."""
    return find(instance, control.user(), managers.environment(os.environ))


def _as_root(unit: Unit) -> str:
    """How root sees all of its journal."""
    if unit.system:
        return f"As root, or in the group systemd-journal: journalctl --unit={unit.name}"
    return f"As root: journalctl _SYSTEMD_USER_UNIT={unit.name} _UID={os.getuid()}"


def _known(instance: str, verb: str) -> ServiceState:
    """The service, which has to be installed, and this user's own to `verb`."""
    place = _place(instance)
    if place.unit.system:
        raise ArcopsError(
            f"{place.unit.name} is a service of the system's, and root's to {verb}", hint=place.unit.command(verb)
        )
    state = look(place.unit.name, place.env)
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


def _start(state: ServiceState) -> None:
    env = managers.environment(os.environ)
    if not state.runs:
        output.note(f"starting {state.unit}")
    control.start(state, env)


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
