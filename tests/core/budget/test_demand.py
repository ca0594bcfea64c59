"""From settings and checkpoints to a demand: vLLM's defaults, what drafts keep, what stands beside."""

from dataclasses import replace

import pytest

from arcops.core.budget.cache import StateMode
from arcops.core.budget.demand import (
    Checkpoint,
    Remembered,
    activations,
    batched_of,
    demand_of,
    drafting_layers,
    settings_of,
    what_if,
)
from arcops.core.budget.layers import Attention, DeltaNet, Part
from arcops.core.budget.model import ShapeError
from arcops.core.budget.plan import Basis, Use
from arcops.core.budget.wants import Drafting, Wants
from arcops.core.budget.weights import Share, Weights
from tests.core.budget.checkpoints import checkpoint, model

GIB = 1024**3
NOTHING = Remembered()
HYBRID, DENSE = checkpoint("tiny-hybrid"), checkpoint("tiny-dense")
MTP = Drafting("mtp", 3, None, None, None, None)
DFLASH = Drafting("dflash", 3, "/models/b", "fp8", None, None)


@pytest.mark.parametrize(
    ("kind", "wants", "block", "in_flight"),
    [
        ("cpu", Wants("m"), 128, 2048),
        ("cpu", Wants("m", asynchronous=True), 128, 2048),
        ("cpu", Wants("m", ranks=2), 128, 4096),
        ("xpu", Wants("m"), 64, 4096),
        ("xpu", Wants("m", asynchronous=False), 64, 2048),
        ("cuda", Wants("m", batched=512), 16, 1024),
        ("cuda", Wants("m", block=32), 32, 4096),
    ],
)
def test_what_is_not_set_is_what_vllm_takes_on_that_device(kind: str, wants: Wants, block: int, in_flight: int) -> None:
    found = settings_of(wants, kind, DENSE.model, 32 * GIB)
    assert (found.block, found.in_flight) == (block, in_flight)
    assert found.context == DENSE.model.context


def test_a_large_card_takes_larger_batches() -> None:
    sizes = [batched_of(Wants("m"), "cuda", card) for card in (None, 32 * GIB, 80 * GIB)]
    assert sizes == [2048, 2048, 8192]


def test_states_are_kept_at_blocks_wherever_there_is_a_prefix_cache() -> None:
    modes = [settings_of(Wants("m", prefix_caching=on), "xpu", HYBRID.model, None).mode for on in (None, True, False)]
    assert modes == [StateMode.ALIGN, StateMode.ALIGN, StateMode.NONE]


def test_without_any_word_on_the_context_there_is_no_plan() -> None:
    with pytest.raises(ShapeError, match="how long a context"):
        settings_of(Wants("m"), "xpu", replace(DENSE.model, context=None), None)


def test_a_draft_keeps_its_cache_in_its_own_type_and_a_head_in_the_targets() -> None:
    draft = drafting_layers(Wants("m", drafting=DFLASH), HYBRID.model, checkpoint("tiny-dflash"))
    assert {one.part for one in draft if isinstance(one, Attention)} == {Part.DRAFT}
    assert {one.value_bytes for one in draft if isinstance(one, Attention)} == {1}
    head = drafting_layers(Wants("m", cache_dtype="fp8", drafting=MTP), HYBRID.model, None)
    assert [one.value_bytes for one in head if isinstance(one, Attention)] == [1]


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_what_guesses_from_the_text_keeps_nothing(method: str) -> None:
    assert drafting_layers(Wants("m", drafting=replace(DFLASH, method=method)), HYBRID.model, None) == ()


def test_a_draft_model_that_was_not_read_is_refused() -> None:
    with pytest.raises(ShapeError, match="none was read"):
        drafting_layers(Wants("m", drafting=DFLASH), HYBRID.model, None)


def test_weights_are_told_by_whose_they_are_and_what_was_left_out() -> None:
    weights = Weights(((Share.TARGET, 80), (Share.MTP, 20)), ((Share.SIGHT, 7 * 1024**2),))
    demand = demand_of(
        Wants("m", drafting=DFLASH), "xpu", Checkpoint(HYBRID.model, weights), checkpoint("tiny-dflash"), NOTHING, None
    )
    told = {item.name: item.size for item in demand.items if item.use is Use.WEIGHTS}
    assert told == {"target's weights": 80, "MTP head": 20, "draft's weights": 0}
    assert "without vision and audio (7 MiB)" in demand.items[0].words


def test_what_was_measured_takes_the_place_of_what_was_estimated() -> None:
    demand = demand_of(Wants("m"), "xpu", DENSE, None, Remembered(weights=5, beside=7, when="on a day"), None)
    assert [(item.size, item.basis) for item in demand.items] == [(5, Basis.MEASURED), (7, Basis.MEASURED)]
    assert all("on a day" in item.words for item in demand.items)
    partly = demand_of(Wants("m"), "xpu", DENSE, None, Remembered(beside=7), None)
    assert [item.basis for item in partly.items] == [Basis.EXACT, Basis.MEASURED]


def test_activations_grow_with_the_batch_and_shrink_with_cards() -> None:
    dense = model("tiny-dense")
    small, large = activations(dense, Wants("m"), 1024), activations(dense, Wants("m"), 8192)
    assert 0 < small < large
    assert activations(dense, Wants("m", ranks=2), 8192) < large
    assert activations(dense, Wants("m", drafting=MTP), 1024) > small


def test_a_draft_follows_its_targets_type_of_activations() -> None:
    wants = Wants("m", dtype="float32", drafting=replace(DFLASH, cache_dtype=None))
    demand = demand_of(wants, "xpu", HYBRID, checkpoint("tiny-dflash"), NOTHING, None)
    assert {one.value_bytes for one in demand.layers if isinstance(one, Attention)} == {4}


def test_what_if_changes_what_is_asked_and_nothing_else() -> None:
    wants = Wants("m", context=10, drafting=MTP)
    assert what_if(wants) == wants
    changed = what_if(wants, context=20, cache_dtype="fp8", ssm_dtype="float16", tokens=5, ranks=2)
    assert (changed.context, changed.cache_dtype, changed.ranks) == (20, "fp8", 2)
    assert (changed.state_dtype, changed.ssm_dtype) == ("float16", "float16")
    assert changed.drafting == replace(MTP, tokens=5)
    assert what_if(wants, tokens=0).drafting is None
    assert what_if(Wants("m"), tokens=5).drafting is None


def test_states_of_half_precision_are_half_as_large() -> None:
    def states(wants: Wants) -> set[int]:
        layers = demand_of(wants, "xpu", HYBRID, None, NOTHING, None).layers
        return {one.state_bytes for one in layers if isinstance(one, DeltaNet)}

    assert states(Wants("m")) == {4}
    assert states(what_if(Wants("m"), ssm_dtype="float16")) == {2}
