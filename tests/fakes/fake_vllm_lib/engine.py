"""The engine: a scheduler that batches requests in real time, as far as it shows from the outside.

Requests queue for `max_num_seqs` places; a step gives every decoding request one token (more with speculation) and
what is left of `max_num_batched_tokens` to prefill. While a long prompt is prefilled in chunks only the KV gauge
moves: token counters and histograms wait for the first output, as in vLLM 0.29.
"""

import os
import time
from collections.abc import Callable
from threading import Condition, Thread

from fake_vllm_lib.flags import Flags
from fake_vllm_lib.metrics import Metrics
from fake_vllm_lib.process import lost_in_handler, state_of
from fake_vllm_lib.sequence import Output, Request
from fake_vllm_lib.settings import Settings
from fake_vllm_lib.text import END, Tokenizer

CACHE_DEFAULTS = dict.fromkeys(
    (
        "kv_cache_layout",
        "kv_offloading_size",
        "mamba_block_size",
        "mamba_page_size_padded",
        "num_cpu_blocks",
        "num_gpu_blocks_override",
        "prefix_match_unit",
        "skip_page_size_padded",
        "sliding_window",
    ),
    "None",
) | {
    "_block_size_resolved": "True",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_cache_memory_bytes": "1073741824",
    "kv_offloading_backend": "native",
    "kv_sharing_fast_prefill": "False",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_ssm_cache_dtype": "float32",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "replayssm_buffer_len": "16",
    "use_kda_recoverssm": "False",
    "use_replayssm": "False",
    "user_specified_block_size": "False",
    "user_specified_mamba_block_size": "False",
}
"""Labels of cache_config_info on which nothing here depends."""


class Dice:
    """Reproducible numbers in [0, 1): a linear congruential generator (constants of Numerical Recipes)."""

    def __init__(self) -> None:
        self._state = 1

    def roll(self) -> float:
        self._state = (1664525 * self._state + 1013904223) % 2**32
        return self._state / 2**32


class Engine:
    """The scheduler, in a thread of its own; `pid` is the process that stands for EngineCore."""

    def __init__(self, flags: Flags, model: str, tokenizer: Tokenizer, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._tokenizer = tokenizer
        self._speculation = flags.speculation
        self._seqs = max(1, flags.integer("max-num-seqs", 256))
        self._batched = max(1, flags.integer("max-num-batched-tokens", 2048))
        self.block = max(1, flags.integer("block-size", 16))
        self.blocks = max(1, settings().kv_tokens // self.block)
        self._caching = flags.prefix_caching
        self._known: set[int] = set()
        self._dice = Dice()
        self.pid = 0
        self.lock = Condition()
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self._dead = False
        self._submitted = 0
        self._since = time.monotonic()
        self.metrics = Metrics(model, 0 if self._speculation is None else self._speculation.deepest)
        self.metrics.cache = self._cache_info(flags)

    def start(self, pid: int) -> None:
        self.pid = pid
        Thread(target=self._run, daemon=True).start()

    def recount(self) -> None:
        """The settings were changed: the next request is the first one, and slowing down begins now."""
        with self.lock:
            self._submitted = 0
            self._since = time.monotonic()

    def forget(self) -> None:
        """Nothing was ever counted: what is seen of a server that was started anew."""
        with self.lock:
            old = self.metrics
            self.metrics = Metrics(old.model, len(old.accepted_at))
            self.metrics.cache = old.cache
            self._gauges()

    def submit(self, request: Request) -> None:
        with self.lock:
            self._submitted += 1
            request.number = self._submitted
            self.waiting.append(request)
            self.lock.notify_all()

    def end(self, request: Request, reason: str) -> None:
        """Take a request out: `stop` for a stop word, `abort` for a client that went away."""
        with self.lock:
            if reason == "abort" and self._settings().keep_slots:
                request.go_on()
            else:
                self._leave(request, reason)

    def end_all(self, reason: str) -> None:
        with self.lock:
            for request in [*self.running, *self.waiting]:
                self._leave(request, reason)

    def die(self) -> None:
        """EngineCore is gone: nothing moves any more, and what is open ends in an error."""
        self._dead = True
        self.end_all("error")

    @property
    def dead(self) -> bool:
        return self._dead

    @property
    def idle(self) -> bool:
        with self.lock:
            return not self.running and not self.waiting

    @property
    def frozen(self) -> bool:
        """Hanging, because it was told to or EngineCore was stopped by a signal or hangs in its handler of one."""
        settings = self._settings()
        shut = bool(settings.answer_gate) and os.path.exists(settings.answer_gate)
        return settings.hang or shut or state_of(self.pid) in ("T", "t", "Z", "") or lost_in_handler(self.pid)

    def _run(self) -> None:
        while not self._dead:
            with self.lock:
                while not self.running and not self.waiting:
                    self.lock.wait()
            if self.frozen:
                time.sleep(0.02)
                continue
            with self.lock:
                self._admit()
                prefill, decode = self._plan()
                self._gauges()
            time.sleep(self._duration(sum(tokens for _, tokens in prefill)))
            if not self.frozen and not self._dead:
                with self.lock:
                    self._apply(prefill, decode)

    def _duration(self, prefilled: int) -> float:
        settings = self._settings()
        minutes = (time.monotonic() - self._since) / 60
        slower = 1.0 + settings.slow_down * minutes
        return slower * max(1.0 / settings.decode_speed, prefilled / settings.prefill_speed)

    def _admit(self) -> None:
        """Move waiting requests into free places, as long as the first chunk has room in the cache."""
        while self.waiting and len(self.running) < self._seqs:
            request = self.waiting[0]
            need = -(-min(len(request.prompt) + 1, self._batched) // self.block)
            if self.running and need > self._free():
                return
            self.waiting.pop(0)
            self.running.append(request)
            if not request.scheduled:
                request.scheduled = time.monotonic()
            if self._caching and not request.produced:
                self._look_up(request)

    def _look_up(self, request: Request) -> None:
        """Begin after the longest known prefix of whole blocks, but compute at least one token."""
        key, known = hash(request.cache_salt), 0
        for start in range(0, len(request.prompt) - self.block, self.block):
            key = hash((key, *request.prompt[start : start + self.block]))
            if key not in self._known and not self._settings().pretend_cached:
                break
            known = start + self.block
        request.cached = request.computed = known
        self.metrics.counters["prefix_cache_queries"] += len(request.prompt)
        self.metrics.counters["prefix_cache_hits"] += known

    def _remember(self, request: Request) -> None:
        key = hash(request.cache_salt)
        for start in range(0, len(request.prompt) - self.block + 1, self.block):
            key = hash((key, *request.prompt[start : start + self.block]))
            self._known.add(key)

    def _free(self) -> int:
        return self.blocks - sum(request.blocks for request in self.running)

    def _plan(self) -> tuple[list[tuple[Request, int]], list[Request]]:
        """Who is prefilled by how many tokens, and who decodes, in the step that comes."""
        decode = [request for request in self.running if request.decoding]
        budget = max(1, self._batched - len(decode))
        prefill: list[tuple[Request, int]] = []
        for request in self.running:
            if request.prefilling and budget:
                tokens = min(budget, request.to_prefill)
                budget -= tokens
                prefill.append((request, tokens))
        growth = [(request, tokens) for request, tokens in prefill] + [(request, 1) for request in decode]
        for request, tokens in growth:
            if request in self.running:
                self._allocate(request, request.computed + tokens + 1)
        return (
            [(request, tokens) for request, tokens in prefill if request in self.running],
            [request for request in decode if request in self.running],
        )

    def _allocate(self, request: Request, tokens: int) -> None:
        """Give `request` blocks for `tokens`; where there are none the youngest other request is preempted."""
        need = -(-tokens // self.block)
        while need - request.blocks > self._free() and self.running[-1] is not request:
            victim = self.running.pop()
            victim.blocks = victim.computed = 0
            self.waiting.insert(0, victim)
            self.metrics.counters["num_preemptions"] += 1
        request.blocks = max(request.blocks, min(need, request.blocks + self._free()))

    def _apply(self, prefill: list[tuple[Request, int]], decode: list[Request]) -> None:
        """What the step brought: outputs first counted when there are some."""
        now = time.monotonic()
        prompts = generated = 0
        for request, tokens in prefill:
            if request not in self.running:
                continue
            request.computed += tokens
            if request.to_prefill == 0 and not request.produced:
                prompts += len(request.prompt)
                generated += self._first(request, now)
        depth = 0 if self._speculation is None else self._speculation.depth(len(decode))
        for request in decode:
            if request in self.running:
                generated += self._further(request, now, depth)
        if prompts or generated:
            self.metrics.histograms["iteration_tokens_total"].observe(prompts + generated)
        self._gauges()

    def _first(self, request: Request, now: float) -> int:
        metrics = self.metrics
        metrics.counters["prompt_tokens"] += len(request.prompt)
        metrics.counters["prompt_tokens_cached"] += request.cached
        metrics.sources["local_compute"] += len(request.prompt) - request.cached
        metrics.sources["local_cache_hit"] += request.cached
        metrics.histograms["time_to_first_token_seconds"].observe(now - request.arrived)
        request.first_token = now
        if self._caching:
            self._remember(request)
        return self._give(request, now, 1)

    def _further(self, request: Request, now: float, depth: int) -> int:
        accepted = 0
        if depth:
            chance = self._settings().acceptance
            while accepted < depth and self._dice.roll() < chance:
                self.metrics.accepted_at[accepted] += 1
                accepted += 1
            self.metrics.counters["spec_decode_num_drafts"] += 1
            self.metrics.counters["spec_decode_num_draft_tokens"] += depth
            self.metrics.counters["spec_decode_num_accepted_tokens"] += accepted
        self.metrics.histograms["inter_token_latency_seconds"].observe(now - request.last_token)
        return self._give(request, now, 1 + accepted)

    def _give(self, request: Request, now: float, tokens: int) -> int:
        """Hand out up to `tokens` new ones and end the request if they were the last; return how many there were."""
        fresh: list[int] = []
        while len(fresh) < min(tokens, request.max_tokens - request.produced) and END not in fresh:
            fresh.append(request.next(self._tokenizer, self._settings(), len(self.running)))
        tokens = len(fresh)
        request.computed = len(request.prompt) + request.produced + tokens - 1
        request.produced += tokens
        request.last_token = now
        self.metrics.counters["generation_tokens"] += tokens
        if END in fresh:
            self._leave(request, "stop", fresh)
        elif request.produced >= request.max_tokens:
            self._leave(request, "length", fresh)
        else:
            request.outputs.put(Output(fresh, None))
        return tokens

    def _leave(self, request: Request, reason: str, fresh: list[int] | None = None) -> None:
        if request in self.running:
            self.running.remove(request)
        elif request in self.waiting:
            self.waiting.remove(request)
        else:
            return
        request.blocks = 0
        if not self.frozen:
            self._count_end(request, reason)
            self._gauges()
        request.outputs.put(Output(fresh or [], reason))

    def _count_end(self, request: Request, reason: str) -> None:
        now = time.monotonic()
        self.metrics.finished[reason] += 1
        scheduled = request.scheduled or now
        first = request.first_token or now
        times = {
            "e2e_request_latency_seconds": now - request.arrived,
            "request_queue_time_seconds": scheduled - request.arrived,
            "request_inference_time_seconds": now - scheduled,
            "request_prefill_time_seconds": first - scheduled,
            "request_decode_time_seconds": now - first,
            "request_prompt_tokens": len(request.prompt),
            "request_generation_tokens": request.produced,
            "request_max_num_generation_tokens": request.produced,
            "request_params_n": 1,
            "request_params_max_tokens": request.max_tokens,
            "request_prefill_kv_computed_tokens": len(request.prompt) - request.cached,
        }
        if request.produced > 1:
            times["request_time_per_output_token_seconds"] = (now - first) / (request.produced - 1)
        for name, value in times.items():
            self.metrics.histograms[name].observe(value)

    def _gauges(self) -> None:
        self.metrics.running = len(self.running)
        self.metrics.waiting = len(self.waiting)
        self.metrics.kv_usage = sum(request.blocks for request in self.running) / self.blocks

    def _cache_info(self, flags: Flags) -> dict[str, str]:
        size = self.blocks * self.block
        longest = flags.max_model_len or size
        return CACHE_DEFAULTS | {
            "block_size": str(self.block),
            "cache_dtype": flags.values.get("kv-cache-dtype", "auto"),
            "enable_prefix_caching": str(self._caching),
            "gpu_memory_utilization": flags.values.get("gpu-memory-utilization", "0.92"),
            "kv_cache_max_concurrency": str(round(size / longest, 2)),
            "kv_cache_size_tokens": str(size),
            "num_gpu_blocks": str(self.blocks),
        }
