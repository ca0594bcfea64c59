"""What was measured of one request by itself is held against the ceiling, and nothing else."""

from dataclasses import replace

import msgspec

from arcops import wire
from arcops.core.rates import Rates, Speculation
from arcops.planning.measured import of_history, of_now
from tests.tui import scenes

SPECULATION = Speculation(drafts=10.0, acceptance=0.6, tokens_per_step=2.8, per_position=())


def status(**changes: object) -> wire.Status:
    rates = Rates(at=scenes.NOW, launch_id=scenes.LAUNCH, seconds=60, running=1.0, decode=104.0)
    return msgspec.structs.replace(scenes.busy(), rates=replace(rates, **changes))


def point(**changes: object) -> wire.SamplePoint:
    fields: dict[str, object] = {name: None for name in wire.SamplePoint.__struct_fields__}  # noqa: C420 - of objects
    alone = wire.Spread(mean=0.9, low=0, high=1)
    fields |= {"at": 0.0, "seconds": 60.0, "launch_id": "a", "profile": "mine", "phase": "serving", "running": alone}
    return wire.SamplePoint(**{**fields, "decode": 50.0, **changes})  # pyright: ignore[reportArgumentType] - a test's own words


def test_what_runs_now_by_itself_is_taken() -> None:
    found = of_now(status(speculation=SPECULATION), "dflash2")
    assert found is not None
    assert (found.tokens_per_second, found.tokens_per_step, found.source) == (104.0, 2.8, "now")


def test_what_runs_beside_others_or_is_idle_or_another_is_not() -> None:
    assert of_now(status(), "target-only") is None
    assert of_now(status(running=2.0), "dflash2") is None
    assert of_now(status(running=None), "dflash2") is None
    assert of_now(status(decode=0.0), "dflash2") is None
    assert of_now(status(decode=None), "dflash2") is None
    assert of_now(status(launch_id="an earlier one"), "dflash2") is None
    assert of_now(msgspec.structs.replace(status(), backend=None), "dflash2") is None


def test_of_the_past_the_fastest_minute_with_one_request_counts() -> None:
    crowd = wire.Spread(mean=2, low=0, high=3)
    points = [
        point(),
        point(decode=80.0, tokens_per_step=2.5),
        point(decode=300.0, running=crowd),
        point(decode=300.0, running=None),
        point(decode=400.0, profile="another"),
        point(decode=None),
    ]
    found = of_history(points, "mine")
    assert found is not None
    assert (found.tokens_per_second, found.tokens_per_step, found.source) == (80.0, 2.5, "history")


def test_nothing_is_known_of_what_never_ran() -> None:
    assert of_history([], "mine") is None
    assert of_history([point(decode=0.0)], "mine") is None
