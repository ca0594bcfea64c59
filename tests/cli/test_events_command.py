"""Which events `arcops events` shows, however far back they lie."""

from collections.abc import Callable
from datetime import datetime

import pytest

from arcops import wire
from arcops.cli import events as command
from arcops.cli.events import Wanted, line, moment, newest
from arcops.client import Client
from arcops.core.errors import ArcopsError, ExitCode
from tests.cli.conftest import Ran

NOW = 1_790_000_000.0


def event(number: int, **fields: object) -> wire.Event:
    given: dict[str, object] = {"kind": "phase", "phase": "serving", "profile": "a", "launch_id": None, **fields}
    return wire.Event(id=number, at=NOW + number, reason=f"reason {number}", **given)  # pyright: ignore[reportArgumentType] - a test's shorthand


class Daemon:
    """A history, as the daemon's interface gives it."""

    def __init__(self, history: list[wire.Event]) -> None:
        self.history = history
        self.asked = 0

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def events(self, after: int = 0, limit: int = 1000) -> wire.Events:
        assert limit <= command.PAGE
        self.asked += 1
        if after < 0:
            after = max(0, self.history[-1].id + after) if self.history else 0
        return wire.Events(events=tuple(one for one in self.history if one.id > after)[:limit])


def ids(history: list[wire.Event], wanted: Wanted, most: int) -> list[int]:
    daemon: object = Daemon(history)
    return [one.id for one in newest(_as_client(daemon), wanted, most)]


def _served(history: list[wire.Event]) -> Callable[[object], Daemon]:
    """In the place of `client_of`."""

    def served(_: object) -> Daemon:
        return Daemon(history)

    return served


def _as_client(daemon: object) -> Client:
    return daemon  # pyright: ignore[reportReturnType] - it has the one method that is called


def test_without_a_filter_one_page_is_asked_for() -> None:
    daemon = Daemon([event(number) for number in range(1, 100)])
    assert [one.id for one in newest(_as_client(daemon), Wanted(), 3)] == [97, 98, 99]
    assert daemon.asked == 1


def test_events_are_filtered_by_kind_phase_profile_launch_and_time() -> None:
    history = [
        event(1, profile="b"),
        event(2, kind="order", phase="serving"),
        event(3, phase="failed"),
        event(4, launch_id="l4"),
        event(5, kind="trouble", phase="failed", profile=None),
    ]
    assert ids(history, Wanted(profile="b"), 9) == [1]
    assert ids(history, Wanted(kinds=frozenset({"order", "trouble"})), 9) == [2, 5]
    assert ids(history, Wanted(kinds=frozenset({"failed"})), 9) == [3], "the phase that it tells, not the one it is in"
    assert ids(history, Wanted(launch="l4"), 9) == [4]
    assert ids(history, Wanted(since=NOW + 4), 9) == [4, 5]
    assert ids(history, Wanted(kinds=frozenset({"phase"}), since=NOW + 2, profile="a"), 1) == [4]
    assert ids([], Wanted(profile="b"), 9) == []


def test_a_rare_event_is_found_however_far_back_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PAGE", 10)
    history = [event(number, profile="rare" if number in (12, 15, 77) else "a") for number in range(11, 100)]
    assert ids(history, Wanted(profile="rare"), 9) == [12, 15, 77]
    assert ids(history, Wanted(profile="rare"), 2) == [15, 77]
    assert ids(history, Wanted(profile="none"), 2) == []


def test_a_time_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PAGE", 10)
    daemon = Daemon([event(number) for number in range(1, 100)])
    assert newest(_as_client(daemon), Wanted(profile="none", since=NOW + 95), 9) == []
    assert daemon.asked == 1


def test_since_takes_durations_days_and_times() -> None:
    assert moment("90m", NOW) == NOW - 5400
    assert moment("7d", NOW) == NOW - 7 * 86400
    assert moment("2026-11-30T10:00:00+00:00", NOW) == 1796032800.0
    assert moment("2026-11-30", NOW) == datetime.fromisoformat("2026-11-30").astimezone().timestamp()


@pytest.mark.parametrize("text", ["", "yesterday", "d", "-1d", "9999999d", "2026-13-01", "٣d", "nan", "1e9"])
def test_since_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(ArcopsError) as refused:
        moment(text, NOW)
    assert refused.value.exit_code is ExitCode.USAGE


def test_a_bad_time_is_a_usage_error_before_the_daemon_is_asked(arcops: Callable[..., Ran]) -> None:
    ran = arcops("events", "--since", "yesterday")
    assert ran.code == ExitCode.USAGE
    assert "neither a duration nor a time" in ran.err


def test_a_launch_is_named_where_it_begins(arcops: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    history = [event(1), *(event(n, launch_id="l-one") for n in (2, 3)), event(4), event(5, launch_id="l-two")]
    monkeypatch.setattr(command, "client_of", _served(history))
    said = arcops("events").out.splitlines()
    assert ["(launch" in row for row in said] == [False, True, False, False, True]
    assert said[1].endswith("reason 2 (launch l-one)")
    assert "(launch" not in line(event(1), name_launch=True)


def test_json_is_one_document_with_the_filter_applied(
    arcops: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "client_of", _served([event(1), event(2, profile="b")]))
    ran = arcops("events", "--json", "--profile", "b")
    page = wire.Events(events=(event(2, profile="b"),))
    assert ran.out == wire.encode(page).decode() + "\n"
