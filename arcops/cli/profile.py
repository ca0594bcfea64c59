"""`arcops profile`: the profiles of this user, and what each would start."""

import os
import shlex
from collections.abc import Set
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from arcops.cli import output
from arcops.cli.main import instance_of
from arcops.core.errors import ArcopsError, ExitCode

if TYPE_CHECKING:
    from arcops.config.library import Config
    from arcops.config.problem import Problem
    from arcops.core.launch import Launch

_INVALID = "invalid: arcops profile check "
SETUP_WITHIN = 60.0
"""Seconds for a set-up script; oneAPI's takes one or two."""

app = typer.Typer(
    help="List, show and check profiles.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(metavar="PROFILE", help="A profile's name.")]


@app.command("list")
def list_profiles(ctx: typer.Context, json: Json = False) -> None:
    """List every profile with its description."""
    config = _config(ctx)
    rows = [_row(config, name) for name in config.names()]
    if json:
        output.json_data([{"name": name, "from": origin, "description": text} for name, origin, text in rows])
        return
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, origin, text in rows:
        output.data(
            output.printable(
                f"{name:<{width}}  {origin:<7}  {_INVALID + shlex.quote(name) if text is None else text}".rstrip()
            )
        )


@app.command()
def show(
    ctx: typer.Context,
    name: Name,
    json: Json = False,
    diff: Annotated[
        str | None, typer.Option("--diff", metavar="OTHER", help="Only what OTHER does differently.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The whole environment: this one, the set-up script's result, the profile's.")
    ] = False,
) -> None:
    """Print what a profile would start, as a shell would take it: the command line, and what the profile adds to the
    environment. Secrets are hidden."""
    if full and diff is not None:
        raise ArcopsError("--full and --diff do not go together", hint="use one of them", exit_code=ExitCode.USAGE)
    config = _config(ctx)
    launch = config.launch(name)
    if full:
        launch = _with_whole_environment(launch)
    if diff is not None:
        _show_difference(launch, config.launch(diff), as_json=json)
    elif json:
        output.json_data(_as_json(config, launch))
    else:
        output.data("\n".join([*_remarks(config, launch, full=full), *_shell_lines(launch)]))


@app.command()
def check(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[PROFILE]...", help="All profiles if none.")] = None,
    json: Json = False,
) -> None:
    """Check profiles: every problem, with file, line and key. Exit code 6 if there is any.

    A shipped profile that was not asked for by name is not held against this machine: that its model, card or vLLM is
    not here is then a remark.
    """
    config = _config(ctx)
    found = {name: config.check(name) for name in names or config.names()}
    held = {name: _held(config, name, problems, named=bool(names)) for name, problems in found.items()}
    if json:
        output.json_data(
            [
                {"name": name, "ok": not held[name], "problems": [problem.as_json() for problem in problems]}
                for name, problems in found.items()
            ]
        )
    else:
        for name, problems in found.items():
            output.data(output.printable("\n".join(_verdict(name, problems, held[name]))))
    bad = [name for name in found if held[name]]
    if bad:
        count = "a profile is" if len(bad) == 1 else f"{len(bad)} profiles are"
        raise ArcopsError(f"{count} not usable: {', '.join(bad)}", exit_code=ExitCode.INVALID)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a profile."""
    from arcops.core.profile import json_schema

    output.json_data(json_schema())


def _config(ctx: typer.Context) -> "Config":
    from arcops.config.library import Config

    return Config.load(instance=instance_of(ctx))


def _row(config: "Config", name: str) -> tuple[str, str, str | None]:
    """Name, origin and description; no description (None) if the profile is invalid."""
    origin = "shipped" if config.is_shipped(name) else "own"
    try:
        return name, origin, config.profile(name).description
    except ArcopsError:
        return name, origin, None


def _held(config: "Config", name: str, problems: "list[Problem]", *, named: bool) -> "list[Problem]":
    """The problems that make a check fail."""
    if named or not config.is_shipped(name):
        return problems
    return [problem for problem in problems if not problem.here]


def _verdict(name: str, problems: "list[Problem]", held: "list[Problem]") -> list[str]:
    if held:
        return [f"{name}: {'1 problem' if len(held) == 1 else f'{len(held)} problems'}", *(f"  {p}" for p in held)]
    if problems:
        lacks = ", ".join(dict.fromkeys(problem.key for problem in problems))
        return [f"{name}: ok, but not for this machine as it is ({lacks})"]
    return [f"{name}: ok"]


def _with_whole_environment(launch: "Launch") -> "Launch":
    """`launch` with everything that its backend would find in its environment, were this the daemon's; the set-up
    script is run for that, and so is not named any more. Raises InvalidProfileError if it fails."""
    from arcops.core.launch import environment_of
    from arcops.machine.environment import sourced

    setup = {} if launch.setup is None else sourced(launch.setup, os.environ, SETUP_WITHIN)
    whole = environment_of(os.environ, setup, launch)
    return replace(launch, environment=tuple(sorted(whole.items())), setup=None)


def _as_json(config: "Config", launch: "Launch") -> dict[str, object]:
    from arcops.core.launch import redact

    shown = redact(launch)
    return {
        "schema": 1,
        "profile": launch.profile,
        "sources": [str(path) for path in config.sources(launch.profile)],
        "argv": list(shown.argv),
        "environment": dict(shown.environment),
        "setup": launch.setup,
        "host": launch.host,
        "port": launch.port,
        "served_name": launch.served_name,
        "api_key_file": launch.api_key_file,
        "cards": list(launch.cards),
        "locks": list(launch.locks),
    }


def _remarks(config: "Config", launch: "Launch", *, full: bool) -> list[str]:
    """What a shell would not run, as comments."""
    from arcops.core.launch import redact

    shown = dict(redact(launch).environment)
    secret = [f"{name}={shown[name]}" for name, value in launch.environment if shown[name] != value]
    added = "" if full else f"{len(launch.environment)} variables to the environment; --full shows all of it"
    remarks = {
        "profile": launch.profile,
        "files": " extends ".join(str(path) for path in config.sources(launch.profile)),
        "cards": ", ".join(launch.cards) or "none",
        "locks": ", ".join(launch.locks),
        "serves": f"{launch.served_name} at http://{launch.host}:{launch.port}",
        "adds": added,
        "secret": ", ".join([*secret, *([f"API key from {launch.api_key_file}"] if launch.api_key_file else [])]),
    }
    return [output.printable(f"# {word + ':':<9} {text}") for word, text in remarks.items() if text]


def _shell_lines(launch: "Launch") -> list[str]:
    """The command line for a shell: one flag a line; variables with secrets are left out."""
    from arcops.core.launch import hidden

    plain = [(name, value) for name, value in launch.environment if hidden(name, value) == value]
    lines = [f"{name}={shlex.quote(value)}" for name, value in plain] + _words(launch.argv)
    setup = [f". {shlex.quote(launch.setup)}"] if launch.setup else []
    return [*setup, *(f"{line} \\" for line in lines[:-1]), lines[-1]]


def _words(argv: tuple[str, ...]) -> list[str]:
    """The command on one line, then each flag with its values on its own."""
    lines: list[list[str]] = [[]]
    for word in argv:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return [" ".join(lines[0]), *("  " + " ".join(line) for line in lines[1:])]


def _show_difference(one: "Launch", other: "Launch", *, as_json: bool) -> None:
    """What either says and the other does not, by flag and by variable, secrets hidden."""
    from arcops.core.difference import of_launches
    from arcops.core.launch import redact

    changes = of_launches(redact(one), redact(other))
    variables = {name for name, _ in (*one.environment, *other.environment)}
    was = [_said(change.name, change.was, variables) for change in changes if change.was is not None]
    becomes = [_said(change.name, change.becomes, variables) for change in changes if change.becomes is not None]
    if as_json:
        output.json_data({"only": {one.profile: was}, "other": {other.profile: becomes}})
        return
    output.data(f"--- {one.profile}\n+++ {other.profile}")
    for line in (*(f"- {said}" for said in was), *(f"+ {said}" for said in becomes)):
        output.data(output.printable(line))


def _said(name: str, value: str, variables: Set[str]) -> str:
    """`--max-num-seqs 4`, `OMP_NUM_THREADS=8`, `set-up script /env.sh`; a switch is its name alone."""
    from arcops.core.difference import OFF, ON

    if name in variables:
        return f"{name}={value}"
    switch = name.startswith("--") and value in {ON, OFF}
    if not switch:
        return f"{name} {value}"
    return name if value == ON else f"--no-{name[2:]}"
