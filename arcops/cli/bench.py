"""`arcops bench`: measures a server, and shows what was measured. Each command is imported when it is asked for."""

from typing import ClassVar

import typer

from arcops.cli.main import LazyCommands

COMMANDS: list[tuple[str, str, str]] = [
    ("long-prompt", "arcops.cli.bench_measure:long_prompt", "A long prompt: cold, cached, and with sampling."),
    ("context", "arcops.cli.bench_measure:context", "Decoding over exact depths of real content."),
    ("ladder", "arcops.cli.bench_measure:ladder", "More and more users at once."),
    ("suite", "arcops.cli.bench_measure:suite", "Twelve fixed questions over fresh servers."),
    ("list", "arcops.cli.bench_show:list_records", "List the records."),
    ("show", "arcops.cli.bench_show:show", "Show a record: its figures, and what they are worth."),
    ("compare", "arcops.cli.bench_show:compare", "Compare records, or say in what they differ."),
    ("schema", "arcops.cli.bench_show:schema", "Print the JSON Schema of a record."),
    ("report", "arcops.cli.bench_report:report", "Write a report with plots, as one HTML file."),
]


class BenchCommands(LazyCommands):
    """The commands of `COMMANDS`."""

    TABLE: ClassVar[list[tuple[str, str, str]]] = COMMANDS


app = typer.Typer(
    cls=BenchCommands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def bench() -> None:
    """Measure a server, with proof of identity, and compare what was measured.

    A server is measured through its public API: at --url, or the daemon's own backend.
    """
