"""The state of the instance, now."""

from typing import TYPE_CHECKING

import msgspec

from arcops.core.errors import ArcopsError
from arcops.core.rates import Rates
from arcops.wire.cards import CardGlance
from arcops.wire.message import Message

if TYPE_CHECKING:
    from arcops.core.evidence.environment import Environment


class DaemonInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor itself."""

    pid: int
    version: str
    started_at: float
    prefix: str | None = None
    """`sys.prefix` of the environment that it is installed in; null from a daemon that does not say."""


class SurvivalInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the supervisor outlives a logout of its user, and comes back after a reboot; null is unknown."""

    logout: bool | None
    reboot: bool | None
    why: str
    """One sentence that says both."""


class OrderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The order in force."""

    id: int
    goal: str
    """`run` or `stop`."""
    profile: str | None
    committed: bool
    """False while a switch or stop is under way."""
    previous: str | None = None
    """The profile that a failing switch returns to."""
    standing_in: str | None = None
    """The profile that runs in place of the ordered one (its `on_failure`), until an order or a reboot."""
    standing_in_because: str = ""
    """Why it does, in words."""


class BackendInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The backend that exists, whatever its phase."""

    launch_id: str
    profile: str
    served_name: str
    url: str
    pid: int | None
    processes: int | None
    """Living processes, the keeper excepted; null before the first look."""
    spawned_at: float
    ready_at: float | None
    enclosure: str
    log_path: str
    speculates: bool
    adopted: bool
    """An earlier supervisor had launched it."""
    max_running: int | None = None
    """Requests that it runs at once (`--max-num-seqs`); null where the command line leaves it to vLLM."""
    planned_tokens: int | None = None
    """That its KV cache was planned to hold; null where no plan could be made, or it does not serve yet."""
    reported_tokens: int | None = None
    """The same by vLLM's own word, where there is a plan to hold against it."""
    fresh_caches: bool = False
    """It was launched with empty compile caches of its own (`arcops restart --fresh-caches`)."""


class StartInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How far a start has got. Read from prose in a log: to be shown, never to be decided on."""

    stage: str
    fraction: float | None
    """Of the stage, 0..1."""
    detail: str
    elapsed: float
    usual: float | None
    """Seconds that this profile's last starts took (median)."""


class FailureInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Why the last backend failed."""

    cause: str
    summary: str
    hint: str
    evidence: str
    fits_context: int | None = None
    """The largest context in tokens that would fit, where vLLM names it."""


class OutcomeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order."""

    order_id: int
    exit_code: int
    summary: str
    hint: str
    evidence: str
    superseded: bool
    returned_to: str | None
    cause: str | None = None
    """Why the backend failed, in one word as in `FailureInfo`; null where none did, or an earlier daemon knew it."""


class EnvironmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the backend's runtime really is, as it was recorded at its launch."""

    launch_id: str
    digest: str | None
    """Of the environment, `sha256:`...; null while it is still being recorded, or where it cannot be."""
    qualified: bool | None
    """The profile has passed `arcops qualify` in this very environment; null while that is not known."""
    since_qualified: tuple[str, ...] = ()
    """What has changed since the environment in which it last passed, a line each; empty where it never did. Of many
    the first."""
    changes: int | None = None
    """How many things have changed since; null where it never passed, or has passed in this one, or that one is not
    on record."""
    qualified_in: str | None = None
    """Digest of the environment in which it last passed; null where it never did."""
    unread: tuple[str, ...] = ()
    """What of it could not be read, a sentence each."""


class EnvironmentPage(Message, frozen=True, kw_only=True):
    """`GET /v1/environment`: the environment of what runs, all of it."""

    info: EnvironmentInfo | None
    """Null where nothing runs."""
    environment: msgspec.Raw = msgspec.Raw(b"null")
    """The environment as it is kept (`Environment` in core/evidence); null while it is not known."""

    def read(self) -> "Environment | None":
        """None while it is not known. Raises ArcopsError where it is no environment."""
        # Here and not above: hardly anybody who reads a status reads this.
        from arcops.core.evidence.environment import Environment

        try:
            return msgspec.json.decode(self.environment, type=Environment | None)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ArcopsError(f"the environment that the daemon keeps cannot be read: {error}") from error


class Status(Message, frozen=True, kw_only=True):
    """Everything about the instance, now."""

    instance: str
    at: float
    daemon: DaemonInfo
    phase: str
    phase_code: int
    since: float
    reason: str
    order: OrderInfo
    backend: BackendInfo | None
    start: StartInfo | None
    locks: tuple[str, ...]
    """Paths that this supervisor or its backend holds locked."""
    failure: FailureInfo | None
    retry_at: float | None
    settled: tuple[OutcomeInfo, ...]
    rates: Rates
    """Over the window that was asked for."""
    rates_age: float | None
    """Seconds since the newest scrape; null without any."""
    window: float
    lingering: bool | None
    """Whether the user's services survive a logout and start at boot; null where that cannot be read."""
    trouble: tuple[str, ...] = ()
    """What the daemon cannot do right now (a disk that is full, a log that cannot be read), in words."""
    survival: SurvivalInfo | None = None
    """Null from a daemon that does not say."""
    notes: tuple[str, ...] = ()
    """What it cannot see from where it is, for as long as it runs there: to be known, no reason to act."""
    environment: EnvironmentInfo | None = None
    """Of what runs; null where nothing does, or from a daemon that does not record it."""
    cards: tuple[CardGlance, ...] = ()
    """The cards of what runs or is ordered, at the daemon's last look; empty where there are none, or none was read."""
