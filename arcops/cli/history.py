"""`arcops history`: the numbers of the past, as a table, as CSV or as JSON."""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from arcops import wire, words
from arcops.cli import output
from arcops.cli.bars import bar
from arcops.cli.connect import client_of
from arcops.cli.durations import seconds, shown
from arcops.cli.events import moment
from arcops.cli.output import Style, paint
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.rates import Quantiles
from arcops.samples_csv import columns, line, row

MOST_ROWS: Final = 60
"""Of a table whose step nobody chose."""
STEPS: Final = (1.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0)
"""Seconds a row, from which the smallest is taken that makes a table of a readable length."""
MINUTE: Final = 60.0
_BAR: Final = 8
"""Characters of a bar at its fullest."""


def history(
    ctx: typer.Context,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="From then on: 90m or 7d ago, or 2026-11-30T10:00.")
    ] = "1h",
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Up to then; up to now, if it is not given.")
    ] = None,
    step: Annotated[
        str | None,
        typer.Option("--step", metavar="STEP", help="What a row stands for: 1s (the last hour), 1m, 5m, 1h, ..."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated, by the minute; unknown is empty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON document, by the minute.")] = False,
) -> None:
    """Show the numbers of the last hour, or of up to 30 days: what ran, how much, how fast."""
    if as_csv and as_json:
        raise ArcopsError("--csv and --json contradict each other", hint="use one of them", exit_code=ExitCode.USAGE)
    now = time.time()
    begin, end = moment(since, now), now if until is None else moment(until, now)
    if begin >= end:
        raise ArcopsError(
            "there is no time between --since and --until", hint="--since is the earlier one", exit_code=ExitCode.USAGE
        )
    chosen = readable_step(end - begin) if step is None else step_of(step)
    if step is None and (as_csv or as_json):
        chosen = MINUTE
    with client_of(ctx) as client:
        pages = client.all_samples(begin, None if until is None else end, chosen)
        if as_csv:
            _write_csv(_told(pages))
        elif as_json:
            points = tuple(_told(pages))
            output.data(wire.encode(wire.Samples(step=chosen, points=points, next=None)).decode())
        else:
            _write_table(list(_told(pages)), chosen)


def step_of(text: str) -> float:
    """A step in seconds: 1, or whole minutes. Raises ArcopsError (usage)."""
    step = seconds(text)
    if step != STEPS[0] and (step == 0.0 or step % MINUTE):
        raise ArcopsError(
            f"{shown(text)} is no step of the history",
            hint="1s, or whole minutes: 1m, 5m, 1h",
            exit_code=ExitCode.USAGE,
        )
    return step


def readable_step(span: float) -> float:
    """The finest step that shows `span` seconds in a table that can be read, minutes at the finest."""
    return next((step for step in STEPS[1:] if span / step <= MOST_ROWS), STEPS[-1])


def _told(pages: Iterable[wire.Samples]) -> Iterator[wire.SamplePoint]:
    """All points, oldest first; what is missing is said once."""
    missing = ""
    for page in pages:
        if page.absent is not None and page.absent != missing:
            missing = page.absent
            output.warn(missing)
        yield from page.points


def _write_csv(points: Iterable[wire.SamplePoint]) -> None:
    output.data(line(columns()))
    for point in points:
        output.data(line(row(point)))


# -- the table --------------------------------------------------------------------------------------------------------
_HEADER: Final = (
    f"{'':<11}  {'running':>7}  {'waiting':>7}  {'KV':>5}  {'prefill':>8}  {'decode':>8}  {'':<{_BAR}}  "
    f"{'TTFT p50':<12}  {'inter-token':<12}  accepted"
)
_UNITS: Final = f"{'':<11}  {'':>7}  {'':>7}  {'%':>5}  {'tok/s':>8}  {'tok/s':>8}"


def _write_table(points: Sequence[wire.SamplePoint], step: float) -> None:
    if not points:
        output.note("no numbers of that time are known")
        return
    most = max((point.decode or 0.0 for point in points), default=0.0)
    output.data(paint(_HEADER, Style.BOLD))
    output.data(paint(_UNITS, Style.DIM))
    launch, end = "", points[0].at
    for point in points:
        if point.launch_id != launch:
            launch = point.launch_id
            output.data(f"== {words.clean(point.profile)} (launch {words.clean(launch)})")
        elif (gap := begin_of(point, step) - end) > step / 2:
            output.data(paint(f"   nothing is known of {words.duration(gap)}", Style.DIM))
        end = point.at + (0.0 if step < MINUTE else step)
        output.data(table_line(point, step, most))


def begin_of(point: wire.SamplePoint, step: float) -> float:
    """Where what a point tells begins: a second's ends with it, and may cover more where nobody could look."""
    return point.at - max(point.seconds, STEPS[0]) if step < MINUTE else point.at


def table_line(point: wire.SamplePoint, step: float, most: float) -> str:
    """One point for people; the bar is its decode rate over the most in the table."""
    stamp = f"{datetime.fromtimestamp(point.at, UTC).astimezone():{'%H:%M:%S' if step < MINUTE else '%m-%d %H:%M'}}"
    kv_usage = "?" if point.kv_usage is None else f"{point.kv_usage.mean * 100:.1f}"
    # A prompt counts when its prefill is complete; until then the KV cache's growth is all there is to see.
    prefill = point.prefill or (point.prefill if point.prefilling is None else point.prefilling.mean)
    accepted = "" if point.acceptance is None else words.percent(point.acceptance)
    drawn = bar(point.decode, most, _BAR)
    numbers = (
        f"{stamp:<11}  {_mean(point.running):>7}  {_mean(point.waiting):>7}  {kv_usage:>5}  {_rate(prefill):>8}  "
        f"{_rate(point.decode):>8}  {drawn}  {_p50(point.ttft):<12}  {_p50(point.inter_token):<12}  "
        f"{accepted}"
    )
    return numbers.rstrip()


def _mean(spread: wire.Spread | None) -> str:
    return "?" if spread is None else words.number(spread.mean)


def _rate(value: float | None) -> str:
    return "?" if value is None else words.number(value)


def _p50(quantiles: Quantiles | None) -> str:
    return "" if quantiles is None else words.quantile(quantiles.p50)
