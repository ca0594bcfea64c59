"""What stands at the top: the sentence, and of a failure as much as the view below it leaves room for."""

from arcops import wire
from arcops.core.phase import Phase
from arcops.tui.panels.base import Room
from arcops.tui.panels.notice import NoticePanel
from arcops.tui.panels.status import StatusPanel
from arcops.tui.snapshot import Link, Snapshot
from tests.tui import scenes

SMALL, TALL = Room(78, 0, tall=False), Room(158, 0, tall=True)


SUMMARY = "the KV cache is too small"
FAILURE = wire.FailureInfo(
    cause="kv_cache_too_small", summary=SUMMARY, hint="give it more memory; " * 6, evidence="ValueError: no room"
)


def snapshot_of(status: wire.Status) -> Snapshot:
    return Snapshot("/s", "main", 60.0, scenes.NOW, link=Link.LIVE, status=status)


def shown(status: wire.Status, room: Room = SMALL, *, brief: bool = False) -> list[str]:
    panel = StatusPanel()
    panel.brief = brief
    return ["".join(text for text, _ in line) for line in panel.lines(snapshot_of(status), room)]


def with_reason(reason: str) -> wire.Status:
    return scenes.status(Phase.FAILED, reason=reason, backend=None, failure=FAILURE)


def test_a_failure_is_explained_with_what_to_do_and_what_the_log_says():
    sentence, cause, *rest = shown(with_reason("trying again would not help"))
    assert sentence.endswith("trying again would not help")
    assert cause == f"  cause (kv_cache_too_small): {SUMMARY}"
    assert rest[0].startswith("  hint: give it more memory")
    assert any(line == "  log: ValueError: no room" for line in rest)


def test_a_cause_that_the_sentence_has_told_is_only_named():
    sentence, cause, *_ = shown(with_reason(SUMMARY))
    assert sentence.endswith(SUMMARY)
    assert cause == "  cause: kv_cache_too_small"


def test_another_view_on_a_small_screen_has_its_room_and_the_failure_a_line_for_cause_and_hint():
    unexplained = shown(with_reason("trying again would not help"), brief=True)
    assert [line.split()[0] for line in unexplained] == ["✖", "cause", "hint:"]
    assert len(shown(with_reason(SUMMARY), brief=True)) < len(shown(with_reason(SUMMARY)))
    assert "  cause: kv_cache_too_small" not in shown(with_reason(SUMMARY), brief=True)


def test_a_tall_screen_tells_it_all_over_every_view():
    assert shown(scenes.failed(), TALL, brief=True) == shown(scenes.failed(), TALL)


def test_another_view_on_a_small_screen_has_its_warnings_and_not_what_stands_there_every_day():
    survival = wire.SurvivalInfo(logout=False, reboot=False, why="lingering is off")
    snapshot = snapshot_of(scenes.status(survival=survival, trouble=("the disk is full",)))
    panel = NoticePanel()
    lines = ["".join(text for text, _ in line) for line in panel.lines(snapshot, SMALL)]
    assert lines == ["! the disk is full", "boot: lingering is off"]
    panel.brief = True
    assert ["".join(text for text, _ in line) for line in panel.lines(snapshot, SMALL)] == ["! the disk is full"]
    assert panel.lines(snapshot, TALL)[-1] != panel.lines(snapshot, SMALL)[-1]
