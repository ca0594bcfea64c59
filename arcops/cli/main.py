"""The command `arcops`: the global options, and the list of commands.

A command is imported when it is used, and only then, so that `arcops status` loads what `status` needs and no more.
`arcops --help` loads no command at all: its words come from the list.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Annotated, ClassVar, Protocol, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from arcops import __version__
from arcops.cli import output
from arcops.config.paths import DEFAULT_INSTANCE, check_instance

COMMANDS: list[tuple[str, str, str]] = [
    ("status", "arcops.cli.status:status", "Say what runs, for how long, and why."),
    ("switch", "arcops.cli.switch:switch", "Run another profile instead of what runs now."),
    ("stop", "arcops.cli.stop:stop", "Stop the backend, and run none until told otherwise."),
    ("restart", "arcops.cli.stop:restart", "Run the ordered profile anew."),
    ("reload", "arcops.cli.reload:reload", "Read the configuration anew, for the next start."),
    ("logs", "arcops.cli.logs:logs", "Show what the backend wrote, or the supervisor."),
    ("history", "arcops.cli.history:history", "Show the numbers of the last minutes, days or weeks."),
    ("events", "arcops.cli.events:events", "Show what happened, and why."),
    ("report", "arcops.cli.report:report", "Pack what a maintainer would ask for into one archive."),
    ("gpu", "arcops.cli.gpu:gpu", "Show the cards: who holds their memory, and whether they are well."),
    ("plan", "arcops.cli.plan:plan", "Say whether a profile fits its cards, item by item."),
    ("profile", "arcops.cli.profile:app", "List, show and check profiles."),
    ("init", "arcops.cli.init:init", "Write a first configuration from what this machine has."),
    ("service", "arcops.cli.service:app", "Install and run the supervisor as a service of systemd."),
    ("doctor", "arcops.cli.doctor:doctor", "Look for what is wrong with this machine, and say what helps."),
    ("bench", "arcops.cli.bench:app", "Measure a server with proof of identity, and compare the records."),
    ("soak", "arcops.cli.soak:soak", "Keep a server busy with mixed clients, and count what goes wrong."),
    ("env", "arcops.cli.env:app", "Record what a profile's runtime really is, and what has changed."),
    ("qualify", "arcops.cli.qualify:qualify", "Hold a profile to its gates before it replaces what works."),
    ("tui", "arcops.cli.tui:tui", "Show the operator's screen."),
    ("record", "arcops.cli.record:record", "Record what the daemon says, to be played on the screen."),
]
"""(name, "module:function", help). The function is a typer command, or a `typer.Typer` with commands of its own."""


class HelpWriter(Protocol):
    """What typer's help formatter offers, as far as it is needed here."""

    def section(self, name: str) -> AbstractContextManager[None]: ...

    def write_dl(self, rows: Sequence[tuple[str, str]]) -> None: ...


class LazyCommands(TyperGroup):
    """The commands of a table, each imported when it is asked for by name."""

    TABLE: ClassVar[list[tuple[str, str, str]]] = COMMANDS

    def list_commands(self, ctx: object) -> list[str]:
        return [name for name, _, _ in self.TABLE]

    def get_command(self, ctx: object, cmd_name: str):
        for name, target, summary in self.TABLE:
            if name == cmd_name:
                command = get_command(_load(target, summary))
                command.name = name
                return command
        return None

    def invoke(self, ctx: object) -> object:
        """Run the command; what it raises is turned into words and an exit code here, once for all commands.

        Not further out: there the framework has had its own words for Ctrl-C.
        """
        return output.guard(super().invoke)(cast("typer.Context", ctx))  # the framework's own class has no public name

    def format_commands(self, ctx: object, formatter: HelpWriter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, _, summary in self.TABLE])


def _load(target: str, summary: str) -> typer.Typer:
    """The typer application that `target` ("module:attribute") names; a plain function becomes one of one command."""
    module, _, attribute = target.partition(":")
    found: object = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        return found
    if not callable(found):
        raise TypeError(f"{target} is neither a function nor a typer.Typer")
    function: Callable[..., object] = found
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(help=function.__doc__ or summary)(function)
    return single


app = typer.Typer(
    cls=LazyCommands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        output.data(f"arcops {__version__}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    instance: Annotated[
        str,
        typer.Option("--instance", "-i", envvar="ARCOPS_INSTANCE", metavar="NAME", help="Which supervisor to talk to."),
    ] = DEFAULT_INSTANCE,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run one vLLM server on a workstation's GPU, and keep it honest."""
    check_instance(instance)
    ctx.obj = instance


def instance_of(ctx: typer.Context) -> str:
    """The instance that the command line, or ARCOPS_INSTANCE, names."""
    root: object = ctx.find_root().obj
    return root if isinstance(root, str) else os.environ.get("ARCOPS_INSTANCE", DEFAULT_INSTANCE)


@output.guard
def run() -> None:
    """The entry point of `arcops`."""
    app(prog_name="arcops")


if __name__ == "__main__":
    run()
