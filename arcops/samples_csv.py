"""The numbers' history as comma-separated values: one form for the command line and the screen."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from arcops import wire
from arcops.core.rates import Quantiles

_GAUGES: Final = (
    ("running", "requests"),
    ("waiting", "requests"),
    ("kv_usage", "ratio"),
    ("prefilling", "tokens_per_s"),
)
_CARDS: Final = (
    ("card_memory", "bytes"),
    ("card_power", "watts"),
    ("card_temperature", "celsius"),
    ("card_clock", "mhz"),
)
_PARTS: Final = ("mean", "min", "max")
_WHOLE: Final = 1e6
"""From here on (bytes of memory) a fraction says nothing, and six digits would be too few."""
_LATENCIES: Final = ("ttft", "inter_token", "queue")
_QUANTILES: Final = ("p50", "p90", "p99")


def columns() -> list[str]:
    """The header: each number with its unit. `low` and `high` of a quantile are the bounds of its bucket."""
    names = ["time", "covered_s", "launch", "profile", "phase"]
    for name, unit in _GAUGES:
        names += [f"{name}_{part}_{unit}" for part in _PARTS]
    names += ["prefill_tokens_per_s", "decode_tokens_per_s", "requests_per_s", "preemptions"]
    names += ["acceptance_ratio", "tokens_per_step"]
    for latency in _LATENCIES:
        names.append(f"{latency}_observations")
        names.append(f"{latency}_mean_s")
        for q in _QUANTILES:
            names += [f"{latency}_{q}_s", f"{latency}_{q}_low_s", f"{latency}_{q}_high_s"]
    # Last, as whatever is added: who reads columns by their place is not misled.
    for name, unit in _CARDS:
        names += [f"{name}_{part}_{unit}" for part in _PARTS]
    return names


def row(point: wire.SamplePoint) -> list[str]:
    """One point in the order of `columns`; what is unknown is empty."""
    cells = [_iso(point.at), f"{point.seconds:.3f}", point.launch_id, point.profile, point.phase]
    for spread in (point.running, point.waiting, point.kv_usage, point.prefilling):
        cells += _spread_cells(spread)
    rates = (point.prefill, point.decode, point.requests, point.preemptions, point.acceptance, point.tokens_per_step)
    cells += [_cell(number) for number in rates]
    for quantiles in (point.ttft, point.inter_token, point.queue):
        cells += _quantile_cells(quantiles)
    for spread in (point.card_memory, point.card_power, point.card_temperature, point.card_clock):
        cells += _spread_cells(spread)
    return cells


def _spread_cells(spread: wire.Spread | None) -> list[str]:
    return [""] * len(_PARTS) if spread is None else [_cell(n) for n in (spread.mean, spread.low, spread.high)]


def _quantile_cells(quantiles: Quantiles | None) -> list[str]:
    if quantiles is None:
        return [""] * (2 + 3 * len(_QUANTILES))
    cells = [_cell(quantiles.count), _cell(quantiles.mean)]
    for one in (quantiles.p50, quantiles.p90, quantiles.p99):
        cells += [_cell(one.estimate), _cell(one.low), _cell(one.high)]
    return cells


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if value != int(value) and value < _WHOLE else f"{value:.0f}"


def _iso(at: float) -> str:
    return (
        datetime.fromtimestamp(at, UTC).astimezone().isoformat(timespec="seconds" if at == int(at) else "milliseconds")
    )


def line(cells: Sequence[str]) -> str:
    """Cells as one line, without its end."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()
