"""The lines about throughput that vLLM logs every ten seconds while there is work."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

from fake_vllm_lib.engine import Engine
from fake_vllm_lib.log import Log
from fake_vllm_lib.settings import Settings


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters at one time."""

    at: float
    prompt: float
    generated: float
    drafts: float
    drafted: float
    accepted: float


class Reports:
    """A thread that says what the engine did; silent when it did nothing twice in a row."""

    def __init__(self, engine: Engine, log: Log, settings: Callable[[], Settings]) -> None:
        self._engine = engine
        self._log = log
        self._settings = settings

    def start(self) -> None:
        Thread(target=self._run, daemon=True).start()

    def _counts(self) -> Counts:
        counters = self._engine.metrics.counters
        return Counts(
            time.monotonic(),
            counters["prompt_tokens"],
            counters["generation_tokens"],
            counters["spec_decode_num_drafts"],
            counters["spec_decode_num_draft_tokens"],
            counters["spec_decode_num_accepted_tokens"],
        )

    def _run(self) -> None:
        before, busy = self._counts(), False
        while True:
            time.sleep(max(0.05, self._settings().stats_every))
            now = self._counts()
            moved = now.generated > before.generated or not self._engine.idle
            if moved or busy:
                self._say(before, now)
            before, busy = now, moved

    def _say(self, before: Counts, now: Counts) -> None:
        metrics = self._engine.metrics
        seconds = now.at - before.at
        asked = metrics.counters["prefix_cache_queries"]
        hits = 100 * metrics.counters["prefix_cache_hits"] / asked if asked else 0.0
        self._log.line(
            "loggers.py:310",
            f"Engine 000: Avg prompt throughput: {(now.prompt - before.prompt) / seconds:.1f} tokens/s, Avg "
            f"generation throughput: {(now.generated - before.generated) / seconds:.1f} tokens/s, Running: "
            f"{metrics.running} reqs, Waiting: {metrics.waiting} reqs, GPU KV cache usage: "
            f"{100 * metrics.kv_usage:.1f}%, Prefix cache hit rate: {hits:.1f}%",
        )
        drafts, accepted = now.drafts - before.drafts, now.accepted - before.accepted
        if drafts:
            self._log.line(
                "metrics.py:120",
                f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, Accepted throughput: "
                f"{accepted / seconds:.2f} tokens/s, Drafted throughput: "
                f"{(now.drafted - before.drafted) / seconds:.2f} tokens/s, Accepted: {accepted:.0f} tokens, Drafted: "
                f"{now.drafted - before.drafted:.0f} tokens",
            )
