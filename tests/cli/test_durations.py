"""Durations as people type them."""

import pytest

from arcops.cli.durations import LONGEST, drain_of, seconds
from arcops.core.errors import ArcopsError, ExitCode


@pytest.mark.parametrize(
    ("text", "value"),
    [("60s", 60), ("60", 60), ("1.5m", 90), ("2h", 7200), ("0", 0), ("0s", 0), (" 5s ", 5), ("24h", LONGEST)],
)
def test_a_duration_is_seconds(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", "x", "s", "-1", "+1", "1 s", "1d", "1.", ".5s", "1e3", "nan", "inf", "1h30m", "60S", "٣s", "1" * 400],
)
def test_what_is_no_duration_is_a_usage_error_and_is_shown_cut_short(text: str) -> None:
    with pytest.raises(ArcopsError) as refused:
        seconds(text)
    assert refused.value.exit_code is ExitCode.USAGE
    assert repr(text[:20])[:-1] in refused.value.message
    assert len(refused.value.message) < 120


def test_bounds_are_kept_and_said() -> None:
    with pytest.raises(ArcopsError, match="'0' is too short: 1 s to 24 h are taken"):
        seconds("0", least=1.0)
    with pytest.raises(ArcopsError, match=r"'24\.1h' is too long"):
        seconds("24.1h")


@pytest.mark.parametrize(
    ("drain", "now", "value"), [(None, False, None), (None, True, 0.0), ("90s", False, 90.0), ("0", False, 0.0)]
)
def test_drain_and_now_together(drain: str | None, now: bool, value: float | None) -> None:
    assert drain_of(drain, now) == value


@pytest.mark.parametrize("drain", ["5s", "0", "nonsense"])
def test_drain_and_now_contradict_each_other(drain: str) -> None:
    with pytest.raises(ArcopsError, match="contradict") as refused:
        drain_of(drain, now=True)
    assert refused.value.exit_code is ExitCode.USAGE
