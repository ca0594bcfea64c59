"""What a server's /metrics says of a measurement. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from arcops.core.evidence.run import Counters
from arcops.core.metrics import Sample, cache_config, parse

_GAUGES: Final = (b"\nvllm:num_requests_running", b"\nvllm:num_requests_waiting", b"\nvllm:kv_cache_usage_perc")


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What a page says of the server itself; None where it does not say."""

    cache: Mapping[str, str] | None
    speculates: bool | None


def facts_of_page(page: bytes) -> PageFacts:
    """Whether it speculates is known only of a page that is vLLM's: one that counts requests."""
    text = page.decode("utf-8", "replace")
    sample = parse(text)
    return PageFacts(cache_config(text), None if sample.running is None else sample.drafts is not None)


def counters_of(page: bytes, at: float) -> Counters:
    """`at` in seconds since the run began."""
    sample = parse(page.decode("utf-8", "replace"))
    if sample == Sample(unreadable_lines=sample.unreadable_lines):
        return Counters(at=at, unread="/metrics has none of vLLM's numbers")
    return Counters(
        at=at,
        server_started=sample.process_start_time,
        running=sample.running,
        waiting=sample.waiting,
        kv_usage=sample.kv_usage,
        prompt_tokens=sample.prompt_tokens,
        cached_tokens=sample.prompt_tokens_cached,
        generation_tokens=sample.generation_tokens,
        prefix_queries=sample.prefix_queries,
        prefix_hits=sample.prefix_hits,
        preemptions=sample.preemptions,
        drafts=sample.drafts,
        draft_tokens=sample.draft_tokens,
        accepted_tokens=sample.accepted_tokens,
        corrupted=sample.corrupted_requests,
        finished=sample.finished,
    )


def gauges_of(page: bytes) -> Sample:
    """Only `running`, `waiting` and `kv_usage`: the whole page takes milliseconds, and all arrivals
    meanwhile would be late by them."""
    return parse(b"".join(_lines(page)).decode("utf-8", "replace"))


def _lines(page: bytes) -> Iterator[bytes]:
    for name in _GAUGES:
        at = page.find(name)
        while at >= 0:
            end = page.find(b"\n", at + 1)
            if end < 0:
                return
            yield page[at + 1 : end + 1]
            at = page.find(name, end)
