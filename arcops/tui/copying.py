"""What of the screen is worth a place in the clipboard."""

from collections.abc import Iterator, Sequence

from arcops.tui.snapshot import Snapshot

Copyable = tuple[str, str]
"""A label and the value."""


def of_snapshot(snapshot: Snapshot) -> Sequence[Copyable]:
    """What the head of the screen speaks of, the most wanted first. Nothing that is unknown is among it."""
    return tuple((label, value) for label, value in _of_snapshot(snapshot) if value)


def _of_snapshot(snapshot: Snapshot) -> Iterator[Copyable]:
    status = snapshot.status
    if status is None:
        yield "problem", snapshot.problem
        yield "hint", snapshot.hint
        yield "socket", snapshot.socket
        return
    if status.failure is not None:
        yield "cause", f"{status.failure.cause}: {status.failure.summary}"
        yield "hint", status.failure.hint
        yield "evidence", status.failure.evidence
    backend = status.backend
    if backend is not None:
        yield "url", backend.url
        yield "served name", backend.served_name
        yield "pid", "" if backend.pid is None else str(backend.pid)
        yield "launch", backend.launch_id
        yield "log file", backend.log_path
    yield "reason", status.reason
    for trouble in status.trouble:
        yield "trouble", trouble
    yield "socket", snapshot.socket
