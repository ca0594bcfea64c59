"""From what a command line wants and what its checkpoints are to a demand: layers, settings, and everything beside."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from arcops.core.budget.cache import Settings, StateMode
from arcops.core.budget.layers import Layer, Part
from arcops.core.budget.model import Model, ShapeError, layers_of, mtp_layers_of
from arcops.core.budget.plan import Basis, Demand, Item, Use, mib
from arcops.core.budget.wants import Wants
from arcops.core.budget.weights import Share, Weights

_LARGE_CARD: Final = 70 * 1024**3
"""Bytes from which on vLLM takes larger batches by itself."""
_CONTEXT: Final = {"cuda": 1100 * 1024**2, "xpu": 1000 * 1024**2, "cpu": 0}
"""Bytes of a process' context and its libraries on a card. CUDA's was seen on an H200; XPU's is of the same order."""
_ELEMENT: Final = 2
_LOGIT: Final = 4
_PASSES: Final = 8
"""Hidden states that are alive at once in one layer, roughly."""


@dataclass(frozen=True, slots=True)
class Platform:
    """What vLLM takes for itself on a kind of device."""

    block: int
    """Tokens of a block unless set."""
    kernel_block: int
    asynchronous: bool
    """Schedules ahead unless told not to."""


PLATFORMS: Final[Mapping[str, Platform]] = {
    "cpu": Platform(block=128, kernel_block=32, asynchronous=False),
    "xpu": Platform(block=64, kernel_block=64, asynchronous=True),
    "cuda": Platform(block=16, kernel_block=16, asynchronous=True),
}
"""Source: platforms/cpu.py and interface.py of vLLM 0.29."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model's shape, and its files' tensors."""

    model: Model
    weights: Weights


@dataclass(frozen=True, slots=True)
class Remembered:
    """What an earlier launch of the same profile and runtime took. None is unknown."""

    weights: int | None = None
    """vLLM's "Model loading took", target and draft together."""
    beside: int | None = None
    """Peak of the card above weights and cache: activations, graphs, the runtime's context."""
    when: str = ""
    """For a person."""


def demand_of(
    wants: Wants, kind: str, target: Checkpoint, draft: Checkpoint | None, remembered: Remembered, card: int | None
) -> Demand:
    """What a launch takes. `card` are the bytes of a card, where they are known. Raises ShapeError."""
    model = _as(target.model, wants.dtype)
    weights = _weight_items(target, draft, remembered)
    return Demand(
        layers=layers_for(wants, target, draft),
        settings=settings_of(wants, kind, model, card),
        items=(*weights, *_beside(wants, kind, model, batched_of(wants, kind, card), remembered)),
        pool=wants.pool,
        utilisation=wants.utilisation,
        sequences=wants.sequences,
        longest=model.context,
    )


def layers_for(wants: Wants, target: Checkpoint, draft: Checkpoint | None) -> tuple[Layer, ...]:
    """The target's layers, and those that draft, on one rank. Raises ShapeError."""
    model = _as(target.model, wants.dtype)
    own = layers_of(model, wants.ranks, wants.cache_dtype, wants.state_dtype, wants.ssm_dtype)
    return (*own, *drafting_layers(wants, model, draft))


def settings_of(wants: Wants, kind: str, model: Model, card: int | None) -> Settings:
    """What the cache's shape depends on, with vLLM's defaults where nothing is set. Raises ShapeError."""
    platform = PLATFORMS[kind]
    context = wants.context or model.context
    if context is None:
        raise ShapeError("neither the profile nor the model says how long a context may be")
    batched = batched_of(wants, kind, card)
    ahead = platform.asynchronous if wants.asynchronous is None else wants.asynchronous and kind != "cpu"
    return Settings(
        context=context,
        block=wants.block or platform.block,
        mode=_mode(wants),
        speculative=wants.drafting.tokens if wants.drafting is not None else 0,
        in_flight=batched * (2 if ahead else 1),
        kernel_block=platform.kernel_block,
    )


def batched_of(wants: Wants, kind: str, card: int | None) -> int:
    """Tokens of one step at most: what is set, or what vLLM takes for an API server on such a card."""
    if wants.batched is not None:
        return wants.batched
    if kind == "cpu":
        return 2048 * wants.ranks
    return 2048 if card is None or card < _LARGE_CARD else 8192


def drafting_layers(wants: Wants, target: Model, draft: Checkpoint | None) -> tuple[Layer, ...]:
    """What the draft keeps of a sequence. Raises ShapeError."""
    drafting = wants.drafting
    if drafting is None or drafting.method in ("ngram", "suffix"):
        return ()
    dtype = drafting.cache_dtype or wants.cache_dtype
    if drafting.method == "mtp":
        return mtp_layers_of(target, wants.ranks, dtype)
    if draft is None:
        raise ShapeError(f"the method {drafting.method} has a draft model, and none was read")
    return layers_of(_as(draft.model, wants.dtype), drafting.ranks or wants.ranks, dtype, part=Part.DRAFT)


def _as(model: Model, dtype: str | None) -> Model:
    """The model with the type of activations that is asked for; a draft follows its target."""
    return model if dtype in (None, "auto") else replace(model, dtype=dtype)


def _mode(wants: Wants) -> StateMode:
    """With a prefix cache always `align`: vLLM 0.29 makes that of `none`, and of `all` for models that have no such.

    None with gated delta nets has (SupportsMambaPrefixCaching). Source: MambaModelConfig.verify_and_update_config.
    """
    return StateMode.NONE if wants.prefix_caching is False else StateMode.ALIGN


def _weight_items(target: Checkpoint, draft: Checkpoint | None, remembered: Remembered) -> tuple[Item, ...]:
    """From the files' headers; an earlier launch's own word stands for all of it where there is one."""
    if remembered.weights is not None:
        return (Item("weights", remembered.weights, Basis.MEASURED, f"vLLM's word, {remembered.when}", Use.WEIGHTS),)
    weights = target.weights
    head = weights.of(Share.MTP)
    skipped = ", ".join(f"without {share.value} ({mib(size)})" for share, size in weights.skipped)
    counted = "by the files' headers"
    found = [Item("target's weights", weights.total - head, Basis.EXACT, skipped or counted, Use.WEIGHTS)]
    if head:
        found.append(Item("MTP head", head, Basis.EXACT, counted, Use.WEIGHTS))
    if draft is not None:
        found.append(Item("draft's weights", draft.weights.total, Basis.EXACT, counted, Use.WEIGHTS))
    return tuple(found)


def _beside(wants: Wants, kind: str, model: Model, batched: int, remembered: Remembered) -> tuple[Item, ...]:
    if remembered.beside is not None:
        words = f"peak beside weights and cache, {remembered.when}"
        return (Item("activations, graphs, runtime", remembered.beside, Basis.MEASURED, words),)
    words = f"for {batched:,} batched tokens; {'without graphs' if wants.eager else 'graphs are not known'}"
    return (
        Item("activations", activations(model, wants, batched), Basis.ESTIMATED, words),
        Item("runtime's context", _CONTEXT[kind], Basis.ESTIMATED, "the driver's and its libraries' own"),
    )


def activations(model: Model, wants: Wants, batched: int) -> int:
    """Bytes that a step of `batched` tokens has alive at once, roughly: one layer's, and the logits."""
    width = (2 * model.intermediate) // wants.ranks
    if model.experts:
        width = max(width, model.experts_used * (model.hidden + 3 * model.expert_width) // wants.ranks)
    layer = batched * (_PASSES * model.hidden + width) * _ELEMENT
    tokens = 1 if wants.drafting is None else 1 + wants.drafting.tokens
    logits = (wants.sequences or 256) * tokens * model.vocabulary * _LOGIT * 2
    return layer + logits


def what_if(
    wants: Wants,
    *,
    context: int | None = None,
    cache_dtype: str | None = None,
    ssm_dtype: str | None = None,
    tokens: int | None = None,
    ranks: int | None = None,
) -> Wants:
    """The same with some settings changed; None leaves one as it is. No tokens mean no speculation."""
    drafting = wants.drafting
    if tokens is not None and drafting is not None:
        drafting = replace(drafting, tokens=tokens) if tokens > 0 else None
    return replace(
        wants,
        context=wants.context if context is None else context,
        cache_dtype=wants.cache_dtype if cache_dtype is None else cache_dtype,
        state_dtype=wants.state_dtype if ssm_dtype is None else ssm_dtype,
        ssm_dtype=wants.ssm_dtype if ssm_dtype is None else ssm_dtype,
        ranks=wants.ranks if ranks is None else ranks,
        drafting=drafting,
    )
