"""vLLM 0.29's metrics in Prometheus' text form, kept from what the fake engine really did."""

import os
import time
from bisect import bisect_left
from collections.abc import Iterator

Labels = tuple[tuple[str, str], ...]
PREFIX = "vllm:"
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
SHORT = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
    160,
    640,
    2560,
)
BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
LONG = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)

REASONS = ("stop", "length", "abort", "error", "repetition")
SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
SPECULATIVE = (
    ("spec_decode_num_drafts", "Number of spec decoding drafts."),
    ("spec_decode_num_draft_tokens", "Number of draft tokens."),
    ("spec_decode_num_accepted_tokens", "Number of accepted tokens."),
)
COUNTERS = (
    ("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens."),
    ("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens."),
    ("num_preemptions", "Cumulative number of preemption from the engine."),
    ("prompt_tokens", "Number of prefill tokens processed."),
    ("prompt_tokens_cached", "Number of cached prompt tokens (local + external)."),
    ("generation_tokens", "Number of generation tokens processed."),
)
HISTOGRAMS = (
    ("request_prompt_tokens", "Number of prefill tokens processed.", TOKENS),
    ("request_generation_tokens", "Number of generation tokens processed.", TOKENS),
    (
        "iteration_tokens_total",
        "Histogram of number of tokens per engine_step.",
        (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
    ),
    ("request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", TOKENS),
    ("request_params_n", "Histogram of the n request parameter.", (1, 2, 5, 10, 20)),
    ("request_params_max_tokens", "Histogram of the max_tokens request parameter.", TOKENS),
    ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", SHORT),
    ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", BETWEEN),
    ("request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", BETWEEN),
    ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", LONG),
    ("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", LONG),
    ("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", LONG),
    ("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", LONG),
    ("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", LONG),
    (
        "request_prefill_kv_computed_tokens",
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        TOKENS,
    ),
)


def number(value: float) -> str:
    """A number as Prometheus' Python client prints it: always a float, large ones with a two-digit exponent."""
    text = repr(float(value))
    whole, dot, fraction = text.partition(".")
    if value > 0 and dot and len(whole) > 6 and "e" not in text:
        return f"{whole[0]}.{(whole[1:] + fraction).rstrip('0') or '0'}e+{len(whole) - 1:02d}"
    return text


def labelled(name: str, labels: Labels, value: float) -> str:
    inner = ",".join(f'{key}="{text}"' for key, text in sorted(labels))
    return f"{name}{{{inner}}} {number(value)}" if inner else f"{name} {number(value)}"


class Histogram:
    """Observations in buckets, as Prometheus counts them."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.count = 0

    def observe(self, value: float, times: int = 1) -> None:
        self.buckets[bisect_left(self.bounds, value)] += times
        self.total += value * times
        self.count += times

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        running = 0
        for bound, count in zip((*self.bounds, float("inf")), self.buckets, strict=True):
            running += count
            text = "+Inf" if bound == float("inf") else number(bound)
            yield labelled(f"{name}_bucket", (*labels, ("le", text)), running)
        yield labelled(f"{name}_count", labels, self.count)
        yield labelled(f"{name}_sum", labels, self.total)


class Metrics:
    """What one engine has done since it started, and how busy it is. The engine's lock guards it."""

    def __init__(self, model: str, draft_tokens: int) -> None:
        """`draft_tokens` is the deepest draft, 0 without speculation (then there are no spec_decode series at all)."""
        self.model = model
        self.labels: Labels = (("engine", "0"), ("model_name", model))
        self.created = time.time()
        self.counters: dict[str, float] = {name: 0 for name, _ in (*COUNTERS, *SPECULATIVE)}
        self.accepted_at = [0] * draft_tokens
        self.finished: dict[str, int] = dict.fromkeys(REASONS, 0)
        self.sources: dict[str, int] = dict.fromkeys(SOURCES, 0)
        self.histograms = {name: Histogram(bounds) for name, _, bounds in HISTOGRAMS}
        self.running = 0
        self.waiting = 0
        self.kv_usage = 0.0
        self.corrupted = 0
        self.cache: dict[str, str] = {}

    def render(self) -> str:
        """The whole page."""
        lines = list(self._process())
        if self.accepted_at:
            for name, text in SPECULATIVE:
                lines += self._counter(name, text, [((), self.counters[name])])
            positions = [((("position", str(at)),), float(count)) for at, count in enumerate(self.accepted_at)]
            name = "spec_decode_num_accepted_tokens_per_pos"
            lines += self._counter(name, "Accepted tokens per draft position.", positions)
        lines += self._gauges()
        for name, text in COUNTERS:
            lines += self._counter(name, text, [((), self.counters[name])])
        if self.corrupted:
            text = "Corrupted requests, in terms of total number of requests with NaNs in logits."
            lines += self._counter("corrupted_requests", text, [((), self.corrupted)])
        by_source = [((("source", source),), float(count)) for source, count in self.sources.items()]
        lines += self._counter("prompt_tokens_by_source", "Number of prompt tokens by source.", by_source)
        by_reason = [((("finished_reason", reason),), float(count)) for reason, count in self.finished.items()]
        lines += self._counter("request_success", "Count of successfully processed requests.", by_reason)
        for name, text, _ in HISTOGRAMS:
            lines += self._head(name, text, "histogram")
            lines += self.histograms[name].lines(PREFIX + name, self.labels)
            lines += self._created(name, text, [()])
        lines += self._head("cache_config_info", "Information of the LLMEngine CacheConfig", "gauge")
        lines.append(labelled(f"{PREFIX}cache_config_info", (("engine", "0"), *self.cache.items()), 1))
        return "\n".join(lines) + "\n"

    def _process(self) -> Iterator[str]:
        name = "process_start_time_seconds"
        yield f"# HELP {name} Start time of the process since unix epoch in seconds.\n# TYPE {name} gauge"
        yield labelled(name, (), self.created)
        name = "process_cpu_seconds_total"
        yield f"# HELP {name} Total user and system CPU time spent in seconds.\n# TYPE {name} counter"
        spent = os.times()
        yield labelled(name, (), spent.user + spent.system)

    def _gauges(self) -> Iterator[str]:
        yield from self._gauge(
            "num_requests_running", "Number of requests in model execution batches.", [((), self.running)]
        )
        yield from self._gauge(
            "num_requests_waiting", "Number of requests waiting to be processed.", [((), self.waiting)]
        )
        reasons: list[tuple[Labels, float]] = [
            ((("reason", "capacity"),), self.waiting),
            ((("reason", "deferred"),), 0),
        ]
        yield from self._gauge("num_requests_waiting_by_reason", "Number of waiting requests by reason.", reasons)
        states = ("awake", "weights_offloaded", "discard_all")
        sleep: list[tuple[Labels, float]] = [((("sleep_state", state),), float(state == "awake")) for state in states]
        yield from self._gauge("engine_sleep_state", "Engine sleep state.", sleep)
        yield from self._gauge(
            "kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", [((), self.kv_usage)]
        )

    def _head(self, name: str, text: str, kind: str) -> list[str]:
        return [f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} {kind}"]

    def _gauge(self, name: str, text: str, values: list[tuple[Labels, float]]) -> list[str]:
        series = [labelled(PREFIX + name, (*self.labels, *more), value) for more, value in values]
        return self._head(name, text, "gauge") + series

    def _counter(self, name: str, text: str, values: list[tuple[Labels, float]]) -> list[str]:
        series = [labelled(f"{PREFIX}{name}_total", (*self.labels, *more), value) for more, value in values]
        return self._head(f"{name}_total", text, "counter") + series + self._created(name, text, [m for m, _ in values])

    def _created(self, name: str, text: str, labels: list[Labels]) -> list[str]:
        series = [labelled(f"{PREFIX}{name}_created", (*self.labels, *more), self.created) for more in labels]
        return self._head(f"{name}_created", text, "gauge") + series
