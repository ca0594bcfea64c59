"""`/metrics`: what arcops itself knows, as `arcops_*`. vLLM's own names are not exported again: scrape vLLM."""

from prometheus_client import CollectorRegistry, Gauge, Info, generate_latest

from arcops import wire
from arcops.core.phase import Phase
from arcops.daemon.card_exposition import CardCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(status: wire.Status, turns: int, cards: wire.Cards | None = None) -> bytes:
    """The Prometheus text of one moment. A value that is unknown has no sample."""
    registry = CollectorRegistry()
    if cards is not None:
        registry.register(CardCollector(cards))
    Info("arcops", "The supervisor.", registry=registry).info(
        {"version": status.daemon.version, "instance": status.instance}
    )
    phase = Gauge("arcops_phase", "1 for the phase that the backend is in.", ["phase"], registry=registry)
    for one in Phase:
        phase.labels(one.value).set(one.value == status.phase)
    numbers = {
        "arcops_phase_code": ("Number of the phase (docs/architecture.md).", float(status.phase_code)),
        "arcops_phase_seconds": ("Time in this phase.", status.at - status.since),
        "arcops_order_id": ("The order in force.", float(status.order.id)),
        "arcops_order_committed": ("0 while an order is under way.", float(status.order.committed)),
        "arcops_loop_turns": ("Turns of the supervisor's loop since it started.", float(turns)),
        "arcops_daemon_start_time_seconds": ("When the supervisor started.", status.daemon.started_at),
        "arcops_scrape_age_seconds": ("Age of the newest numbers of the backend.", _scrape_age(status)),
        "arcops_locks_held": ("Locks held by the supervisor or its backend.", float(len(status.locks))),
        "arcops_backend_processes": ("Processes of the backend.", _of_backend(status, "processes")),
        "arcops_backend_spawn_time_seconds": ("When the backend was spawned.", _of_backend(status, "spawned_at")),
        "arcops_lingering": ("1 if user services survive a logout.", _flag(status.lingering)),
        "arcops_environment_qualified": (
            "1 if the backend's profile has qualified in the environment that it runs in.",
            None if status.environment is None else _flag(status.environment.qualified),
        ),
        "arcops_trouble": ("Things that the supervisor cannot do right now.", float(len(status.trouble))),
    }
    for name, (words, value) in numbers.items():
        if value is not None:
            Gauge(name, words, registry=registry).set(value)
    if status.order.profile is not None:
        Info("arcops_order", "What is ordered.", registry=registry).info({"profile": status.order.profile})
    if status.environment is not None and status.environment.digest is not None:
        Info("arcops_environment", "What the backend's runtime really is.", registry=registry).info(
            {"digest": status.environment.digest, "launch_id": status.environment.launch_id}
        )
    return generate_latest(registry)


def _scrape_age(status: wire.Status) -> float | None:
    """None without a backend, and before its first scrape: a predecessor's numbers grow old, and nothing is wrong."""
    live = status.backend is not None and status.rates.launch_id == status.backend.launch_id
    return status.rates_age if live else None


def _of_backend(status: wire.Status, name: str) -> float | None:
    if status.backend is None:
        return None
    value: float | None = getattr(status.backend, name)
    return None if value is None else float(value)


def _flag(value: bool | None) -> float | None:
    return None if value is None else float(value)
