"""That the daemon says nothing any more, for views that have streams of their own."""

from arcops import words
from arcops.tui.snapshot import Link, Snapshot


def silence_of(snapshot: Snapshot | None) -> str:
    """Why what is shown may not look live, in words; empty while the daemon speaks, or before it was asked."""
    if snapshot is None or not snapshot.stale or snapshot.link is Link.CONNECTING:
        return ""
    if snapshot.status is None:
        return "no word from the daemon"
    return f"no word from the daemon for {words.duration(snapshot.silent)}"
