"""What arcops reads from vLLM's Prometheus text, across vLLM's versions.

A scrape is some 50 KB in 600 lines, once a second, of which the daemon may spend well under a hundredth of a core:
so one pass over the lines, a table of the wanted names, and no general parser. The text is untrusted: a line that
cannot be read is skipped and counted, never guessed.

Names and meanings are those of vLLM 0.24 to 0.32; older names are aliases in `_ALIASES`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise, takewhile
from math import ceil, inf, isnan, nan
from typing import TypeVar

T = TypeVar("T")

MAX_CHARS = 8 * 1024 * 1024
"""More text than this is cut: vLLM's own is a hundred times smaller."""
MAX_POSITIONS = 64
"""Draft positions beyond this are not believed: a label may claim any number."""
_LARGEST = 1e18
"""No count, size or time of vLLM's is larger; what is would only overflow in sums and products."""
_BLOCKS_TO_TELL = 32
"""More than the blocks of recurrent state that any model here holds for one request."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """A cumulative histogram: `counts[i]` observations were at most `bounds[i]`; the last bound is +inf."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float | None
    """Sum of all observations, in the unit of the bounds; None where the text did not give it."""
    count: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One scrape. None means that the text did not say; it is never 0.

    Counters, and the gauges of requests, are summed over engines. Token counts are in tokens, times in seconds.
    """

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    """0..1, the mean over engines: they have equal pools, so that `kv_usage * kv_capacity_tokens` is what is held."""
    kv_capacity_tokens: float | None = None
    """What all pools hold, by vLLM's own count: as many requests of the full context length as fit, in tokens."""
    kv_growth_tokens: float | None = None
    """Tokens by which running requests grow while the usage goes from 0 to 1; see `_growth`."""
    kv_block_tokens: float | None = None
    """Tokens of one block of the KV cache."""
    kv_state_tokens: float | None = None
    """What each running request of a hybrid model holds beside its tokens, in the measure of `kv_growth_tokens`."""
    prompt_tokens: float | None = None
    """Prompt tokens of requests whose prefill is complete, those found in the prefix cache included."""
    prompt_tokens_cached: float | None = None
    generation_tokens: float | None = None
    prefix_queries: float | None = None
    """In tokens, like the hits."""
    prefix_hits: float | None = None
    preemptions: float | None = None
    finished: Mapping[str, float] | None = None
    """Finished requests by reason: stop, length, abort, error, repetition."""
    drafts: float | None = None
    """Drafts that were verified; None without speculation."""
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_per_position: tuple[float, ...] | None = None
    corrupted_requests: float | None = None
    """Only with VLLM_COMPUTE_NANS_IN_LOGITS."""
    ttft: Histogram | None = None
    inter_token: Histogram | None = None
    """One observation per decode step of a request: with speculation a step brings several tokens."""
    e2e: Histogram | None = None
    queue: Histogram | None = None
    prefill_time: Histogram | None = None
    prefill_computed: Histogram | None = None
    """Prompt tokens that were computed, per finished request: without those found in the prefix cache."""
    iteration_tokens: Histogram | None = None
    process_start_time: float | None = None
    """When the API server started, in seconds since 1970."""
    model_name: str | None = None
    engines: int = 0
    """Engines that the KV gauge speaks of; 0 where it is missing."""
    unreadable_lines: int = 0

    @property
    def progress(self) -> float | None:
        """A sum of token, step and request counters that only has to differ to show progress; None if none is there."""
        steps = None if self.iteration_tokens is None else self.iteration_tokens.count
        finished = None if self.finished is None else sum(self.finished.values())
        known = [n for n in (self.prompt_tokens, self.generation_tokens, steps, finished, self.drafts) if n is not None]
        return sum(known) if known else None


_NUMBERS = frozenset(
    {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:prompt_tokens_total",
        "vllm:prompt_tokens_cached_total",
        "vllm:generation_tokens_total",
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:num_preemptions_total",
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_draft_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:corrupted_requests_total",
    }
)
"""Plain numbers, summed over all their label sets."""

_HISTOGRAMS = frozenset(
    {
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
        "vllm:e2e_request_latency_seconds",
        "vllm:request_queue_time_seconds",
        "vllm:request_prefill_time_seconds",
        "vllm:request_prefill_kv_computed_tokens",
        "vllm:iteration_tokens_total",
    }
)
"""`iteration_tokens_total` is one in spite of its name."""

_SPLIT = {
    "vllm:request_success_total": "finished_reason",
    "vllm:spec_decode_num_accepted_tokens_per_pos_total": "position",
    "vllm:kv_cache_usage_perc": "engine",
}
"""Numbers that are kept apart by one label."""

_CONFIG = "vllm:cache_config_info"
_START = "process_start_time_seconds"

_ALIASES = {
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:gpu_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
    "vllm:time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
}
"""Old name -> today's. Some versions give both, so the old one only counts where today's is missing."""


def _parts() -> dict[str, tuple[str, str]]:
    """Name of a line -> (kind of line, family)."""
    old = {today: name for name, today in _ALIASES.items()}
    parts: dict[str, tuple[str, str]] = {_CONFIG: ("config", _CONFIG), _START: ("number", _START)}
    for family in _NUMBERS:
        parts |= {name: ("number", name) for name in (family, old.get(family)) if name}
    for family in _SPLIT:
        parts |= {name: ("split", name) for name in (family, old.get(family)) if name}
    for family in _HISTOGRAMS:
        for name in (family, old.get(family)):
            if name:
                parts |= {f"{name}_{part}": (part, name) for part in ("bucket", "sum")}
    return parts


_PARTS = _parts()
_SPLIT_LABEL = _SPLIT | {old: _SPLIT[today] for old, today in _ALIASES.items() if today in _SPLIT}
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?=[{ ])")
# Possessive, and matched where the last one ended: a line of rubbish costs its length, not the square of it.
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*+)="([^"\\]*+(?:\\.[^"\\]*+)*+)"(?:, ?|$)')
_NUMBER = re.compile(r" ([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?: -?[0-9]+)?")


class _Lines:
    """What the wanted lines said, by family, before anything is made of it."""

    __slots__ = ("buckets", "configs", "model_name", "numbers", "split", "sums", "unreadable")

    def __init__(self) -> None:
        self.numbers: dict[str, float] = {}
        self.split: dict[str, dict[str, list[float]]] = {}
        self.buckets: dict[str, dict[str, list[float]]] = {}
        self.sums: dict[str, float] = {}
        self.configs: list[dict[str, str]] = []
        self.model_name: str | None = None
        self.unreadable = 0

    def read(self, kind: str, family: str, line: str, start: int) -> bool:
        """Take in one line whose name ended at `start`; False if it cannot be read."""
        end = line.rfind("}") + 1 if line[start] == "{" else start
        match = _NUMBER.fullmatch(line, end)
        if (
            match is None or " # {" in line
        ):  # An exemplar (of OpenMetrics, which was not asked for) also ends in a number.
            return False
        body = line[start + 1 : end - 1]
        value = float(match[1])
        if abs(value) > _LARGEST:
            return False
        match kind:
            case "number":
                self.numbers[family] = self.numbers.get(family, 0.0) + value
            case "sum":
                self.sums[family] = self.sums.get(family, 0.0) + value
            case _:
                return self._read_labelled(kind, family, body, value)
        return True

    def _read_labelled(self, kind: str, family: str, body: str, value: float) -> bool:
        labels: dict[str, str] = {}
        at = 0
        while label := _LABEL.match(body, at):
            labels[label[1]] = label[2]
            at = label.end()
        if at != len(body):
            return False
        if self.model_name is None:
            self.model_name = labels.get("model_name")
        match kind:
            case "bucket":
                table, key = self.buckets, labels.get("le")
            case "split":
                # A KV gauge without an engine label is that of a server with one engine.
                table, key = self.split, labels.get(_SPLIT_LABEL[family], "0" if "cache_usage" in family else None)
            case _:
                self.configs.append(labels)
                return True
        if key is None:
            return False
        table.setdefault(family, {}).setdefault(key, []).append(value)
        return True

    def histogram(self, family: str) -> Histogram | None:
        """The engines' histograms as one; None, and a line counted as unreadable, if they do not make sense."""
        buckets = self.buckets.get(family)
        if buckets is None:
            return None
        rows = sorted((_bound(le), len(values), sum(values)) for le, values in buckets.items())
        counts = tuple(count for _, _, count in rows)
        same_bounds = len({engines for _, engines, _ in rows}) == 1
        rising = all(low <= high for low, high in pairwise((0.0, *counts)))
        if not same_bounds or not rising or rows[-1][0] != inf or any(isnan(bound) for bound, _, _ in rows):
            self.unreadable += 1
            return None
        bounds = tuple(bound for bound, _, _ in rows)
        return Histogram(bounds, counts, self.sums.get(family), counts[-1])


def parse(text: str) -> Sample:
    """Read a scrape. Never raises: what cannot be read is missing, and its lines are counted.

    A last line without its line end is not read: it may have been cut within the number.
    """
    lines = _Lines()
    whole, _, cut = text[:MAX_CHARS].rpartition("\n")
    for line in whole.split("\n"):
        if line.startswith("#") or not line:
            continue
        name = _NAME.match(line)
        if name is None:
            lines.unreadable += 1
            continue
        part = _PARTS.get(name[0])
        if part is not None and not lines.read(part[0], part[1], line, name.end()):
            lines.unreadable += 1
    if cut:
        lines.unreadable += 1
    return _sample(lines)


def cache_config(text: str) -> Mapping[str, str] | None:
    """The labels of vLLM's cache configuration, of the first engine; None where the page does not have them."""
    lines = _Lines()
    for line in text[:MAX_CHARS].split("\n"):
        if line.startswith(f"{_CONFIG}{{"):
            lines.read("config", _CONFIG, line, len(_CONFIG))
    return lines.configs[0] if lines.configs else None


def _sample(lines: _Lines) -> Sample:
    for old, today in _ALIASES.items():
        _prefer(lines.numbers, today, old)
        _prefer(lines.split, today, old)
        _prefer(lines.buckets, today, old)
        _prefer(lines.sums, today, old)
    number, histogram, configs = lines.numbers.get, lines.histogram, lines.configs
    usage = [value for values in lines.split.get("vllm:kv_cache_usage_perc", {}).values() for value in values]
    ttft, inter_token = histogram("vllm:time_to_first_token_seconds"), histogram("vllm:inter_token_latency_seconds")
    return Sample(
        running=number("vllm:num_requests_running"),
        waiting=number("vllm:num_requests_waiting"),
        kv_usage=sum(usage) / len(usage) if usage else None,
        kv_capacity_tokens=_total([_capacity(labels) for labels in configs]),
        kv_growth_tokens=_total([_growth(labels)[0] for labels in configs]),
        kv_block_tokens=_label(configs[0], "block_size") if configs else None,
        kv_state_tokens=_growth(configs[0])[1] if configs else None,
        prompt_tokens=number("vllm:prompt_tokens_total"),
        prompt_tokens_cached=number("vllm:prompt_tokens_cached_total"),
        generation_tokens=number("vllm:generation_tokens_total"),
        prefix_queries=number("vllm:prefix_cache_queries_total"),
        prefix_hits=number("vllm:prefix_cache_hits_total"),
        preemptions=number("vllm:num_preemptions_total"),
        finished=_by_label(lines, "vllm:request_success_total"),
        drafts=number("vllm:spec_decode_num_drafts_total"),
        draft_tokens=number("vllm:spec_decode_num_draft_tokens_total"),
        accepted_tokens=number("vllm:spec_decode_num_accepted_tokens_total"),
        accepted_per_position=_positions(lines),
        corrupted_requests=number("vllm:corrupted_requests_total"),
        ttft=ttft,
        inter_token=inter_token,
        e2e=histogram("vllm:e2e_request_latency_seconds"),
        queue=histogram("vllm:request_queue_time_seconds"),
        prefill_time=histogram("vllm:request_prefill_time_seconds"),
        prefill_computed=histogram("vllm:request_prefill_kv_computed_tokens"),
        iteration_tokens=histogram("vllm:iteration_tokens_total"),
        process_start_time=number(_START),
        model_name=lines.model_name,
        engines=len(usage),
        unreadable_lines=lines.unreadable,
    )


def _prefer(table: dict[str, T], today: str, old: str) -> None:
    """Let the old name speak where today's is silent."""
    if today not in table and old in table:
        table[today] = table[old]


def _bound(le: str) -> float:
    """The bound of a bucket; NaN, which makes its histogram invalid, if it is none."""
    try:
        return float(le)
    except ValueError:
        return nan


def _by_label(lines: _Lines, family: str) -> Mapping[str, float] | None:
    table = lines.split.get(family)
    return None if table is None else {key: sum(values) for key, values in table.items()}


def _positions(lines: _Lines) -> tuple[float, ...] | None:
    """Accepted tokens by draft position, from the first on without a gap."""
    table = _by_label(lines, "vllm:spec_decode_num_accepted_tokens_per_pos_total")
    if table is None:
        return None
    counts = [table.get(str(position)) for position in range(MAX_POSITIONS)]
    return tuple(count for count in takewhile(lambda count: count is not None, counts) if count is not None)


def _label(labels: Mapping[str, str], name: str) -> float | None:
    """A positive number of sane size out of a label; vLLM writes `None` for what it does not know."""
    try:
        value = float(labels[name])
    except (KeyError, ValueError):
        return None
    return value if 1 / _LARGEST < value < _LARGEST else None


def _total(parts: Iterable[float | None]) -> float | None:
    """The sum over engines; None if there is none, or one of them is unknown."""
    total = 0.0
    empty = True
    for part in parts:
        if part is None:
            return None
        total += part
        empty = False
    return None if empty else total


def _capacity(labels: Mapping[str, str]) -> float | None:
    """Tokens that one engine's pool holds: vLLM's own count, before 0.29 blocks times their size."""
    said = _label(labels, "kv_cache_size_tokens")
    blocks, size = _label(labels, "num_gpu_blocks"), _label(labels, "block_size")
    return said or (blocks * size if blocks and size else None)


def _growth(labels: Mapping[str, str]) -> tuple[float | None, float | None]:
    """Tokens that one engine's pool takes by growth alone, and what a request holds beside them, in the same measure.

    The first is what a usage of 1 stands for when a usage *rises*; the second may hold a block that is not used.

    vLLM's `kv_cache_size_tokens` is the number of requests of full context that fit, times that context. A hybrid
    model's request also holds blocks of recurrent state, a fixed number however long it is. They count in that
    capacity, but not in growth: Qwen3.5-9B needs 63 blocks of 528 tokens for 32,768 tokens and 3 for its state, so that
    the capacity is 6 % less than what growth gives. The blocks that a full request needs, over those that its tokens
    need in one group of layers, is the number of groups that grow, with the state as the remainder. With few blocks
    the two cannot be told apart, and the capacity (too low, never too high) is the answer.
    """
    capacity, requests = _capacity(labels), _label(labels, "kv_cache_max_concurrency")
    blocks, size = _label(labels, "num_gpu_blocks"), _label(labels, "block_size")
    if not (capacity and requests and blocks and size):
        return capacity, None
    per_group = ceil(capacity / requests / size)
    per_request = round(blocks / requests)
    groups = per_request // per_group
    if not groups or per_group < _BLOCKS_TO_TELL:
        return capacity, None
    return blocks * size / groups, (per_request - groups * per_group) * size / groups
