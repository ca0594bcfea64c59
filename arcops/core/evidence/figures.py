"""The figures of a run, computed from its raw facts: of each request, of each stage, and over passes.

Times are in seconds, rates in tokens per second. What cannot be known is None, and counts nowhere: never 0. Percentiles
are those of `statistics`. Where `vllm bench serve` has a figure of the same meaning, it is defined as there, and its
name there is given: on the same arrivals the two agree.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from arcops.core.evidence.consumption import peak_memory_of, power_of
from arcops.core.evidence.run import Counters, Request, Run, Stage
from arcops.core.evidence.setting import CardSample
from arcops.core.evidence.statistics import Spread, percentile, ratio, spread

ABORTED: Final = "abort"
"""The `finish` of an answer that the server cut off."""
MOSTLY: Final = 0.5
"""Where the prefix cache had more than this share of a prompt, the TTFT says nothing of prefilling."""


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """Of one request. One that failed has those figures that its arrivals give; no stage counts them."""

    complete: bool
    """The whole answer came, and the server did not cut it off."""
    ttft: float | None
    """To the first chunk with tokens. vLLM's TTFT."""
    chunk_gaps: tuple[float, ...]
    """Between a chunk with tokens and the next. vLLM's ITL, though with speculation a chunk brings several tokens: a
    gap is how long a reader waits for more text, and not the time of one token."""
    time_per_token: float | None
    """From the first chunk to the last, over all output tokens but one. vLLM's TPOT. Where the first chunk brings
    several tokens it is too short by them: `decode` has no such fault."""
    decode: float | None
    """Tokens after the first chunk, over the time from the first chunk to the last."""
    prefill: float | None
    """Prompt tokens that were computed, over the TTFT; None where the cache had most of them (MOSTLY) or unknown."""
    end_to_end: float | None
    """To the last chunk with tokens. vLLM's E2EL."""
    tokens_per_chunk: float | None
    """Of all chunks but the first."""
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of times, in seconds."""

    p50: float
    p90: float
    p99: float
    count: int


@dataclass(frozen=True, slots=True)
class StageFigures:
    """Of one stage of one pass. Latencies and rates are over the complete requests."""

    requests: int
    failed: int
    wall: float | None
    """From the first request's sending to the last answer's end."""
    output_tokens: int | None
    """Of the complete requests; None where one does not tell."""
    throughput: float | None
    """Output tokens of complete requests over `wall`, prefilling and stragglers included. vLLM's output throughput."""
    steady: float | None
    """Decode of all users together while all of them are served: tokens that came after the last user's first token and
    up to the first user's last, over the time between. With one request this is its `decode`. None where there is no
    such time (some waited until others had ended) or a request failed."""
    decode: Spread | None
    """Per user: over the requests' own `decode`."""
    time_per_token: Percentiles | None
    """vLLM's TPOT."""
    ttft: Percentiles | None
    chunk_gaps: Percentiles | None
    """Of all gaps of all requests. vLLM's ITL."""
    end_to_end: Percentiles | None
    prefill: Spread | None
    """Over the requests; None with more than one user, where the TTFT is waiting for the others, too."""
    tokens_per_step: float | None
    """By the server's counters: what a step of a sequence brought with speculation, its own token included."""
    acceptance: float | None
    """Accepted over drafted tokens, 0..1."""
    hit_rate: float | None
    """Prompt tokens that the prefix cache had, 0..1, by the server's counters."""
    most_running: float | None
    most_waiting: float | None
    most_kv_usage: float | None
    """0..1."""
    preemptions: float | None
    power: float | None
    """Watts of all cards together, the mean of the looks at each; None where there were fewer than two."""
    energy_per_token: float | None
    """Joules for each output token."""
    peak_memory: int | None
    """Bytes: the sum of what each card held at most while the stage went on."""


def of_request(request: Request, cached_tokens: int | None = None) -> RequestFigures:
    """`cached_tokens` is what is known from elsewhere where the request's own `usage` does not tell."""
    cached = cached_tokens if request.cached_tokens is None else request.cached_tokens
    output = output_tokens(request)
    first, last = (request.arrivals[0], request.arrivals[-1]) if request.arrivals else (None, None)
    decoding = None if first is None or last is None else last - first
    later = None if output is None or not request.chunk_tokens else output - request.chunk_tokens[0]
    decodes = later is not None and later > 0 and len(request.arrivals) > 1
    return RequestFigures(
        complete=is_complete(request),
        ttft=first,
        chunk_gaps=tuple(after - before for before, after in pairwise(request.arrivals)),
        time_per_token=None if output is None or output < 2 or decoding is None else decoding / (output - 1),
        decode=ratio(later, decoding) if decodes else None,
        prefill=_prefill(request, cached),
        end_to_end=last,
        tokens_per_chunk=ratio(later, len(request.arrivals) - 1) if decodes else None,
        prompt_tokens=request.prompt_tokens,
        cached_tokens=cached,
        output_tokens=output,
    )


def of_requests(stage: Stage) -> tuple[RequestFigures, ...]:
    """Of each request of a stage, in their order; what the server's counters tell of its cache fills in for `usage`."""
    hits = _hits_each(stage)
    return tuple(of_request(request, hits) for request in stage.requests)


def of_stage(stage: Stage, samples: Sequence[CardSample] = ()) -> StageFigures:
    """`samples` are the looks at the cards during the whole run."""
    everything = of_requests(stage)
    complete = [one for one in everything if one.complete]
    tokens = total([one.output_tokens for one in complete])
    time = span(stage)
    wall = None if time is None else time[1] - time[0]
    power = power_of(samples, time)
    energy = None if power is None or wall is None else power * wall
    accepted, drafts = _rise(stage, "accepted_tokens"), _rise(stage, "drafts")
    extra = ratio(accepted, drafts)
    return StageFigures(
        requests=len(everything),
        failed=len(everything) - len(complete),
        wall=wall,
        output_tokens=tokens,
        throughput=ratio(tokens, wall),
        steady=_steady(stage),
        decode=spread(one.decode for one in complete),
        time_per_token=_percentiles(one.time_per_token for one in complete),
        ttft=_percentiles(one.ttft for one in complete),
        chunk_gaps=_percentiles(gap for one in complete for gap in one.chunk_gaps),
        end_to_end=_percentiles(one.end_to_end for one in complete),
        prefill=spread(one.prefill for one in complete) if stage.concurrency == 1 else None,
        tokens_per_step=None if extra is None else 1 + extra,
        acceptance=ratio(accepted, _rise(stage, "draft_tokens")),
        hit_rate=ratio(_rise(stage, "prefix_hits"), _rise(stage, "prefix_queries")),
        most_running=stage.watched.most_running,
        most_waiting=stage.watched.most_waiting,
        most_kv_usage=stage.watched.most_kv_usage,
        preemptions=_rise(stage, "preemptions"),
        power=power,
        energy_per_token=ratio(energy, tokens),
        peak_memory=peak_memory_of(samples, time),
    )


def is_complete(request: Request) -> bool:
    """Whether its whole answer came, and the server did not cut it off."""
    return not request.problem and request.ended is not None and request.finish != ABORTED and bool(request.arrivals)


def output_tokens(request: Request) -> int | None:
    """By the server's `usage`; else those that were counted as they came, where each chunk's are known."""
    if request.output_tokens is not None:
        return request.output_tokens
    return sum(request.chunk_tokens) if request.chunk_tokens and min(request.chunk_tokens) > 0 else None


def total(numbers: Sequence[int | None]) -> int | None:
    """None where one of them is unknown, or there is none."""
    known = [one for one in numbers if one is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def span(stage: Stage) -> tuple[float, float] | None:
    """When its first request was sent, and when the last sign of an answer came, in seconds since the run began."""
    if not stage.requests:
        return None
    return min(one.sent for one in stage.requests), max(one.sent + _last_sign(one) for one in stage.requests)


def measured(run: Run) -> tuple[Stage, ...]:
    """The stages that count: pass 0 is a warm-up, or an oracle's."""
    return tuple(stage for stage in run.stages if stage.pass_number > 0)


def conditions(run: Run) -> Mapping[tuple[str, bool | None], tuple[Stage, ...]]:
    """The measured stages by what they were measured under: name, and whether warm. The passes of one condition are
    together, in the order in which it first came; cold and warm never are."""
    found: dict[tuple[str, bool | None], tuple[Stage, ...]] = {}
    for stage in measured(run):
        key = (stage.name, stage.warm)
        found[key] = (*found.get(key, ()), stage)
    return found


def _prefill(request: Request, cached: int | None) -> float | None:
    prompt, ttft = request.prompt_tokens, request.ttft
    if prompt is None or cached is None or not 0 <= cached <= prompt * MOSTLY:
        return None
    return ratio(prompt - cached, ttft)


def _hits_each(stage: Stage) -> int | None:
    """Cached tokens of each request, as far as the server's counters tell it: none for any, or all for the only one."""
    hits = _rise(stage, "prefix_hits")
    if hits == 0:
        return 0
    return int(hits) if hits is not None and len(stage.requests) == 1 else None


def _rise(stage: Stage, name: str) -> float | None:
    """Of a counter over the stage; None where it cannot be read, fell, or is another server's."""
    before, after = (_counted(one, name) for one in (stage.before, stage.after))
    if before is None or after is None or after < before:
        return None
    return after - before if stage.before.server_started == stage.after.server_started else None


def _counted(counters: Counters, name: str) -> float | None:
    match name:
        case "accepted_tokens":
            return counters.accepted_tokens
        case "drafts":
            return counters.drafts
        case "draft_tokens":
            return counters.draft_tokens
        case "prefix_hits":
            return counters.prefix_hits
        case "prefix_queries":
            return counters.prefix_queries
        case "preemptions":
            return counters.preemptions
        case _:
            raise ValueError(f"nobody counts {name}")


def _last_sign(request: Request) -> float:
    """Seconds after it was sent."""
    if request.ended is not None:
        return request.ended
    return request.arrivals[-1] if request.arrivals else 0.0


def _steady(stage: Stage) -> float | None:
    if not stage.requests or not all(is_complete(one) for one in stage.requests):
        return None
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for one in stage.requests:
        first[one.user] = min(first.get(one.user, float("inf")), one.sent + one.arrivals[0])
        last[one.user] = max(last.get(one.user, 0.0), one.sent + one.arrivals[-1])
    began, ended = max(first.values()), min(last.values())
    tokens = 0
    for one in stage.requests:
        if min(one.chunk_tokens, default=0) <= 0:
            return None
        # Rounded alike on both sides, so that the chunk that ends the time is in it, and the one that begins it is not.
        came = (one.sent + at for at in one.arrivals)
        tokens += sum(count for at, count in zip(came, one.chunk_tokens, strict=True) if began < at <= ended)
    return ratio(tokens, ended - began) if tokens else None


def _percentiles(values: Iterable[float | None]) -> Percentiles | None:
    known = sorted(value for value in values if value is not None)
    p50, p90, p99 = (percentile(known, percent) for percent in (50, 90, 99))
    if p50 is None or p90 is None or p99 is None:
        return None
    return Percentiles(p50, p90, p99, len(known))
