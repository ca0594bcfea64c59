"""What the standing of an environment means, in the words of the history, of a status, and of an order's refusal."""

from collections.abc import Iterator
from typing import Final

from arcops import wire, words
from arcops.core.errors import BlockedError
from arcops.evidence.standing.child import Changes, Standing

UNRECORDED: Final = "the environment could not be recorded"
_NAMED: Final = 3
"""Changes that a sentence names."""


def unknown(launch_id: str, why: str = "") -> wire.EnvironmentInfo:
    """Of a launch whose environment is not known (yet)."""
    return wire.EnvironmentInfo(launch_id=launch_id, digest=None, qualified=None, unread=(why,) if why else ())


def info_of(launch_id: str, standing: Standing) -> wire.EnvironmentInfo:
    """For a status."""
    since = standing.since_qualified
    return wire.EnvironmentInfo(
        launch_id=launch_id,
        digest=standing.digest,
        qualified=standing.qualified,
        qualified_in=standing.qualified_in,
        since_qualified=() if since is None else since.lines,
        changes=None if since is None else since.count,
        unread=(*standing.unread, *standing.problems),
    )


def news(profile: str, standing: Standing, before: tuple[str, str] | None) -> Iterator[str]:
    """What the history is told of a launch, once. `before`: id and digest of the profile's launch before it."""
    if standing.qualified is False and standing.qualified_in is not None:
        yield f"the environment is not that in which {profile} last qualified: {_told(standing.since_qualified)}"
    if before is not None and before[1] != standing.digest:
        changed = _told(standing.since_previous)
        yield f"the environment is not that of the launch of {profile} before ({before[0]}): {changed}"


def _told(changes: Changes | None) -> str:
    return words.changed(None, ()) if changes is None else words.changed(changes.count, changes.lines)


def admitted(profile: str, standing: Standing) -> tuple[str, ...]:
    """What an order that has to be qualified is told where it is. Raises BlockedError where it is not."""
    if standing.qualified:
        unread = f" (as far as it could be read: {'; '.join(standing.unread[:_NAMED])})" if standing.unread else ""
        return (f"{profile} has qualified in this environment ({words.digest(standing.digest)}){unread}",)
    hint = f"`arcops qualify {profile}` holds it to its gates"
    problems = "".join(f"; {problem}" for problem in standing.problems[:_NAMED])
    if standing.qualified is None:
        raise BlockedError(f"whether {profile} has qualified cannot be told{problems}", hint=hint)
    if standing.qualified_in is None:
        raise BlockedError(f"{profile} has never qualified, or has failed since{problems}", hint=hint)
    if standing.qualified_in == standing.digest:
        raise BlockedError(f"{profile} has failed in this environment since it qualified{problems}", hint=hint)
    changed = f"since it last did, {_told(standing.since_qualified)}"
    raise BlockedError(f"{profile} has not qualified in this environment: {changed}{problems}", hint=hint)
