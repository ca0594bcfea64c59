"""Where something was measured: the server, its configuration, its environment, its cards, and what befell them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the server says of itself over its public API; None where it does not say."""

    url: str
    version: str | None = None
    model: str | None = None
    """The served name that was asked."""
    model_root: str | None = None
    """The checkpoint behind it, as /v1/models gives it."""
    max_model_len: int | None = None
    cache: Mapping[str, str] | None = None
    """The labels of `vllm:cache_config_info`."""
    speculates: bool | None = None
    """Its metrics have counters of drafts."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """How the server was launched, as far as it is known, and from whom."""

    source: str
    """`daemon`, `process` (the command line of whoever listens there) or `unknown`."""
    profile: str | None = None
    launch_id: str | None = None
    argv: tuple[str, ...] = ()
    """With secrets hidden; empty where it is not known."""
    environment: tuple[tuple[str, str], ...] = ()
    """What the profile adds, sorted by name, with secrets hidden."""
    max_num_seqs: int | None = None
    """Requests that it runs at once: what is above it queues."""
    environment_digest: str | None = None
    """Of the environment's record (`arcops env record`); None where there is none."""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """A card at the time of the run."""

    address: str
    name: str
    driver: str
    memory_total: int | None = None
    """Bytes."""
    bandwidth: float | None = None
    """Bytes per second, by the card's data sheet or its driver; what the ceiling of decoding is reckoned from."""


@dataclass(frozen=True, slots=True)
class CardSample:
    """A look at a card while a run went on; None where that cannot be read."""

    at: float
    """Seconds since the run began."""
    address: str
    memory_used: int | None = None
    """Bytes, of all holders."""
    power: float | None = None
    """Watts."""
    temperature: float | None = None
    """Degrees Celsius."""
    clock: float | None = None
    """MHz."""


@dataclass(frozen=True, slots=True)
class Befallen:
    """Something that happened during the run and may have spoiled it."""

    at: float
    """Seconds since the run began."""
    kind: str
    """`reset`, `restart` (another server answers), `wedge`, `throttled`, `event` (of the daemon's), `caches` (a server
    of the suite had compile caches that were not empty)."""
    text: str
    spoils: bool
    """Whether what was measured then is worthless: a reset, a restart."""


@dataclass(frozen=True, slots=True)
class CeilingAt:
    """How fast one sequence could decode at a depth if the cards did nothing but read what a token needs."""

    depth: int
    """Tokens in the cache."""
    plain: float
    """Tokens per second without speculation."""
    speculative: float | None
    """With the mean accepted length that was measured; None without speculation, or where that is not known."""


@dataclass(frozen=True, slots=True)
class Setting:
    """All of it, for one record."""

    server: ServerFacts
    configuration: Configuration
    cards: tuple[CardFacts, ...] = ()
    samples: tuple[CardSample, ...] = ()
    befallen: tuple[Befallen, ...] = ()
    watched_by: str = "nobody"
    """Who looked for resets and read the cards: `daemon`, `client` (this machine's own kernel log), `nobody`."""
    ceilings: tuple[CeilingAt, ...] = ()
    """By `arcops plan`'s arithmetic, for the run's depths; empty where checkpoint or bandwidth are not known."""
    unwatched: str = ""
    """What could not be watched, and why, in words."""
