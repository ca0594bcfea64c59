"""The plan of a profile: what each allocation takes on its cards, and whether that fits; `arcops plan --json`."""

import msgspec

from arcops.wire.message import Message


class PlanItem(msgspec.Struct, frozen=True, kw_only=True):
    """One allocation on each card."""

    name: str
    bytes: int | None
    basis: str
    """`exact`, `measured`, `estimated`, `unknown`."""
    use: str
    """`weights`, `cache`, `rest`."""
    words: str


class PlanRoom(msgspec.Struct, frozen=True, kw_only=True):
    """Of the card with the least free; bytes, null where unknown."""

    total: int | None
    foreign: int | None
    absent: str
    """Why it is not known; empty where it is."""


class PlanCache(msgspec.Struct, frozen=True, kw_only=True):
    """How the pool is divided, and what it holds."""

    block_tokens: int
    block_bytes: int
    groups: int
    blocks_a_request: int
    smallest_pool: int
    """Bytes for one request of the whole context, and the null block."""
    context: int
    tokens: int | None
    """As vLLM will report them."""
    longest_context: int | None
    most_sequences: int | None


class PlanCeiling(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second of one sequence that no implementation can exceed."""

    depth: int
    tokens_per_second: float
    speculative: float | None


class PlanDecode(msgspec.Struct, frozen=True, kw_only=True):
    """Generated tokens per second of one sequence."""

    tokens_per_second: float
    tokens_per_step: float | None
    """Mean accepted length; null without speculation."""
    source: str
    """`now`, or `history`: of the last day the fastest minute."""


class PlanInfo(Message, frozen=True, kw_only=True):
    """The plan of one profile, as of now."""

    profile: str
    cards: tuple[str, ...]
    place: str
    room: PlanRoom
    fit: str
    """`fits`, `close`, `does not fit`, `unknown`."""
    reason: str
    advice: tuple[str, ...]
    remarks: tuple[str, ...]
    """What is to be known beside, in words."""
    items: tuple[PlanItem, ...]
    total: int | None
    pool: int | None
    cache: PlanCache | None
    """Null for a model that keeps nothing of a sequence."""
    ceilings: tuple[PlanCeiling, ...]
    """Empty where the bandwidth of the cards is not known."""
    accepted: float | None
    """Mean accepted length that the speculative ceilings are for."""
    decode: PlanDecode | None = None
    """What was measured of this profile; null where nothing was."""
