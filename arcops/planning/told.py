"""A plan as it is told: to the shell as JSON, to the screen from a process of its own, to people in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from arcops import wire
from arcops.cards.own import members
from arcops.config.paths import Paths
from arcops.core.budget.ceiling import Ceiling
from arcops.core.budget.demand import Remembered, what_if
from arcops.core.budget.model import ShapeError, cache_bytes
from arcops.core.budget.plan import Basis, Demand, Fit, Item, Plan, Use, plan_of
from arcops.core.budget.wants import Wants, wants_of
from arcops.core.launch import Launch
from arcops.machine import process, record
from arcops.machine.gpu.base import MACHINE, Roots
from arcops.machine.record import LaunchRecord
from arcops.planning.plan import CPU_CACHE, NOTHING, PlanError, Subject, subject_of
from arcops.planning.remembered import recall
from arcops.planning.room import Place, place_of
from arcops.planning.speed import ceiling_for

DEPTHS: Final = (2_048, 32_768)
"""Tokens in the cache at which the ceiling is told, and at the whole context."""


@dataclass(frozen=True, slots=True)
class Question:
    """What if some settings were others; None leaves one as the profile has it."""

    context: int | None = None
    cache_dtype: str | None = None
    state_dtype: str | None = None
    tokens: int | None = None
    """Drafted for a step; 0 for none."""
    cards: int | None = None
    accepted: float | None = None
    """Mean accepted length, for the ceiling."""

    def change(self, wants: Wants) -> Wants:
        """The settings with those that are asked about. Raises PlanError for what makes no sense."""
        if self.tokens is not None and wants.drafting is None:
            raise PlanError("the profile does not speculate: there is no number of drafted tokens to change")
        for option, dtype in (("KV cache", self.cache_dtype), ("states", self.state_dtype)):
            _check_dtype(option, dtype)
        return what_if(
            wants,
            context=self.context,
            cache_dtype=self.cache_dtype,
            ssm_dtype=self.state_dtype,
            tokens=self.tokens,
            ranks=self.cards,
        )

    @property
    def changes(self) -> bool:
        """Anything of the launch."""
        return self != Question(accepted=self.accepted)


PLAIN: Final = Question()


def told(
    launch: Launch,
    paths: Paths,
    question: Question = PLAIN,
    decode: wire.PlanDecode | None = None,
    roots: Roots = MACHINE,
) -> wire.PlanInfo:
    """Read the launch's checkpoints and look at its cards. Raises PlanError; AskedError where
    only the question is wrong.

    It takes as long as a driver takes to answer: for a process that may end.
    """
    place = place_of(launch, partial(_ours, paths), roots)
    try:
        return _told(launch, place, question, decode, _known(launch, paths, question))
    except PlanError as error:
        if question.changes and _plannable(launch, place):
            raise AskedError(error.words) from error
        raise


class AskedError(PlanError):
    """There is a plan, but not of what was asked."""


def _known(launch: Launch, paths: Paths, question: Question) -> Remembered:
    """What an earlier launch took: it stands for other contexts and types, for no other number of cards or drafts."""
    if question.cards is not None or question.tokens is not None:
        return NOTHING
    return recall(str(paths.footprints), launch)


def _told(
    launch: Launch, place: Place, question: Question, decode: wire.PlanDecode | None, known: Remembered = NOTHING
) -> wire.PlanInfo:
    subject = subject_of(launch, question.change)
    demand = subject.demand(launch, place.room, known)
    plan = plan_of(demand, place.room)
    accepted = question.accepted or (None if decode is None else decode.tokens_per_step)
    drafting = subject.wants.drafting
    length = None if drafting is None else accepted or drafting.accepted
    shape = plan.shape
    return wire.PlanInfo(
        profile=launch.profile,
        cards=launch.cards,
        place=place.name,
        room=wire.PlanRoom(total=place.room.total, foreign=place.room.foreign, absent=place.absent),
        fit=plan.fit.value,
        reason=_reason(plan, place),
        advice=plan.advice,
        remarks=tuple(_remarks(demand, place)),
        items=tuple(_item(item, launch) for item in plan.items),
        total=plan.total,
        pool=plan.pool,
        cache=None
        if shape is None
        else wire.PlanCache(
            block_tokens=shape.block,
            block_bytes=shape.block_bytes,
            groups=len(shape.groups),
            blocks_a_request=shape.blocks_a_request,
            smallest_pool=shape.pool_for(),
            context=shape.context,
            tokens=plan.tokens,
            longest_context=plan.longest_context,
            most_sequences=plan.most_sequences,
        ),
        ceilings=tuple(
            wire.PlanCeiling(depth=one.depth, tokens_per_second=one.plain, speculative=one.speculative)
            for one in _ceilings(subject, plan, place, length)
        ),
        accepted=length,
        decode=decode,
    )


def _plannable(launch: Launch, place: Place) -> bool:
    try:
        _told(launch, place, PLAIN, None)
    except PlanError:
        return False
    return True


def _check_dtype(what: str, dtype: str | None) -> None:
    """Raises PlanError: a model without states would take any type of them."""
    try:
        if dtype is not None:
            cache_bytes(dtype, "bfloat16")
    except ShapeError as error:
        raise PlanError(f"{what}: {error.words}") from error


def _ours(paths: Paths) -> frozenset[int]:
    """The processes of what this instance runs: what they hold is given back before a launch begins. Raises OSError."""
    found = record.read(str(paths.record), process.boot_id())
    return members(found if isinstance(found, LaunchRecord) else None)


def _reason(plan: Plan, place: Place) -> str:
    if plan.fit is not Fit.UNKNOWN or plan.room.total is not None:
        return plan.reason
    return place.absent or plan.reason


def _remarks(demand: Demand, place: Place) -> Iterator[str]:
    context, longest = demand.settings.context, demand.longest
    if longest is not None and context > longest:
        yield f"the model was made for {longest:,} tokens: vLLM refuses {context:,} unless told otherwise"
    if place.room.total is not None and place.room.foreign is None:
        yield "who holds memory of the card now cannot be told: it is planned as if nobody did"
    if place.room.total is not None and place.bandwidth is None:
        yield "how fast the card reads its memory is not known here, and so no ceiling of decoding"


def _item(item: Item, launch: Launch) -> wire.PlanItem:
    if not launch.cards and item.use is Use.CACHE:
        item = replace(item, words=_cache_of_cpu(item, launch))
    return wire.PlanItem(name=item.name, bytes=item.size, basis=item.basis.value, use=item.use.value, words=item.words)


def _ceilings(subject: Subject, plan: Plan, place: Place, accepted: float | None) -> Sequence[Ceiling]:
    if place.bandwidth is None or plan.shape is None:
        return ()
    context, layers = plan.shape.context, subject.layers()
    depths = (*(depth for depth in DEPTHS if depth < context), context)
    return [
        ceiling_for(subject.wants, subject.target, subject.draft, layers, place.bandwidth, depth, accepted)
        for depth in depths
    ]


def _cache_of_cpu(item: Item, launch: Launch) -> str:
    """There is no share of a card there."""
    if item.basis is Basis.UNKNOWN:
        return "what vLLM takes of the machine's memory"
    by_flag = wants_of(launch.argv).pool is not None
    return item.words if by_flag or item.size == 0 else f"fixed by {CPU_CACHE}"
