"""`/metrics` of the daemon: what is unknown has no sample, and what is only to be known is no trouble."""

from arcops.core.world import Card
from arcops.daemon.exposition import exposition
from arcops.daemon.status import unread_holders
from tests.tui import scenes


def test_processes_that_were_not_counted_are_no_sample_and_never_zero() -> None:
    counted = exposition(scenes.status(backend=scenes.backend(processes=3)), turns=1).decode()
    assert "arcops_backend_processes 3.0" in counted
    unseen = exposition(scenes.status(backend=scenes.backend(processes=None)), turns=1).decode()
    assert "arcops_backend_processes" not in unseen
    assert "arcops_backend_spawn_time_seconds" in unseen


def test_memory_that_nobody_may_see_is_a_note_and_no_trouble() -> None:
    assert unread_holders(Card(holders=(), unreadable=0)) == ()
    (note,) = unread_holders(Card(holders=(), unreadable=7))
    assert note.startswith("7 processes of other users may not be looked into")
    text = exposition(scenes.status(notes=(note,)), turns=1).decode()
    assert "arcops_trouble 0.0" in text
