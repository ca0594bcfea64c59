"""Each speculative method: the JSON that vLLM is given, and what it refuses."""

import json
from typing import Any

import pytest

from arcops.core.speculation import METHODS, config_of, faults_of, method_of
from arcops.core.speculation.section import Speculation


def section(**settings: Any) -> Speculation:
    return Speculation.model_validate(settings)


def test_dflash2_is_the_json_of_the_reference_deployment() -> None:
    made = section(method="dflash", model="qwen-dflash2", num_tokens=3, kv_cache_dtype="fp8")
    assert faults_of(made) == []
    config = config_of(made, "/opt/models/qwen-dflash2")
    assert json.dumps(config, indent=2) == (
        "{\n"
        '  "method": "dflash",\n'
        '  "model": "/opt/models/qwen-dflash2",\n'
        '  "num_speculative_tokens": 3,\n'
        '  "kv_cache_dtype": "fp8"\n'
        "}"
    )


@pytest.mark.parametrize(
    ("settings", "draft", "expected"),
    [
        ({"method": "none"}, None, None),
        ({"method": "mtp", "num_tokens": 2}, None, {"method": "mtp", "num_speculative_tokens": 2}),
        (
            {"method": "mtp", "num_tokens": 3, "schedule": ((1, 8, 3), (9, 16, 1), (17, 64, 0))},
            None,
            {
                "method": "mtp",
                "num_speculative_tokens": 3,
                "num_speculative_tokens_per_batch_size": ((1, 8, 3), (9, 16, 1), (17, 64, 0)),
            },
        ),
        (
            {"method": "draft_model", "model": "d", "num_tokens": 4, "draft_tensor_parallel_size": 1},
            "/m/d",
            {"method": "draft_model", "model": "/m/d", "num_speculative_tokens": 4, "draft_tensor_parallel_size": 1},
        ),
        (
            {"method": "ngram", "num_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
            None,
            {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4},
        ),
        (
            {"method": "eagle3", "model": "e", "num_tokens": 2, "draft_sample_method": "greedy"},
            "/m/e",
            {"method": "eagle3", "model": "/m/e", "num_speculative_tokens": 2, "draft_sample_method": "greedy"},
        ),
    ],
)
def test_each_method_gives_vllm_its_own_names(
    settings: dict[str, object], draft: str | None, expected: dict[str, object] | None
) -> None:
    made = section(**settings)
    assert faults_of(made) == []
    assert config_of(made, draft) == expected


def test_synthetic_verification_with_one_target_is_no_fault() -> None:
    for target in ({"synthetic_acceptance_length": 2.5}, {"synthetic_acceptance_rates": (0.9, 0.5)}):
        assert faults_of(section(method="mtp", num_tokens=2, rejection_sample_method="synthetic", **target)) == []


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({"method": "none", "num_tokens": 3}, ["num_tokens"]),
        ({"method": "none", "model": "d"}, ["model"]),
        ({"method": "mtp"}, ["num_tokens"]),
        ({"method": "mtp", "num_tokens": 1, "model": "d"}, ["model"]),
        ({"method": "dflash"}, ["model", "num_tokens"]),
        ({"method": "draft_model", "num_tokens": 1}, ["model"]),
        ({"method": "eagle3", "num_tokens": 1}, ["model"]),
        ({"method": "ngram", "num_tokens": 1}, ["prompt_lookup_max"]),
        ({"method": "ngram", "num_tokens": 1, "prompt_lookup_max": 2, "kv_cache_dtype": "fp8"}, ["kv_cache_dtype"]),
        ({"method": "ngram", "num_tokens": 1, "prompt_lookup_max": 2, "prompt_lookup_min": 3}, ["prompt_lookup_min"]),
        ({"method": "mtp", "num_tokens": 2, "schedule": ((1, 4, 3),)}, ["schedule.0"]),
        ({"method": "mtp", "num_tokens": 3, "schedule": ((2, 4, 3),)}, ["schedule.0"]),
        ({"method": "mtp", "num_tokens": 3, "schedule": ((1, 4, 3), (6, 8, 1))}, ["schedule.1"]),
        ({"method": "mtp", "num_tokens": 3, "schedule": ((1, 4, 3), (4, 8, 1))}, ["schedule.1"]),
        ({"method": "mtp", "num_tokens": 3, "schedule": ((1, 4, 3), (5, 4, 1))}, ["schedule.1"]),
        ({"method": "mtp", "num_tokens": 3, "synthetic_acceptance_length": 2.0}, ["synthetic_acceptance_length"]),
        ({"method": "mtp", "num_tokens": 3, "rejection_sample_method": "synthetic"}, ["rejection_sample_method"]),
        (
            {
                "method": "mtp",
                "num_tokens": 2,
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_length": 3.5,
            },
            ["synthetic_acceptance_length"],
        ),
        (
            {
                "method": "mtp",
                "num_tokens": 2,
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_rates": (0.2, 0.5, 0.1),
            },
            ["synthetic_acceptance_rates", "synthetic_acceptance_rates"],
        ),
    ],
)
def test_what_a_method_cannot_use_is_a_fault_of_its_key(settings: dict[str, object], keys: list[str]) -> None:
    assert [fault.key for fault in faults_of(section(**settings))] == keys


def test_every_method_that_speculates_refuses_min_p_and_logit_bias() -> None:
    for name, method in METHODS.items():
        assert method.forbids == (frozenset() if name == "none" else {"min_p", "logit_bias"})


def test_the_list_and_the_profiles_key_know_the_same_methods() -> None:
    names = Speculation.model_json_schema()["properties"]["method"]["enum"]
    assert sorted(names) == sorted(METHODS)
    assert all(method_of(section(method=name)).name == name for name in names)


def test_methods_only_know_keys_of_the_section() -> None:
    known = set(Speculation.model_fields)
    for method in METHODS.values():
        assert method.keys <= known
        assert method.required <= method.keys
