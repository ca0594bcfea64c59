"""What became of each profile, and what the backend that runs was started with: what no file says."""

from collections.abc import Mapping
from statistics import median

from arcops import wire
from arcops.core.launch import Launch, redact
from arcops.core.phase import Phase
from arcops.daemon.act import Actor
from arcops.daemon.aside import for_a_client
from arcops.daemon.journal import Journal, data_of
from arcops.machine.store import StoredEvent


class Pasts:
    """Reads; holds nothing but its sources."""

    def __init__(self, actor: Actor, journal: Journal) -> None:
        self._actor = actor
        self._journal = journal

    async def profiles(self) -> wire.Profiles:
        """On a thread: a disk that hangs holds up this reader alone. Raises StoreError."""
        live = self._actor.live
        running = None if live is None else _launch(live.record.launch_id, redact(live.record.launch))
        results, loads = await for_a_client(self._journal.pasts)
        return wire.Profiles(past=pasts(results, loads), running=running)


def pasts(results: tuple[StoredEvent, ...], loads: Mapping[str, tuple[float, ...]]) -> tuple[wire.ProfilePast, ...]:
    """By name: `results` holds the last event of each profile's start, `loads` the seconds of its last ones."""
    last = {event.profile: event for event in results if event.profile is not None}
    return tuple(
        wire.ProfilePast(
            name=name,
            usual=median(loads[name]) if name in loads else None,
            last=_result(last[name], loads.get(name, ())) if name in last else None,
        )
        for name in sorted({*last, *loads})
    )


def _result(event: StoredEvent, loads: tuple[float, ...]) -> wire.LastResult:
    ready = event.phase == Phase.SERVING.value
    return wire.LastResult(
        at=event.at,
        ready=ready,
        seconds=loads[0] if ready and loads else None,
        cause=None if ready else data_of(event).cause,
        summary=event.reason,
    )


def _launch(launch_id: str, launch: Launch) -> wire.LaunchInfo:
    return wire.LaunchInfo(
        launch_id=launch_id,
        profile=launch.profile,
        argv=launch.argv,
        environment=launch.environment,
        setup=launch.setup,
        locks=launch.locks,
    )
