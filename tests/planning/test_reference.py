"""The reference deployment: a 35B mixture in INT4 with a DFlash2 draft, on one card of 32 GB."""

from dataclasses import replace

import pytest

from arcops.core.budget.demand import Remembered
from arcops.core.budget.plan import MIB, Basis, Fit, Plan, Room
from arcops.core.budget.wants import Wants
from arcops.core.launch import Launch
from arcops.planning import ceiling_for, plan_for, subject_of
from tests.planning.reference import checkpoints

CARD = Room(total=32_656 * MIB, foreign=0)
"""Of a card of 32 GB, what a process can have."""
RECORDED = 30_171 * MIB
"""The peak that was recorded of the deployment."""
BANDWIDTH = 608e9
BESIDE = Remembered(beside=RECORDED - (19_946 + 736 + 6_656) * MIB, when="by the recorded peak")
"""What the recorded peak leaves for activations, graphs and the runtime."""


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    target, draft = checkpoints(tmp_path_factory.mktemp("reference"))
    speculative = f'{{"method":"dflash","model":"{draft}","num_speculative_tokens":3,"kv_cache_dtype":"fp8"}}'
    return Launch(
        profile="dflash2",
        argv=(
            *("vllm", "serve", str(target), "--language-model-only"),
            *("--max-model-len", "262144", "--max-num-seqs", "1", "--max-num-batched-tokens", "8192"),
            *("--async-scheduling", "--block-size", "64", "--kv-cache-memory-bytes", "6979321856"),
            *("--kv-cache-dtype", "auto", "--mamba-cache-dtype", "float16", "--mamba-ssm-cache-dtype", "float16"),
            *("--enable-prefix-caching", "--speculative-config", speculative),
        ),
        environment=(("ZE_AFFINITY_MASK", "0"),),
        setup=None,
        host="127.0.0.1",
        port=8000,
        served_name="qwen-int4",
        api_key_file=None,
        locks=(),
        cards=("0000:03:00.0",),
    )


def size(plan: Plan, name: str) -> int:
    found = next(item.size for item in plan.items if item.name == name)
    assert found is not None
    return found


def test_it_is_said_to_fit_and_comes_close_to_what_was_recorded(launch: Launch) -> None:
    plan = plan_for(launch, CARD)
    assert plan.fit is Fit.FITS
    assert plan.total is not None
    assert plan.total == pytest.approx(RECORDED, rel=0.05)
    assert plan.longest_context == 262_144


def test_item_by_item(launch: Launch) -> None:
    plan = plan_for(launch, CARD)
    # 32.2 thousand million weights of experts at half a byte and a scale for 128 of them, and the rest beside.
    assert size(plan, "target's weights") == pytest.approx(19_946 * MIB, rel=0.001)
    assert size(plan, "draft's weights") == pytest.approx(736 * MIB, rel=0.001)
    assert size(plan, "KV cache") == 6_979_321_856
    assert {item.name for item in plan.items if item.basis is Basis.EXACT} == {
        "target's weights",
        "draft's weights",
        "KV cache",
    }


def test_what_an_earlier_launch_took_stands_in_place_of_estimates(launch: Launch) -> None:
    plan = plan_for(launch, CARD, Remembered(weights=20_500 * MIB, beside=3_015 * MIB, when="seen"))
    assert plan.total == 20_500 * MIB + 3_015 * MIB + 6_979_321_856
    assert plan.fit is Fit.FITS
    assert all(item.basis is not Basis.ESTIMATED for item in plan.items)


@pytest.mark.parametrize(
    ("states", "draft_cache", "tokens", "fit"),
    [
        # What was deployed fits with room to spare; so would states in single precision, by 5 % of the pool,
        ("float16", "fp8", 3, Fit.FITS),
        ("float32", "fp8", 3, Fit.FITS),
        # but not with deeper drafts, which keep a state for each token that is guessed,
        ("float16", "fp8", 8, Fit.FITS),
        ("float32", "fp8", 8, Fit.DOES_NOT),
        # and not with the draft's cache in the type of the target's.
        ("float32", None, 3, Fit.DOES_NOT),
        ("float16", None, 3, Fit.DOES_NOT),
    ],
)
def test_with_automatic_sizing_single_precision_is_the_first_that_does_not_fit(
    launch: Launch, states: str, draft_cache: str | None, tokens: int, fit: Fit
) -> None:
    """The report says that states in FP32 with automatic sizing failed at the full context; not at what depth."""

    def change(wants: Wants) -> Wants:
        assert wants.drafting is not None
        drafting = replace(wants.drafting, cache_dtype=draft_cache, tokens=tokens)
        return replace(wants, pool=None, ssm_dtype=states, state_dtype=states, drafting=drafting)

    plan = plan_for(launch, CARD, BESIDE, change)
    assert plan.fit is fit, plan.reason
    assert (plan.longest_context == 262_144) is (fit is Fit.FITS)
    if fit is Fit.DOES_NOT:
        assert "262,144 tokens" in plan.reason
        assert any("max_model_len" in advice for advice in plan.advice)


def test_with_a_stranger_on_the_card_it_does_not_fit_and_the_numbers_are_named(launch: Launch) -> None:
    plan = plan_for(launch, replace(CARD, foreign=6_000 * MIB))
    assert plan.fit is Fit.DOES_NOT
    assert "6,000 MiB" in plan.reason
    assert any("arcops gpu" in advice for advice in plan.advice)


def test_the_ceiling_of_decoding_is_above_what_was_measured(launch: Launch) -> None:
    """106 to 112 tokens a second were recorded at 133,745 tokens, with about three tokens a step."""
    subject = subject_of(launch)
    ceiling = ceiling_for(subject.wants, subject.target, subject.draft, subject.layers(), BANDWIDTH, 133_745, 3.0)
    assert ceiling.speculative is not None
    assert ceiling.speculative > ceiling.plain
    assert ceiling.speculative > 112
