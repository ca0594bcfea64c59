"""`arcops env`: what a profile's runtime really is, kept, shown, compared, and held against what is there now."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arcops import words
from arcops.cli import output
from arcops.cli.connect import client_of
from arcops.cli.main import instance_of
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode, NoDaemonError

if TYPE_CHECKING:
    from arcops.core.evidence.environment import Environment, EnvironmentChange
    from arcops.evidence.environment.recorded import Recorded

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Record what a profile's runtime really is, and what has changed.",
)

Full = Annotated[bool, typer.Option("--full", help="Read every file anew; believe no hash of an earlier look.")]
Weights = Annotated[bool, typer.Option("--weights", help="Read all bytes of the weights, too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Word = Annotated[str, typer.Argument(metavar="DIGEST|FILE", help="The beginning of its digest, or a file.")]


@app.command("record")
def record(
    ctx: typer.Context,
    profile: Annotated[
        str | None, typer.Argument(metavar="[PROFILE]", help="Whose runtime; default: that of what runs.")
    ] = None,
    weights: Weights = False,
    full: Full = False,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="PLACE", help="A folder, or a file that ends in .json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read a runtime, file by file, and keep what was found as a record."""
    from arcops.core.evidence.environment import digest_of
    from arcops.evidence import shelf
    from arcops.evidence.environment import recorded
    from arcops.evidence.environment.text import lines_of

    paths = Paths.of(instance_of(ctx))
    place = to or paths.environments
    name = profile or _running(ctx)
    if to is not None:
        shelf.prepare(to)
    began = time.time()
    environment = _gathered(ctx, name, weights=weights, full=full)
    command = ("arcops", "env", "record", name, *(("--weights",) if weights else ()), *(("--full",) if full else ()))
    found = recorded.keep(place, environment, began, time.time(), command)
    if as_json:
        output.json_data(_json(found))
        return
    output.data("\n".join(lines_of(environment)))
    _warn_of(environment.unread)
    if found.at < began:
        output.note(f"the same was recorded before: {output.printable(str(found.path))}")
    else:
        output.note(f"recorded as {words.digest(digest_of(environment))} in {output.printable(str(found.path))}")


@app.command("show")
def show(
    ctx: typer.Context,
    which: Annotated[
        str | None, typer.Argument(metavar="[DIGEST|FILE]", help="Which; default: what was recorded last.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Name every package and every file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show an environment: first what is not as it was built."""
    from arcops.evidence.environment import recorded
    from arcops.evidence.environment.text import lines_of

    folder = Paths.of(instance_of(ctx)).environments
    found = recorded.newest(folder) if which is None else recorded.named(folder, which)
    if found is None:
        raise ArcopsError(
            f"no environment is recorded in {folder}",
            hint="`arcops env record PROFILE` makes one",
            exit_code=ExitCode.USAGE,
        )
    if as_json:
        output.json_data(_json(found))
        return
    output.data(f"{_title(found)}\n" + "\n".join(lines_of(found.environment, everything=everything)))


@app.command("diff")
def diff(ctx: typer.Context, old: Word, new: Word, as_json: AsJson = False) -> None:
    """Say in what two environments differ. Exit code 0 if in nothing that could be read, 1 if in something."""
    from arcops.core.evidence.environment import changes, unread_in_either
    from arcops.evidence.environment import recorded

    folder = Paths.of(instance_of(ctx)).environments
    was, becomes = recorded.named(folder, old), recorded.named(folder, new)
    found = changes(was.environment, becomes.environment)
    unread = unread_in_either(was.environment, becomes.environment)
    _judged(found, unread, was.digest, becomes.digest, "the two are the same", as_json)


@app.command("verify")
def verify(
    ctx: typer.Context,
    which: Annotated[
        str | None,
        typer.Argument(metavar="[PROFILE|FILE|DIGEST]", help="What to hold to; default: what runs, as recorded last."),
    ] = None,
    weights: Weights = False,
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """Say whether what is there now is still what was recorded. Exit code 1 if anything differs."""
    from arcops.core.evidence.environment import changes, digest_of, unread_in_either

    was = _recorded(ctx, which)
    profile = was.environment.profile
    if not profile:
        raise ArcopsError(f"{was.path} does not say of which profile it is", exit_code=ExitCode.USAGE)
    now = _gathered(ctx, profile, weights=weights or _has_weights(was.environment), full=full)
    found = changes(was.environment, now)
    same = f"{profile} is what was recorded on {_date(was.at)}"
    _judged(found, unread_in_either(was.environment, now), was.digest, digest_of(now), same, as_json)


def _has_weights(environment: "Environment") -> bool:
    """The record has the hash of all weights: it is held to that as well."""
    return any(one is not None and one.weights_digest is not None for one in (environment.model, environment.draft))


def _judged(
    found: "tuple[EnvironmentChange, ...]", unread: tuple[str, ...], old: str, new: str, same: str, as_json: bool
) -> None:
    """Say what differs, and leave with the exit code that goes with it."""
    from arcops.evidence.environment.text import change_lines

    if as_json:
        told = [{"part": one.part, "name": one.name, "was": one.was, "becomes": one.becomes} for one in found]
        # Neither the same nor different: what could not be read may be either.
        verdict = False if found else None if unread else True
        output.json_data({"same": verdict, "old": old, "new": new, "changes": told, "unread": list(unread)})
    elif found:
        output.data("\n".join(change_lines(found)))
    elif unread:
        output.data(f"nothing that could be read differs ({words.digest(new)})")
    else:
        output.data(f"{same} ({words.digest(new)})")
    if not as_json:
        _warn_of(unread)
    if found:
        output.leave(ExitCode.FAILED)


def _recorded(ctx: typer.Context, which: str | None) -> "Recorded":
    """By a file, a digest, or the name of a profile."""
    from arcops.config.library import Config
    from arcops.evidence.environment import recorded

    instance = instance_of(ctx)
    folder = Paths.of(instance).environments
    name = _running(ctx) if which is None else which
    if which is not None and which not in Config.load(instance=instance).names():
        return recorded.named(folder, which)
    found = recorded.newest(folder, name)
    if found is None:
        raise ArcopsError(
            f"no environment of {name} is recorded in {folder}",
            hint=f"`arcops env record {name}` makes one",
            exit_code=ExitCode.USAGE,
        )
    return found


def _gathered(ctx: typer.Context, profile: str, *, weights: bool, full: bool) -> "Environment":
    from arcops.config.library import Config
    from arcops.evidence.environment.gather import gather

    instance = instance_of(ctx)
    launch = Config.load(instance=instance).launch(profile)
    tell = _teller()
    try:
        return gather(launch, Paths.of(instance), full=full, weights=weights, tell=tell)
    finally:
        tell("")


def _teller() -> Callable[[str], None]:
    """Shows what is read on the last line of a terminal; elsewhere nobody wants to see it."""
    terminal = sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison] - `2>&-`
    if not terminal:
        return lambda _: None
    shown = [0.0]

    def tell(what: str) -> None:
        now = time.monotonic()
        if not what or now - shown[0] > 0.1:
            shown[0] = now
            output.rewrite(f"reading {what}" if what else "")

    return tell


def _running(ctx: typer.Context) -> str:
    """The profile of what runs, or is ordered. Raises ArcopsError."""
    nobody = ArcopsError(
        "no profile is named, and no daemon answers that would run one",
        hint="name one; `arcops profile list` lists them",
        exit_code=ExitCode.USAGE,
    )
    if not os.path.exists(Paths.of(instance_of(ctx)).socket):
        raise nobody
    try:
        with client_of(ctx) as client:
            status = client.status()
    except NoDaemonError as error:
        raise nobody from error
    name = status.backend.profile if status.backend is not None else status.order.profile
    if name is None:
        hint = "name one; `arcops profile list` lists them"
        raise ArcopsError("no profile is named, and none runs", hint=hint, exit_code=ExitCode.USAGE)
    return name


def _warn_of(unread: tuple[str, ...]) -> None:
    for sentence in unread:
        output.warn(f"unknown: {words.clean(sentence)}")


def _title(found: "Recorded") -> str:
    profile = found.environment.profile or "an unknown profile"
    how = {"record": "recorded", "launch": "launched"}.get(found.by, f"in a record of a {found.by}")
    return words.clean(f"{profile}, {how} {_date(found.at)}: {found.path}")


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _json(found: "Recorded") -> dict[str, Any]:  # what msgspec makes of a dataclass: JSON's own types
    import msgspec

    return {
        "digest": found.digest,
        "path": str(found.path),
        "at": found.at,
        "by": found.by,
        "environment": msgspec.to_builtins(found.environment),
    }
