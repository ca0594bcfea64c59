"""A status in lines of text."""

from arcops import wire, words
from arcops.cli.bars import gib
from arcops.core.rates import Prefilling, Quantiles, Rates, Speculation


def status_lines(status: wire.Status) -> list[str]:
    """The status for people: one sentence, then what there is to know, a line each."""
    lines = [words.sentence(status)]
    lines += _rows(_order(status))
    if status.failure is not None:
        lines += _rows(_failure(status.failure))
    if status.backend is not None:
        lines += _rows(_backend(status, status.backend))
    if status.start is not None:
        lines += _rows([("loading", loading(status.start))])
    environment = "" if status.environment is None else words.environment(status.environment)
    lines += _rows([("environment", environment)] if environment else [])
    if status.backend is not None and status.phase in ("serving", "suspect", "draining"):
        lines += _rows(_numbers(status))
    lines += _rows(_machine(status))
    return lines


def loading(start: wire.StartInfo) -> str:
    """How far a start has got: stage, share, time, and what is usual."""
    share = "" if start.fraction is None else f" {start.fraction * 100:.0f} %"
    usual = "" if start.usual is None else f", usually {words.duration(start.usual)}"
    return f"{start.stage}{share} ({words.duration(start.elapsed)}{usual})"


def _rows(rows: list[tuple[str, str]]) -> list[str]:
    return [f"  {name:<13}{text}" for name, text in rows]


def _order(status: wire.Status) -> list[tuple[str, str]]:
    order = status.order
    if order.goal == "stop":
        return [] if order.committed else [("order", "stop")]
    under_way = "" if order.committed else ", under way"
    back = f"; returns to {order.previous} if it fails" if order.previous is not None else ""
    instead = "" if order.standing_in is None else f"; {order.standing_in} stands in for it"
    told = under_way or instead or status.backend is None
    rows = [("order", f"run {order.profile}{under_way}{back}{instead}")] if told else []
    if status.retry_at is not None:
        rows.append(("next attempt", f"in {words.countdown(status.retry_at - status.at)}"))
    return rows


def _failure(failure: wire.FailureInfo) -> list[tuple[str, str]]:
    rows = [("failure", f"{words.clean(failure.summary)} ({failure.cause})")]
    if failure.hint:
        rows.append(("hint", words.clean(failure.hint)))
    return rows


def _backend(status: wire.Status, backend: wire.BackendInfo) -> list[tuple[str, str]]:
    pid = "not known yet" if backend.pid is None else str(backend.pid)
    adopted = (", adopted" if backend.adopted else "") + (", fresh caches" if backend.fresh_caches else "")
    processes = f"{words.count(backend.processes)} processes" + (
        " (nobody has looked yet)" if backend.processes is None else ""
    )
    return [
        ("backend", f"{backend.url} serves {backend.served_name}" if status.phase == "serving" else backend.url),
        ("process", f"pid {pid}, {processes}, launch {backend.launch_id}{adopted}"),
    ]


def _numbers(status: wire.Status) -> list[tuple[str, str]]:
    rates = status.rates
    if status.rates_age is None or rates.at is None:
        return [("requests", words.unknown(rates.absent or "no numbers of this backend yet"))]
    rows = [("requests", _requests(rates, status.rates_age)), ("rates", _throughput(rates, status.window))]
    if rates.prefilling is not None:
        rows.append(("prefilling", _prefilling(rates.prefilling, status.at)))
    rows += _latencies(rates)
    if rates.speculation is not None:
        rows.append(("speculation", _speculation(rates.speculation)))
    return rows


def _requests(rates: Rates, age: float) -> str:
    """Running and waiting together with the KV cache: an available API can still have a queue."""
    old = f" ({words.duration(age)} old)" if age > words.NUMBERS_OLD_AFTER else ""
    queue = f"{words.count(rates.running)} running, {words.count(rates.waiting)} waiting"
    return f"{queue}; KV cache {words.percent(rates.kv_usage)} used{old}"


def _throughput(rates: Rates, window: float) -> str:
    prefill, decode = words.tokens_per_second(rates.prefill), words.tokens_per_second(rates.decode)
    return f"prefill {prefill}, decode {decode} ({words.covered(window, rates.seconds)})"


def _speculation(speculation: Speculation) -> str:
    accepted = words.percent(speculation.acceptance)
    return f"{accepted} accepted, {words.number(speculation.tokens_per_step)} tokens per step"


def _prefilling(prefilling: Prefilling, now: float) -> str:
    done = "" if prefilling.tokens_done is None else f", {words.count(prefilling.tokens_done)} tokens so far"
    rate = words.tokens_per_second(prefilling.rate)
    return f"{rate} by the KV cache's growth{done}, for {words.duration(now - prefilling.since)}"


def _latencies(rates: Rates) -> list[tuple[str, str]]:
    named = (("TTFT", rates.ttft), ("inter-token", rates.inter_token), ("queue", rates.queue))
    return [(name, _quantiles(quantiles)) for name, quantiles in named if quantiles is not None]


def _quantiles(quantiles: Quantiles) -> str:
    parts = (("p50", quantiles.p50), ("p90", quantiles.p90), ("p99", quantiles.p99))
    return ", ".join(f"{name} {words.quantile(value)}" for name, value in parts)


def glance(card: wire.CardGlance) -> str:
    """A card in a line: what is known of it, and why its memory is not; `arcops gpu` has the rest."""
    address = words.clean(card.address)
    head = f"{address} ({words.clean(card.name)})" if card.name else address
    if card.memory_used is None:
        told = [f"memory in use {words.unknown(words.clean(card.absent.get('memory_used', '')))}"]
    else:
        total = "" if card.memory_total is None else f" of {gib(card.memory_total)}"
        told = [f"{gib(card.memory_used)}{total} GiB"]
    units = ((card.power, "W"), (card.temperature, "°C"), (card.clock, "MHz"))
    told += [f"{value:,.0f} {unit}" for value, unit in units if value is not None]
    told += [] if card.busy is None else [f"{words.percent(card.busy)} busy"]
    told += [f"held down by {', '.join(map(words.clean, card.throttling))}"] if card.throttling else []
    told += [f"{card.resets} {'reset' if card.resets == 1 else 'resets'} since boot"] if card.resets else []
    return f"{head}: {', '.join(told)}"


def _machine(status: wire.Status) -> list[tuple[str, str]]:
    rows = [("card", glance(card)) for card in status.cards]
    rows += [("locks", ", ".join(status.locks))] if status.locks else []
    if status.survival is not None:
        rows.append(("boot", words.clean(status.survival.why)))
    elif status.lingering is False:
        rows.append(("boot", "lingering is off: nothing of this survives a logout or comes back after a reboot"))
    rows += [("trouble", words.clean(trouble)) for trouble in status.trouble]
    rows += [("note", words.clean(note)) for note in status.notes]
    return rows
