"""Is the backend alive? Progress is any sign that moves; `/health` answers 200 while the engine hangs."""

from arcops.core.world import Activity

CPU_NOTICEABLE = 0.5
"""Processor seconds between two looks at progress that count while a model loads (compiling, loading weights)."""


def starting_progress(old: Activity | None, new: Activity) -> bool:
    """Progress of a start: the log grows, or the processes work. Graph capture and compilation are long and silent."""
    return (
        old is None
        or new.log_bytes != old.log_bytes
        or new.cpu_seconds - old.cpu_seconds >= CPU_NOTICEABLE
        or new.cpu_seconds < old.cpu_seconds
    )


def serving_progress(old: Activity | None, new: Activity) -> bool:
    """Progress of work in flight: any counter, or the KV gauge.

    During a long chunked prefill every counter of vLLM stands still and only the KV gauge climbs. Processor time and
    log lines do not count here: a hung engine may spin, and an API server goes on logging.
    """
    return old is None or new.counters != old.counters or new.kv_usage != old.kv_usage
