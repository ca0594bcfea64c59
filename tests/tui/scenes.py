"""Statuses as the daemon would send them, one for each kind of moment; times are fixed."""

from collections.abc import Callable
from dataclasses import replace
from math import sin

import msgspec

from arcops import wire
from arcops.core.phase import Phase
from arcops.core.rates import Prefilling, Quantile, Quantiles, Rates, Speculation

NOW = 1_800_000_000.0
"""Seconds since the epoch: the daemon's clock in every scene."""
MONOTONIC = 50_000.0
LAUNCH = "20270115-080000-1"

DAEMON = wire.DaemonInfo(pid=1201, version="0.1.0", started_at=NOW - 90_000)


def backend(**changes: object) -> wire.BackendInfo:
    made = wire.BackendInfo(
        launch_id=LAUNCH,
        profile="dflash2",
        served_name="demo",
        url="http://127.0.0.1:8000",
        pid=4242,
        processes=3,
        spawned_at=NOW - 8_010,
        ready_at=NOW - 7_980,
        enclosure="scope arcops-main.scope",
        log_path="/var/lib/arcops/log",
        speculates=False,
        adopted=False,
        max_running=16,
    )
    return msgspec.structs.replace(made, **changes)


def status(phase: Phase = Phase.SERVING, **changes: object) -> wire.Status:
    made = wire.Status(
        instance="main",
        at=NOW,
        daemon=DAEMON,
        phase=phase.value,
        phase_code=phase.code,
        since=NOW - 7_980,
        reason="serving demo",
        order=wire.OrderInfo(id=7, goal="run", profile="dflash2", committed=True),
        backend=backend(),
        start=None,
        locks=(),
        failure=None,
        retry_at=None,
        settled=(),
        rates=Rates(absent="nothing was scraped yet"),
        rates_age=None,
        window=60.0,
        lingering=True,
    )
    return msgspec.structs.replace(made, **changes)


def quantiles(*bounds: tuple[float, float | None], mean: float | None) -> Quantiles:
    p50, p90, p99 = (Quantile(low, high, low if high is None else (low + high) / 2) for low, high in bounds)
    return Quantiles(p50, p90, p99, mean, 72.0)


def busy_rates(**changes: object) -> Rates:
    made = Rates(
        at=MONOTONIC,
        launch_id=LAUNCH,
        seconds=60.0,
        running=3,
        waiting=12,
        kv_usage=0.624,
        kv_capacity=321_024.0,
        prefill=1234.4,
        prefill_speed=4321.0,
        decode=412.3,
        requests=1.2,
        finished={"stop": 70.0, "length": 2.0, "abort": 0.0},
        preemptions=1,
        prefix_hit_rate=0.431,
        ttft=quantiles((0.25, 0.5), (0.5, 0.75), (2560.0, None), mean=0.31),
        inter_token=quantiles((0.0, 0.01), (0.01, 0.025), (0.075, 0.1), mean=0.0123),
        queue=quantiles((0.0, 0.3), (5.0, 7.5), (640.0, 2560.0), mean=1.25),
        e2e=quantiles((2.5, 5.0), (15.0, 20.0), (1920.0, 7680.0), mean=8.4),
    )
    return replace(made, **changes)


def stopped() -> wire.Status:
    order = wire.OrderInfo(id=8, goal="stop", profile=None, committed=True)
    return status(Phase.STOPPED, since=NOW - 185, reason="stopped as ordered", order=order, backend=None)


def starting() -> wire.Status:
    start = wire.StartInfo(
        stage="weights",
        fraction=0.62,
        detail="Loading safetensors checkpoint shards: 62% Completed",
        elapsed=12.4,
        usual=31.0,
    )
    order = wire.OrderInfo(id=9, goal="run", profile="dflash2", committed=False, previous="target-only")
    fresh = backend(spawned_at=NOW - 12.4, ready_at=None)
    return status(Phase.STARTING, since=NOW - 12.4, reason="launching dflash2", order=order, backend=fresh, start=start)


def prefilling() -> wire.Status:
    rates = busy_rates(
        running=1,
        waiting=0,
        kv_usage=0.118,
        prefill=0.0,
        decode=0.0,
        requests=0.0,
        finished={"stop": 0.0},
        preemptions=0,
        prefix_hit_rate=None,
        prefill_speed=None,
        ttft=None,
        inter_token=None,
        queue=None,
        e2e=None,
        prefilling=Prefilling(since=MONOTONIC - 12.0, rate=2345.6, tokens_done=28_160.0, kv_slope=0.009),
    )
    return status(rates=rates, rates_age=0.4)


def busy() -> wire.Status:
    return status(rates=busy_rates(), rates_age=0.4)


def speculating() -> wire.Status:
    found = Speculation(drafts=12_345, acceptance=0.712, tokens_per_step=3.14, per_position=(0.91, 0.71, 0.52))
    return status(backend=backend(speculates=True), rates=busy_rates(speculation=found), rates_age=0.4)


def suspect() -> wire.Status:
    return status(
        Phase.SUSPECT,
        since=NOW - 8.2,
        reason="3 requests in flight and no progress for 61 s; asking the server for one token",
        rates=busy_rates(decode=0.0, prefill=0.0, kv_usage=0.953),
        rates_age=0.4,
        trouble=("the event history cannot be written: no space left on device",),
    )


def failed() -> wire.Status:
    failure = wire.FailureInfo(
        cause="kv_cache_too_small",
        summary="the KV cache is too small for a context of 262,144 tokens",
        hint="set scheduling.max_model_len to 8064 or less, or give the cache more memory; "
        "`arcops switch target-only` runs without the draft",
        evidence="(EngineCore pid=4311) ERROR ValueError: To serve at least one request with the model's max seq len "
        "(262144), (6.50 GiB KV cache is needed, which is larger than the available KV cache memory (0.20 GiB).",
    )
    return status(Phase.FAILED, since=NOW - 42, reason="trying again would not help", backend=None, failure=failure)


def blocked() -> wire.Status:
    reason = "pid 5150 (python3 train.py --lr 3e-4) of user anna holds 21,504 MiB of 0000:03:00.0"
    order = wire.OrderInfo(id=9, goal="run", profile="dflash2", committed=False)
    return status(Phase.BLOCKED, since=NOW - 3_700, reason=reason, order=order, backend=None)


def wedged() -> wire.Status:
    failure = wire.FailureInfo(
        cause="gpu_wedged",
        summary="the card 0000:03:00.0 does not answer any more: xe says GT0 reset failed",
        hint="rebind the driver or reboot, then `arcops restart`; docs/operating.md says how",
        evidence="xe 0000:03:00.0: [drm] *ERROR* GT0: reset failed (-ETIMEDOUT)",
    )
    reason = "the card 0000:03:00.0 needs a rebind or a reboot"
    return status(Phase.WEDGED, since=NOW - 7_300, reason=reason, backend=None, failure=failure)


def draining() -> wire.Status:
    order = wire.OrderInfo(id=9, goal="run", profile="target-only", committed=False, previous="dflash2")
    reason = "order 9 runs target-only in its place; 3 open requests have 48 s left"
    return status(
        Phase.DRAINING, since=NOW - 12, reason=reason, order=order, rates=busy_rates(waiting=0), rates_age=0.4
    )


def clearing() -> wire.Status:
    order = wire.OrderInfo(id=9, goal="run", profile="target-only", committed=False, previous="dflash2")
    reason = "every process is gone; waiting for 0000:03:00.0 to give back 21,504 MiB"
    return status(Phase.CLEARING, since=NOW - 3, reason=reason, order=order, backend=backend(processes=0))


SCENES: dict[str, Callable[[], wire.Status]] = {
    "stopped": stopped,
    "starting": starting,
    "prefilling": prefilling,
    "busy": busy,
    "speculating": speculating,
    "suspect": suspect,
    "failed": failed,
    "blocked": blocked,
    "wedged": wedged,
    "draining": draining,
    "clearing": clearing,
}


def history(seconds: int, until: float = NOW) -> tuple[wire.HistoryPoint, ...]:
    """A past with a wave in it, a stretch without work, and one that nobody read."""
    return tuple(_point(until - ago, ago) for ago in reversed(range(seconds)))


def _point(at: float, ago: int) -> wire.HistoryPoint:
    if 20 <= ago < 26:
        return wire.HistoryPoint(at=at, running=None, waiting=None, kv_usage=None, prefill=None, decode=None)
    wave = 0.0 if 30 <= ago < 40 else 0.5 + 0.5 * sin(ago / 7.0)
    return wire.HistoryPoint(
        at=at, running=3.0, waiting=12.0, kv_usage=0.6, prefill=2400.0 * wave, decode=400.0 + 100.0 * wave
    )


def samples(seconds: int, until: float = NOW, *, step: int = 1, launch: str = LAUNCH) -> tuple[wire.SamplePoint, ...]:
    """The same past as the daemon's samples tell it, `seconds` steps of it; nothing of what nobody read."""
    return tuple(
        _sample(point, ago * step, float(step), launch)
        for ago, point in zip(
            reversed(range(seconds)), (_point(until - ago * step, ago) for ago in reversed(range(seconds))), strict=True
        )
        if point.decode is not None
    )


def _sample(point: wire.HistoryPoint, ago: int, seconds: float, launch: str) -> wire.SamplePoint:
    def spread(value: float | None) -> wire.Spread | None:
        return None if value is None else wire.Spread(mean=value, low=value, high=value)

    return wire.SamplePoint(
        at=point.at,
        seconds=seconds,
        launch_id=launch,
        profile="dflash2",
        phase="serving",
        running=spread(point.running),
        waiting=spread(point.waiting),
        kv_usage=spread(point.kv_usage),
        prefill=point.prefill,
        prefilling=None,
        decode=point.decode,
        requests=0.5 + 0.1 * (ago % 7),
        preemptions=0.0,
        acceptance=0.7,
        tokens_per_step=3.0 + 0.05 * (ago % 9),
        ttft=quantiles((0.25, 0.5), (0.5, 0.75), (2560.0, None), mean=0.31),
        inter_token=None,
        queue=None,
        card_memory=spread(27.0 * 1024**3 if ago % 90 else 28.0 * 1024**3),
        card_power=spread(90.0 if not point.decode else point.decode * 0.45),
    )


LOG = (
    "(APIServer pid=4242) INFO 01-15 08:00:01 [api_server.py:1346] vLLM API server version 0.29.0",
    (
        "(EngineCore pid=4311) INFO 01-15 08:00:09 [core.py:93] Initializing a V1 LLM engine (v0.29.0) with config: "
        "model='/models/qwen', dtype=torch.float16, max_seq_len=262144, tensor_parallel_size=1"
    ),
    "(EngineCore pid=4311) WARNING 01-15 08:00:10 [gpu.py:77] [red]not markup[/red] \x1b[31mnor a colour\x1b[0m",
    "Loading safetensors checkpoint shards:  50% Completed | 1/2\rLoading safetensors checkpoint shards: 100% | 2/2",
    "(EngineCore pid=4311) ERROR 01-15 08:00:12 [core.py:700] a bell \x07, a title \x1b]0;evil\x07 and \u202eback",
    '(APIServer pid=4242) INFO:     127.0.0.1:39244 - "POST /v1/completions HTTP/1.1" 200 OK',
)
