"""Made-up cards: readings, looks at their holders, and the messages about them."""

from arcops import wire
from arcops.core.cards.holders import Census, Holding, User
from arcops.core.cards.measures import CardReading, Measure, Quantity
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu import CardIdentity

MIB = 1024 * 1024
GIB = 1024 * MIB
NOW = 1_796_041_081.5
"""Seconds since the epoch."""
FIRST, SECOND = "0000:03:00.0", "0000:04:00.0"


def identity(address: str = FIRST, driver: str | None = "xe", name: str | None = "Intel Arc Pro B70") -> CardIdentity:
    return CardIdentity(address, 0x8086, 0xE223, driver, name, "/dev/dri/renderD128")


def measure(quantity: Quantity, value: float | str, part: str = "", at: float = 0.0) -> Measure:
    """A number is a value, words are the reason of an absence."""
    reading: Reading[float] = Unknown(value, at) if isinstance(value, str) else Known(value, at)
    return Measure(quantity, reading, "a made-up source", part)


def reading(*measures: Measure, address: str = FIRST, at: float = 0.0) -> CardReading:
    return CardReading(address, at, measures, Known((), at))


def whole(address: str = FIRST, at: float = 0.0, used: float = 17 * GIB) -> CardReading:
    """A card that tells all that a glance shows."""
    return reading(
        measure(Quantity.MEMORY_USED, used, at=at),
        measure(Quantity.MEMORY_TOTAL, 32 * GIB, at=at),
        measure(Quantity.POWER, 183.0, "card", at),
        measure(Quantity.TEMPERATURE, 61.0, "pkg", at),
        measure(Quantity.CLOCK, 2400.0, "gt0", at),
        measure(Quantity.BUSY, 0.97, "gt0", at),
        address=address,
        at=at,
    )


def user(pid: int, command: str | None = "python", name: str | None = "op") -> User:
    return User(pid, 1, command, name, "/user.slice")


def holding(client: int, mib: int | None, *users: User, ours: bool = False) -> Holding:
    size = None if mib is None else mib * MIB
    return Holding(client, users or (user(100 + client),), size, size, ours)


def census(*holdings: Holding, at: float = 0.0, used: float | None = None, everybody: bool = True) -> Census:
    known: Reading[int] = Unknown("it does not tell", at) if used is None else Known(int(used), at)
    return Census(FIRST, at, holdings, (), 0, known, everybody)


# -- messages ---------------------------------------------------------------------------------------------------------
def told(quantity: Quantity, value: float | None, part: str = "", absent: str = "") -> wire.CardMeasure:
    return wire.CardMeasure(
        quantity=quantity.label, part=part, unit=quantity.unit.value, value=value, absent=absent, source="made up"
    )


def held(mib: int | None, *users: wire.CardUser, ours: bool = False, allowed: bool = False) -> wire.CardHolding:
    size = None if mib is None else mib * MIB
    return wire.CardHolding(client=1, users=users, resident=size, total=size, ours=ours, allowed=allowed)


def process(pid: int, command: str | None = "python", name: str | None = "op") -> wire.CardUser:
    return wire.CardUser(pid=pid, command=command, user=name, cgroup=None)


def looked(*holdings: wire.CardHolding, **changes: object) -> wire.CardCensus:
    """A look at everybody, now."""
    given: dict[str, object] = {
        "at": NOW,
        "everybody": True,
        "idle": (),
        "unreadable": 0,
        "unattributed": 0,
        "unattributed_absent": "",
        "notes": (),
        **changes,
    }
    return wire.CardCensus(holdings=holdings, **given)  # pyright: ignore[reportArgumentType] - a test's shorthand


def detail(name: str, value: str) -> wire.CardDetail:
    return wire.CardDetail(name=name, value=value, absent="", source="made up")


MEASURES = (
    told(Quantity.MEMORY_USED, 17.0 * GIB),
    told(Quantity.MEMORY_TOTAL, 32.0 * GIB),
    told(Quantity.CLOCK, 2400.0, "gt0"),
    told(Quantity.CLOCK, 0.0, "gt1"),
    told(Quantity.CLOCK_MAX, 2800.0, "gt0"),
    told(Quantity.BUSY, 0.97, "gt0"),
    told(Quantity.POWER, 183.4, "card"),
    told(Quantity.POWER_LIMIT, 230.0, "card"),
    told(Quantity.TEMPERATURE, 61.0, "pkg"),
    told(Quantity.TEMPERATURE, 70.0, "vram"),
    told(Quantity.FAN, None, absent="not in this driver"),
    told(Quantity.LINK_WIDTH, 16.0),
    told(Quantity.LINK_SPEED, 32.0),
    told(Quantity.JOB_TIMEOUT, 5.0, "ccs"),
)


def info(address: str = FIRST, **changes: object) -> wire.CardInfo:
    """A card that serves, with all there is to know."""
    given: dict[str, object] = {
        "vendor": 0x8086,
        "device": 0xE223,
        "name": "Intel Arc Pro B70",
        "driver": "xe",
        "render_node": "/dev/dri/renderD128",
        "at": NOW,
        "measures": MEASURES,
        "throttling": (),
        "throttling_absent": "",
        "details": (
            detail("firmware", "GuC 70.44.1"),
            detail("pci_id", "8086:e223"),
            detail("power_state", "active"),
            detail("link_max", "x16 at 32 GT/s"),
        ),
        "census": looked(held(16_800, process(2693, "VLLM::EngineCor"), ours=True)),
        "census_absent": "",
        "baseline": 600 * MIB,
        "lock_holder": "this supervisor and its backend",
        "ordinal": 0,
        "mask": "ZE_AFFINITY_MASK=0",
        "incidents": (),
        "resets": 0,
        **changes,
    }
    return wire.CardInfo(address=address, **given)  # pyright: ignore[reportArgumentType] - a test's shorthand


def cards(*infos: wire.CardInfo, at: float = NOW) -> wire.Cards:
    return wire.Cards(at=at, cards=infos, watching="kernel log (/dev/kmsg), uevents")
