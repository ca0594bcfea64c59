"""Is the backend alive? Progress is any sign that moves; `/health` answers 200 while the engine hangs."""

from arcops.core.world import Activity

CPU_NOTICEABLE = 0.5
"""Processor seconds since the last progress that count while a model loads (compiling, loading weights)."""
CPU_SHARE = 0.05
"""Share of one core, averaged since the last progress, that they must come to: waiting costs a little too."""


def starting_progress(old: Activity | None, new: Activity, seconds: float) -> bool:
    """Progress of a start, `seconds` after the last: the log grows, or the processes work.

    Graph capture and compilation are long and silent in the log, so processor time counts; but a start that hangs in
    the driver goes on polling, and must not live on the crumbs.
    """
    if old is None or new.log_bytes != old.log_bytes or new.cpu_seconds < old.cpu_seconds:
        return True
    return new.cpu_seconds - old.cpu_seconds >= max(CPU_NOTICEABLE, CPU_SHARE * seconds)


def serving_progress(old: Activity | None, new: Activity) -> bool:
    """Progress of work in flight: any counter, or the KV gauge.

    During a long chunked prefill every counter of vLLM stands still and only the KV gauge climbs. Processor time and
    log lines do not count here: a hung engine may spin, and an API server goes on logging.
    """
    return old is None or new.counters != old.counters or new.kv_usage != old.kv_usage
