"""How fast a launch could decode on its cards at most."""

from arcops.core.budget.ceiling import Ceiling, Reads, cache_read, ceiling_of, experts_read, state_read
from arcops.core.budget.demand import Checkpoint
from arcops.core.budget.layers import Layer, Part
from arcops.core.budget.wants import Wants
from arcops.core.budget.weights import Share, active

_ONE_PASS = frozenset({"dflash"})
"""Methods whose draft guesses all tokens of a step at once; the others run once for each token."""


def ceiling_for(
    wants: Wants,
    target: Checkpoint,
    draft: Checkpoint | None,
    layers: tuple[Layer, ...],
    bandwidth: float,
    depth: int,
    accepted: float | None,
) -> Ceiling:
    """At `depth` tokens in the cache; `accepted` is the mean accepted length, where it is known."""
    drafting = wants.drafting
    plain = _weights(target, 1)
    reads = Reads(plain, cache_read(layers, depth), state_read(layers))
    ceiling = ceiling_of(reads, bandwidth, depth)
    if drafting is None or accepted is None:
        return ceiling
    rounds = 1 if drafting.method in _ONE_PASS else drafting.tokens
    each = cache_read(layers, depth, Part.DRAFT) + _draft_weights(drafting.method, target, draft)
    step = Reads(_weights(target, drafting.tokens + 1), reads.cache, reads.state, rounds * each)
    speculative = ceiling_of(step, bandwidth, depth, accepted)
    return Ceiling(depth, ceiling.plain, speculative.speculative, step)


def _weights(checkpoint: Checkpoint, tokens: int) -> int:
    """Bytes of weights that a step of `tokens` tokens reads."""
    model, weights = checkpoint.model, checkpoint.weights
    one = active(weights, model.experts, model.experts_used, tied=model.tied)
    if tokens == 1 or not model.experts:
        return one
    experts = weights.of(Share.EXPERTS)
    once = experts * model.experts_used // model.experts
    wanted = experts_read(model.experts, model.experts_used, tokens)
    return one - once + int(experts * wanted / model.experts)


def _draft_weights(method: str, target: Checkpoint, draft: Checkpoint | None) -> int:
    if method == "mtp":
        return target.weights.of(Share.MTP)
    return 0 if draft is None else active(draft.weights, draft.model.experts, draft.model.experts_used, tied=False)
