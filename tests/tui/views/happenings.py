"""A night in the history of an instance, with the numbers of a server around its worst minute."""

from math import sin

from arcops import wire
from arcops.doctor.finding import Finding, Fix, FixKind, Verdict
from tests.tui import scenes

HANG = scenes.NOW - 600.0
"""When the backend stopped to answer."""


def event(number: int, ago: float, kind: str, phase: str, reason: str, **more: str | None) -> wire.Event:
    known: dict[str, str | None] = {"profile": "dflash2", "launch_id": scenes.LAUNCH, "cause": None, **more}
    return wire.Event(
        id=number,
        at=scenes.NOW - ago,
        kind=kind,
        phase=phase,
        reason=reason,
        profile=known["profile"],
        launch_id=known["launch_id"],
        cause=known["cause"],
    )


NIGHT = (
    event(1, 9_000, "daemon", "stopped", "arcopsd 0.1.0 started (pid 1201)", profile=None, launch_id=None),
    event(2, 8_020, "order", "stopped", "order 7: run dflash2", launch_id=None),
    event(3, 8_010, "phase", "starting", "launching dflash2"),
    event(4, 7_990, "phase", "checking", "HTTP answers, and the listener is ours"),
    event(5, 7_980, "phase", "serving", "serving demo"),
    event(6, 7_980, "outcome", "serving", "order 7: serving demo"),
    event(7, 3_000, "trouble", "serving", "the event history could not be written for 12 s: no space left on device"),
    event(
        8,
        600,
        "phase",
        "suspect",
        "3 requests in flight and no progress for 61 s; asking the server for one token with a deadline of 30 s",
    ),
    event(9, 570, "phase", "stopping", "no answer within 30 s: the backend hangs", cause="hang"),
    event(10, 560, "evidence", "stopping", "evidence of a hang is kept in /home/op/.local/state/arcops/evidence/7"),
    event(11, 555, "phase", "clearing", "every process is gone; waiting for port and memory", cause="hang"),
    event(12, 550, "phase", "backoff", "hang: trying again in 10 s (1 of 3 failures within an hour)", cause="hang"),
    event(13, 540, "phase", "starting", "launching dflash2", launch_id="20270115-085100-2"),
    event(14, 510, "phase", "serving", "serving [b]demo[/b] \x1b[31mred", launch_id="20270115-085100-2"),
)


def spread(value: float) -> wire.Spread:
    return wire.Spread(mean=value, low=value, high=value)


def point(at: float, seconds_from_hang: float, **changes: object) -> wire.SamplePoint:
    hung = seconds_from_hang >= 0
    wave = 0.5 + 0.5 * sin(seconds_from_hang / 7.0)
    made: dict[str, object] = {
        "at": at,
        "seconds": 1.0,
        "launch_id": scenes.LAUNCH,
        "profile": "dflash2",
        "phase": "suspect" if hung else "serving",
        "running": spread(3.0),
        "waiting": spread(0.0 if not hung else seconds_from_hang // 5),
        "kv_usage": spread(0.624),
        "prefill": 0.0 if hung else 1200 * wave,
        "prefilling": None,
        "decode": 0.0 if hung else 400 * wave + 12,
        "requests": None,
        "preemptions": None,
        "acceptance": None,
        "tokens_per_step": None,
        "ttft": None,
        "inter_token": None,
        "queue": None,
    }
    return wire.SamplePoint(**{**made, **changes})  # pyright: ignore[reportArgumentType] - a test's own words


def numbers(step: float = 1.0) -> wire.Samples:
    """Around the hang; nothing is known of what came 31 s later."""
    times = range(-90, 31) if step == 1 else range(-120, 60, 60)
    points = tuple(point(HANG + second, float(second)) for second in times)
    return wire.Samples(step=step, points=points, next=None)


def finding(name: str, verdict: Verdict, summary: str, **more: object) -> Finding:
    made: dict[str, object] = {"question": f"Is {name} well?", "seconds": 0.012}
    return Finding(name=name, verdict=verdict, summary=summary, **{**made, **more})  # pyright: ignore[reportArgumentType] - a test's own words


FINDINGS = (
    finding("versions", Verdict.OK, "arcops 0.1.0 on Python 3.11.7"),
    finding(
        "lingering",
        Verdict.WARNING,
        "lingering is off for op: the service ends with the last logout, and no boot starts it",
        question="Do this user's services run without a login?",
        evidence=("/var/lib/systemd/linger/op is not there", "loginctl: Linger=no"),
        remedy="arcops service linger on",
        fixes=(Fix(kind=FixKind.ENABLE_LINGERING),),
    ),
    finding("runtime", Verdict.UNKNOWN, "there was no answer within 60 s", seconds=60.0),
    finding("render-node", Verdict.OK, "/dev/dri/renderD128 of card 0000:03:00.0 opens"),
    finding(
        "driver",
        Verdict.OK,
        "card 0000:03:00.0 (Arc Pro B70) has the driver xe",
        evidence=("xe, of the kernel 6.17.0", "DRIVER=xe PCI_ID=8086:E223", "GuC firmware: 70.49.4"),
    ),
    finding(
        "card-holders",
        Verdict.PROBLEM,
        "pid 5150 (python3 [b]train.py[/b] --lr 3e-4) of user anna holds 21,504 MiB of card 0000:03:00.0",
        question="Has somebody else memory of a configured card?",
        remedy="ps -fp 5150   says what they are; end them in their own way",
    ),
    finding("kernel-log", Verdict.OK, "the journal shows the kernel's log", evidence=("kernel.dmesg_restrict=1",)),
)
