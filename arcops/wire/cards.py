"""The cards: their measures, who holds their memory, what befell them."""

import msgspec

from arcops.wire.message import Message


class CardMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of a card."""

    quantity: str
    """`memory_used`, `temperature`, ...: docs/control-api.md lists them."""
    part: str
    """Of which part of the card (`gt0`, `vram`); empty where it has but one."""
    unit: str
    value: float | None
    absent: str
    """Why there is no value; empty where there is one."""
    source: str


class CardDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a card in words: `driver`, `firmware`."""

    name: str
    value: str | None
    absent: str
    source: str


class CardUser(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has a card open."""

    pid: int
    command: str | None
    user: str | None
    cgroup: str | None


class CardHolding(msgspec.Struct, frozen=True, kw_only=True):
    """One client of a card's memory; counted once, however many processes share it."""

    client: int
    users: tuple[CardUser, ...]
    resident: int | None
    """Bytes; None where the driver does not say how much."""
    total: int | None
    ours: bool
    allowed: bool = False
    """Somebody else's, and the profile lets its command hold memory beside us (`device.allow_holders`)."""

    @property
    def kind(self) -> str:
        """`ours`, `allowed` or `foreign`."""
        return "ours" if self.ours else "allowed" if self.allowed else "foreign"


class CardCensus(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a card's memory, as of one look."""

    at: float
    everybody: bool
    """Every process was looked at, and not only our backend's."""
    holdings: tuple[CardHolding, ...]
    idle: tuple[CardHolding, ...]
    """Have the card open, and no memory there."""
    unreadable: int
    """Processes that may not be looked into."""
    unattributed: int | None
    """Bytes in use that nobody can be named for; None where that is unknown."""
    unattributed_absent: str
    notes: tuple[str, ...]


class CardIncident(msgspec.Struct, frozen=True, kw_only=True):
    """A reset, a wedge, a loss: what the driver or the kernel said of a card."""

    at: float
    """Seconds since the epoch."""
    kind: str
    """`reset`, `job_timeout`, `page_fault`, `memory_error`, `gone`, `wedged`, `coredump`, `recovery`."""
    text: str
    """The line, untrusted."""
    engine: str | None
    pid: int | None
    command: str | None
    source: str
    """`kernel log`, `uevent`, `devcoredump`, `NVML`."""


class CardInfo(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one card."""

    address: str
    vendor: int
    device: int
    name: str | None
    driver: str | None
    render_node: str | None
    at: float
    """When its measures were read, seconds since the epoch; 0 where they never were."""
    measures: tuple[CardMeasure, ...]
    throttling: tuple[str, ...] | None
    """Why it is held below its clock; empty when it is not, None where that is unknown."""
    throttling_absent: str
    details: tuple[CardDetail, ...]
    census: CardCensus | None
    """None where nobody has looked; `census_absent` says why."""
    census_absent: str
    baseline: int | None
    """Bytes in use when nobody held any, as learnt while idle."""
    lock_holder: str | None
    """In words; None where nobody holds the lock of the card."""
    ordinal: int | None
    """Its number as Level Zero (or CUDA in PCI order) counts; None where that is unknown."""
    mask: str | None
    """What a launch on it sets, `ZE_AFFINITY_MASK=0`."""
    incidents: tuple[CardIncident, ...]
    """The last ones since boot, oldest first."""
    resets: int | None
    """Resets since boot; None where nobody could watch."""
    lock_absent: str = ""
    """Why it is not known who holds the lock; empty where it is."""


class Cards(Message, frozen=True, kw_only=True):
    """`GET /v1/cards`, and `arcops gpu --json`."""

    at: float
    cards: tuple[CardInfo, ...]
    watching: str
    """Whether and how resets are noticed: `kernel log (/dev/kmsg), uevents`, or `cannot watch, because ...`."""


class CardGlance(msgspec.Struct, frozen=True, kw_only=True):
    """A card in a status: what fits a line. None is unknown, and `absent` says why, by quantity."""

    address: str
    name: str | None
    at: float
    """As in `CardInfo`."""
    memory_used: float | None
    memory_total: float | None
    power: float | None
    temperature: float | None
    clock: float | None
    busy: float | None
    throttling: tuple[str, ...] | None
    resets: int | None
    absent: dict[str, str]
    """`power: not in this driver`."""
