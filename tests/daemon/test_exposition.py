"""`/metrics` of the daemon: what is unknown has no sample, and what is only to be known is no trouble."""

from arcops import wire
from arcops.core.cards.attribution import Look, census
from arcops.core.cards.clean import Occupancy, notes
from arcops.core.phase import Phase
from arcops.core.quantity import Known
from arcops.daemon.exposition import exposition
from tests.tui import scenes


def test_processes_that_were_not_counted_are_no_sample_and_never_zero() -> None:
    counted = exposition(scenes.status(backend=scenes.backend(processes=3)), turns=1).decode()
    assert "arcops_backend_processes 3.0" in counted
    unseen = exposition(scenes.status(backend=scenes.backend(processes=None)), turns=1).decode()
    assert "arcops_backend_processes" not in unseen
    assert "arcops_backend_spawn_time_seconds" in unseen


def test_memory_that_nobody_may_see_is_a_note_and_no_trouble() -> None:
    used = Known(0, 1.0)
    everybody, some = (census(Look("0000:03:00.0", 1.0, used, hidden), (), {}, frozenset()) for hidden in (0, 7))
    assert notes(Occupancy(everybody, used)) == ()
    (note,) = notes(Occupancy(some, used))
    assert note.startswith("7 processes may not be looked into")
    text = exposition(scenes.status(notes=(note,)), turns=1).decode()
    assert "arcops_trouble 0.0" in text


def test_the_age_of_numbers_is_that_of_the_backends_own_and_not_of_one_that_has_gone() -> None:
    assert "arcops_scrape_age_seconds 0.4" in exposition(scenes.busy(), turns=1).decode()
    left = {"rates": scenes.busy_rates(), "rates_age": 3600.0}
    stopped = scenes.status(Phase.STOPPED, backend=None, **left)
    next_one = scenes.status(Phase.STARTING, backend=scenes.backend(launch_id="another"), **left)
    for status in (stopped, next_one):
        assert "arcops_scrape_age_seconds" not in exposition(status, turns=1).decode()


def test_whether_it_has_qualified_is_1_or_0_and_nothing_where_that_is_not_known() -> None:
    digest = f"sha256:{'a' * 64}"
    for qualified, shown in ((True, "1.0"), (False, "0.0")):
        info = wire.EnvironmentInfo(launch_id="one", digest=digest, qualified=qualified)
        text = exposition(scenes.status(environment=info), turns=1).decode()
        assert f"arcops_environment_qualified {shown}" in text
        assert f'arcops_environment_info{{digest="{digest}",launch_id="one"}} 1.0' in text
    unknown = wire.EnvironmentInfo(launch_id="one", digest=None, qualified=None)
    for status in (scenes.status(environment=unknown), scenes.status()):
        assert "arcops_environment" not in exposition(status, turns=1).decode()
