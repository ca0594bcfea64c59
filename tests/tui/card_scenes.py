"""Cards as the daemon would tell of them; times are those of the scenes."""

from collections.abc import Mapping

import msgspec

from arcops import wire
from tests.tui.scenes import NOW

MIB = 1024 * 1024
ADDRESS, SECOND = "0000:03:00.0", "0000:04:00.0"
NOT_THERE = "not in this driver"


def measure(quantity: str, value: float | None, part: str = "", absent: str = "") -> wire.CardMeasure:
    return wire.CardMeasure(
        quantity=quantity, part=part, unit="", value=value, absent=absent if value is None else "", source="hwmon"
    )


def user(pid: int, command: str | None, who: str | None = "op", cgroup: str | None = None) -> wire.CardUser:
    return wire.CardUser(pid=pid, command=command, user=who, cgroup=cgroup)


def holding(client: int, mib: float | None, *users: wire.CardUser, ours: bool = False, allowed: bool = False):
    size = None if mib is None else int(mib * MIB)
    return wire.CardHolding(client=client, users=users, resident=size, total=size, ours=ours, allowed=allowed)


def census(*holdings: wire.CardHolding, **changes: object) -> wire.CardCensus:
    made = wire.CardCensus(
        at=NOW - 1,
        everybody=True,
        holdings=holdings,
        idle=(),
        unreadable=0,
        unattributed=0,
        unattributed_absent="",
        notes=(),
    )
    return msgspec.structs.replace(made, **changes)


OURS = holding(41, 26_624, user(4311, "VLLM::EngineCore", cgroup="/user.slice/arcops-main.scope"), ours=True)
FOREIGN = holding(17, 1_536, user(5150, "python3 [b]train.py[/b]", "anna"), user(5151, "python3", "anna"))
ALLOWED = holding(3, 112, user(900, "gnome-shell"), allowed=True)
IDLE = holding(44, 0, user(4242, "vllm serve"), ours=True)

SHARED = census(
    OURS,
    FOREIGN,
    ALLOWED,
    idle=(IDLE,),
    unreadable=11,
    unattributed=300 * MIB,
    notes=("the driver says 28,572 MiB are in use, and its clients 28,272",),
)
ALONE = census(OURS, everybody=False, unattributed=1_948 * MIB, at=NOW - 1)

B70 = (
    measure("memory_total", 32_624.0 * MIB),
    measure("memory_used", 28_572.0 * MIB),
    measure("temperature", 61.0, "pkg"),
    measure("temperature", 72.4, "vram"),
    measure("power", 187.2),
    measure("power_limit", 230.0),
    measure("clock", 2_400.0, "gt0"),
    measure("clock", 1_200.0, "gt1"),
    measure("clock_max", 2_800.0, "gt0"),
    measure("busy", 0.934, "gt0"),
    measure("busy", 0.0, "gt1"),
    measure("energy", 123_456.0),
    measure("fan", None, absent=NOT_THERE),
    measure("link_width", 16.0),
    measure("link_speed", 32.0),
    measure("job_timeout", 5.0),
    measure("memory_errors", None, absent="needs CAP_PERFMON"),
)
RESET = wire.CardIncident(
    at=NOW - 3_000,
    kind="job_timeout",
    text="xe 0000:03:00.0: [drm] GT0: Timedout job: seqno=4294967169 in python [2693]",
    engine="ccs",
    pid=2693,
    command="python",
    source="kernel log",
)


def card(**changes: object) -> wire.CardInfo:
    made = wire.CardInfo(
        address=ADDRESS,
        vendor=0x8086,
        device=0xE223,
        name="Arc Pro B70",
        driver="xe",
        render_node="/dev/dri/renderD128",
        at=NOW - 1,
        measures=B70,
        throttling=(),
        throttling_absent="",
        details=(wire.CardDetail(name="firmware", value="GuC 70.49.4", absent="", source="debugfs"),),
        census=SHARED,
        census_absent="",
        baseline=80 * MIB,
        lock_holder="arcopsd (pid 1201)",
        ordinal=0,
        mask="ZE_AFFINITY_MASK=0",
        incidents=(RESET,),
        resets=1,
    )
    return msgspec.structs.replace(made, **changes)


def cards(*known: wire.CardInfo, **changes: object) -> wire.Cards:
    made = wire.Cards(at=NOW, cards=known or (card(),), watching="kernel log (/dev/kmsg), uevents")
    return msgspec.structs.replace(made, **changes)


def dumb() -> wire.CardInfo:
    """One that tells next to nothing."""
    absences: Mapping[str, str] = {
        "memory_used": "needs CAP_PERFMON",
        "temperature": NOT_THERE,
        "power": "the first of two looks",
        "clock": NOT_THERE,
        "busy": NOT_THERE,
    }
    return card(
        address=SECOND,
        name=None,
        measures=(
            measure("memory_total", 12_288.0 * MIB),
            *(measure(name, None, absent=why) for name, why in absences.items()),
        ),
        throttling=None,
        throttling_absent=NOT_THERE,
        details=(),
        census=None,
        census_absent="nobody has looked yet",
        baseline=None,
        lock_holder=None,
        ordinal=None,
        mask=None,
        incidents=(),
        resets=None,
    )


def glance(**changes: object) -> wire.CardGlance:
    made = wire.CardGlance(
        address=ADDRESS,
        name="Arc Pro B70",
        at=NOW - 1,
        memory_used=28_572.0 * MIB,
        memory_total=32_624.0 * MIB,
        power=187.2,
        temperature=72.4,
        clock=2_400.0,
        busy=0.934,
        throttling=(),
        resets=0,
        absent={},
    )
    return msgspec.structs.replace(made, **changes)
