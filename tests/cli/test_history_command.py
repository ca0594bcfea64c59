"""`arcops history`: the past as a table, CSV and JSON; what is unknown is empty, and bad input is refused."""

import csv
import io
from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec
import pytest

from arcops import wire
from arcops.cli import history as command
from arcops.cli.history import bar, readable_step, table_line
from arcops.core.rates import Quantile, Quantiles
from arcops.samples_csv import columns, row
from tests.cli.conftest import Ran

NOW = 1_790_000_040.0
TTFT = Quantiles(Quantile(0.25, 0.5, 0.4), Quantile(0.5, 1.0, 0.9), Quantile(2560.0, None, 2560.0), 0.6, 8.0)


def point(at: float = NOW, **fields: object) -> wire.SamplePoint:
    """A minute in which nothing but the gauges was known."""
    rates = ("prefill", "prefilling", "decode", "requests", "preemptions", "acceptance", "tokens_per_step")
    names: tuple[str, ...] = (*rates, "ttft", "inter_token", "queue")
    given: dict[str, object] = {}
    given.update(dict.fromkeys(names))
    given |= {
        "seconds": 60.0,
        "launch_id": "L1",
        "profile": "dflash2",
        "phase": "serving",
        "running": wire.Spread(mean=1.5, low=0.0, high=3.0),
        "waiting": None,
        "kv_usage": wire.Spread(mean=0.125, low=0.1, high=0.2),
    }
    return wire.SamplePoint(at=at, **{**given, **fields})  # pyright: ignore[reportArgumentType] - a test's shorthand


class Daemon:
    """A history, as the daemon's interface gives it."""

    def __init__(self, *pages: wire.Samples) -> None:
        self.pages = pages
        self.asked: list[tuple[float, float | None, float | None]] = []

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def all_samples(self, since: float, until: float | None, step: float | None) -> Iterator[wire.Samples]:
        self.asked.append((since, until, step))
        yield from self.pages


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Daemon]:
    """Have the command meet a daemon with these points, over two pages."""

    def serve(*points: wire.SamplePoint, absent: str | None = None) -> Daemon:
        def as_client(_: object) -> Daemon:
            return daemon

        half = len(points) // 2
        daemon = Daemon(
            wire.Samples(step=60.0, points=points[:half], next=None if not points else points[half].at, absent=absent),
            wire.Samples(step=60.0, points=points[half:], next=None, absent=absent),
        )
        monkeypatch.setattr(command, "client_of", as_client)
        monkeypatch.setattr(command.time, "time", lambda: NOW)
        return daemon

    return serve


def test_csv_has_a_column_for_each_number_with_its_unit_and_nothing_for_what_is_unknown(
    arcops: Callable[..., Ran], serving: Callable[..., Daemon]
) -> None:
    serving(point(), point(NOW + 60.0, decode=0.0, ttft=TTFT))
    ran = arcops("history", "--csv")
    first, second = csv.DictReader(io.StringIO(ran.out))
    assert (ran.code, ran.err) == (0, "")
    assert datetime.fromisoformat(first["time"]).timestamp() == NOW
    assert datetime.fromisoformat(first["time"]).tzinfo is not None
    assert (first["covered_s"], first["launch"], first["profile"], first["phase"]) == (
        "60.000",
        "L1",
        "dflash2",
        "serving",
    )
    assert (first["running_mean_requests"], first["running_max_requests"]) == ("1.5", "3")
    assert (first["kv_usage_mean_ratio"], first["waiting_mean_requests"]) == ("0.125", "")
    assert (first["decode_tokens_per_s"], second["decode_tokens_per_s"]) == ("", "0"), "unknown is not zero"
    assert (first["ttft_p50_s"], first["ttft_observations"]) == ("", "")
    assert (second["ttft_p50_s"], second["ttft_p50_low_s"], second["ttft_p50_high_s"]) == ("0.4", "0.25", "0.5")
    assert (second["ttft_p99_low_s"], second["ttft_p99_high_s"]) == ("2560", ""), "no upper bound is known"


def test_the_cards_of_a_launch_are_in_the_csv_with_their_units_and_whole(
    arcops: Callable[..., Ran], serving: Callable[..., Daemon]
) -> None:
    memory = wire.Spread(mean=18_253_611_008.5, low=0.0, high=34_359_738_368.0)
    serving(point(), point(NOW + 60.0, card_memory=memory, card_power=wire.Spread(mean=171.44, low=42.5, high=190.0)))
    unknown, known = csv.DictReader(io.StringIO(arcops("history", "--csv").out))
    assert (known["card_memory_mean_bytes"], known["card_memory_min_bytes"]) == ("18253611008", "0"), "no digit is lost"
    assert (known["card_power_mean_watts"], known["card_power_max_watts"]) == ("171.44", "190")
    assert (known["card_temperature_mean_celsius"], known["card_clock_mean_mhz"]) == ("", "")
    assert unknown["card_memory_mean_bytes"] == ""
    assert list(known)[-12:-9] == ["card_memory_mean_bytes", "card_memory_min_bytes", "card_memory_max_bytes"], (
        "what is added comes last"
    )


def test_a_row_fits_the_header() -> None:
    assert len(row(point())) == len(row(point(ttft=TTFT, queue=TTFT, card_clock=point().running))) == len(columns())
    assert len(set(columns())) == len(columns())


def test_json_is_one_document_of_all_pages(arcops: Callable[..., Ran], serving: Callable[..., Daemon]) -> None:
    points = [point(NOW + 60.0 * number) for number in range(5)]
    serving(*points)
    document = msgspec.json.decode(arcops("history", "--json").out, type=wire.Samples)
    assert (document.points, document.next, document.step) == (tuple(points), None, 60.0)


def test_the_table_names_launches_shows_gaps_and_says_what_is_not_known(
    arcops: Callable[..., Ran], serving: Callable[..., Daemon]
) -> None:
    serving(
        point(decode=40.0, ttft=TTFT, acceptance=0.5),
        point(NOW + 60.0, decode=20.0),
        point(NOW + 600.0, decode=0.0),
        point(NOW + 660.0, launch_id="L\x1b[2J2", profile="target-only"),
    )
    ran = arcops("history")
    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert lines[2] == "== dflash2 (launch L1)"
    assert lines[3].split()[2:7] == ["1.50", "?", "12.5", "?", "40.0"]
    assert "████████" in lines[3]
    assert lines[3].endswith("50.0 %")
    assert "0.25–0.5 s" in lines[3]
    assert lines[4].endswith("20.0  ████")
    assert "nothing is known of 8 min 00 s" in lines[5]
    assert lines[7] == "== target-only (launch L2)", "foreign text is no terminal's"
    assert "\x1b" not in ran.out


def test_a_time_of_which_nothing_is_known_is_said_so_and_is_no_error(
    arcops: Callable[..., Ran], serving: Callable[..., Daemon]
) -> None:
    serving()
    ran = arcops("history")
    assert (ran.code, ran.out) == (0, "")
    assert "no numbers of that time are known" in ran.err


def test_what_cannot_be_read_is_told_once_beside_what_can(
    arcops: Callable[..., Ran], serving: Callable[..., Daemon]
) -> None:
    serving(point(), point(NOW + 60.0), absent="what is on the disk cannot be read: it hangs")
    ran = arcops("history", "--csv")
    assert len(ran.out.splitlines()) == 3
    assert ran.err.count("it hangs") == 1


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ((), (NOW - 3600.0, None, 60.0)),
        (("--since", "90s", "--step", "1s"), (NOW - 90.0, None, 1.0)),
        (("--since", "2h"), (NOW - 7200.0, None, 300.0)),
        (("--since", "7d", "--until", "1d"), (NOW - 7 * 86_400.0, NOW - 86_400.0, 10_800.0)),
        (("--since", "30d", "--csv"), (NOW - 30 * 86_400.0, None, 60.0)),
        (("--since", "30d", "--json", "--step", "1h"), (NOW - 30 * 86_400.0, None, 3600.0)),
    ],
)
def test_times_and_steps_are_what_they_say(
    arcops: Callable[..., Ran],
    serving: Callable[..., Daemon],
    arguments: tuple[str, ...],
    asked: tuple[float, float | None, float | None],
) -> None:
    daemon = serving(point())
    assert arcops("history", *arguments).code == 0
    assert daemon.asked == [asked]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--since", "yesterday"), "'yesterday' is neither a duration nor a time"),
        (("--until", "-3"), "'-3' is neither a duration nor a time"),
        (("--since", "1h", "--until", "2h"), "there is no time between --since and --until"),
        (("--step", "2s"), "'2s' is no step of the history"),
        (("--step", "90s"), "'90s' is no step of the history"),
        (("--step", "0"), "'0' is no step of the history"),
        (("--step", "a minute"), "'a minute' is no duration"),
        (("--csv", "--json"), "--csv and --json contradict each other"),
    ],
)
def test_bad_input_is_one_error_with_a_hint(
    arcops: Callable[..., Ran], serving: Callable[..., Daemon], arguments: tuple[str, ...], words: str
) -> None:
    daemon = serving(point())
    ran = arcops("history", *arguments)
    assert (ran.code, ran.out, daemon.asked) == (2, "", [])
    assert words in ran.err
    assert ran.err.count("hint:") == 1


def test_a_table_whose_step_nobody_chose_can_be_read_whatever_it_spans() -> None:
    for span in (60.0, 3600.0, 86_400.0, 30 * 86_400.0):
        assert span / readable_step(span) <= command.MOST_ROWS
    assert readable_step(1e9) == 86_400.0


def test_a_bar_has_one_width_and_shows_little_as_something() -> None:
    assert {len(bar(value, 10.0)) for value in (None, 0.0, 0.001, 3.3, 10.0, 11.0)} == {8}
    assert bar(None, 10.0).strip() == bar(0.0, 10.0).strip() == bar(1.0, 0.0).strip() == ""
    assert bar(0.001, 10.0).strip() == "▏"
    assert bar(10.0, 10.0) == "█" * 8


def test_a_prefill_that_goes_on_is_shown_while_no_counter_tells_it() -> None:
    going_on = wire.Spread(mean=1900.0, low=1800.0, high=2000.0)
    assert "1,900" in table_line(point(prefill=0.0, prefilling=going_on), 60.0, 1.0)
    counted = table_line(point(prefill=500.0, prefilling=going_on), 60.0, 1.0)
    assert "500" in counted
    assert "1,900" not in counted
