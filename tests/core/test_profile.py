"""A profile by itself: units, keys, and what is wrong between keys."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from arcops.core.profile import Profile, faults, is_loopback, json_schema
from arcops.core.profile.flags import SERVER_FLAGS, Form, objection
from arcops.core.profile.units import parse_duration, parse_size

FLAGS = frozenset((Path(__file__).parents[1] / "data/vllm-flags/serve_0.29.0.txt").read_text().split())


def profile(**sections: Any) -> Profile:
    """A profile on one Intel card, with `sections` over it."""
    return Profile.model_validate({"device": {"kind": "xpu"}, "model": {"path": "org/name"}, **sections})


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("6.5GiB", 6979321856),
        ("1 KiB", 1024),
        ("512MB", 512_000_000),
        ("7B", 7),
        ("0.1GiB", 107374182),
        ("2TiB", 2 << 40),
    ],
)
def test_a_size_is_read_exactly(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "6,5GiB", "-1GiB", "1e3GiB", "6.5 gib", "6.5GiB\n", "1" * 40 + "GiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a size is written like"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60), ("10m", 600), ("1h30m", 5400), ("250ms", 0.25), ("1.5s", 1.5)]
)
def test_a_duration_is_read_exactly(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "1", "10 m", "1d", "-1s", "1s ", "inf"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration is written like"):
        parse_duration(text)


@given(st.text(max_size=20))
def test_any_text_is_a_size_and_a_duration_or_a_value_error(text: str) -> None:
    for parse in (parse_size, parse_duration):
        try:
            assert parse(text) >= 0
        except ValueError:
            continue


def test_sizes_and_durations_may_also_be_numbers() -> None:
    made = profile(cache={"kv_cache_memory": 1024}, limits={"drain": 5, "probe": 1.5})
    assert (made.cache.kv_cache_memory, made.limits.drain, made.limits.probe) == (1024, 5.0, 1.5)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("ZE_AFFINITY_MASK", "device.cards"),
        ("ZE_ENABLE_PCI_ID_DEVICE_ORDER", "device.cards"),
        ("CUDA_VISIBLE_DEVICES", "device.cards"),
        ("CUDA_DEVICE_ORDER", "device.cards"),
        ("VLLM_DP_SIZE", "device.cards"),
        ("VLLM_API_KEY", "server.api_key_file"),
    ],
)
def test_a_variable_that_a_key_stands_for_is_refused_by_the_keys_name(name: str, instead: str) -> None:
    found = faults(profile(runtime={"env": {name: "0", "ONEAPI_DEVICE_SELECTOR": "level_zero:gpu"}}))
    assert [fault.key for fault in found] == [f"runtime.env.{name}"]
    assert instead in found[0].message


def test_a_plain_profile_has_no_faults_and_sensible_defaults() -> None:
    made = profile()
    assert faults(made) == []
    assert made.card_count == 1
    assert made.tensor_parallel_size == 1
    assert made.served_name == "name"
    assert (made.server.host, made.server.port) == ("127.0.0.1", 8000)


def test_the_cpu_has_no_cards() -> None:
    assert profile(device={"kind": "cpu"}).card_count == 0
    assert profile(device={"kind": "cpu"}).tensor_parallel_size == 1


def test_cards_are_sorted_by_address_and_all_of_them_are_used() -> None:
    made = profile(device={"kind": "xpu", "cards": ("0000:0A:00.0", "0000:03:00.0")})
    assert made.device.cards == ("0000:03:00.0", "0000:0a:00.0")
    assert made.tensor_parallel_size == 2


@pytest.mark.parametrize(
    "cards", [-1, 17, True, "0000:03:00.0", ("3:0.0",), ("0000:03:00.0", "0000:03:00.0"), (), (3,), 1.0, {"a": 1}]
)
def test_what_are_no_cards_is_refused(cards: object) -> None:
    with pytest.raises(ValidationError, match="cards are a number"):
        profile(device={"kind": "xpu", "cards": cards})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("server", "port", 0),
        ("server", "port", 65536),
        ("server", "port", "8000"),
        ("server", "host", "a b"),
        ("cache", "block_size", 0),
        ("cache", "gpu_memory_utilization", 1.5),
        ("cache", "kv_cache_memory", 0),
        ("cache", "kv_cache_memory", True),
        ("cache", "prefix_caching", 1),
        ("scheduling", "max_num_seqs", 0),
        ("scheduling", "max_model_len", 1.0),
        ("compilation", "cudagraph_mode", "full_decode_only"),
        ("compilation", "capture_sizes", ()),
        ("compilation", "capture_sizes", (0,)),
        ("model", "served_name", "-x"),
        ("model", "served_name", "a b"),
        ("limits", "drain", -1),
        ("limits", "drain", float("inf")),
        ("limits", "drain", "ten minutes"),
        ("restart", "per_hour", -1),
        ("runtime", "env", {"A": True}),
        ("runtime", "env", {"A B": "x"}),
        ("runtime", "env", {"A=B": "x"}),
        ("speculation", "method", "magic"),
        ("speculation", "schedule", ((1, 2),)),
    ],
)
def test_a_value_out_of_its_bounds_is_refused(section: str, key: str, value: object) -> None:
    base: dict[str, object] = {"path": "x"} if section == "model" else {}
    with pytest.raises(ValidationError) as caught:
        profile(**{section: {**base, key: value}})
    assert all(error["loc"][:2] == (section, key) for error in caught.value.errors())


@pytest.mark.parametrize(
    "known",
    [
        {"equals": "2"}, {"prompt": "", "equals": "2"},
        {"prompt": "1,", "equals": " "}, {"prompt": "1,", "contains": ""},
        {"prompt": "1,", "equals": "2", "max_tokens": 0}, {"prompt": "1,", "equals": "2", "max_tokens": 300},
    ],
    ids=["no question", "an empty one", "white space", "nothing is in everything", "no token", "an essay"],
)  # fmt: skip
def test_a_known_answer_that_could_not_be_told_is_refused(known: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        profile(checks={"known_answer": known})


def test_a_number_in_the_environment_is_text() -> None:
    assert profile(runtime={"env": {"VLLM_USE_AOT_COMPILE": 0}}).runtime.env == {"VLLM_USE_AOT_COMPILE": "0"}


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"device": {"kind": "cpu", "cards": 1}}, "device.cards"),
        ({"device": {"kind": "cpu", "allow_holders": ("Xorg",)}}, "device.allow_holders"),
        ({"device": {"kind": "cpu", "allow_memory": 1 << 30}}, "device.allow_memory"),
        ({"device": {"kind": "xpu", "cards": 0}}, "device.cards"),
        ({"parallel": {"tensor_parallel_size": 2}}, "parallel.tensor_parallel_size"),
        ({"server": {"host": "0.0.0.0"}}, "server.host"),
        ({"server": {"host": "0.0.0.0", "expose": True}}, "server.host"),
        ({"server": {"host": "0.0.0.0", "api_key_file": "/k"}}, "server.host"),
        ({"server": {"host": "localhost", "expose": True}}, "server.expose"),
        ({"cache": {"kv_cache_memory": 1, "gpu_memory_utilization": 0.5}}, "cache.gpu_memory_utilization"),
        ({"cache": {"prefix_caching": False, "mamba_cache_mode": "align"}}, "cache.mamba_cache_mode"),
        ({"scheduling": {"max_num_seqs": 9, "max_num_batched_tokens": 8}}, "scheduling.max_num_batched_tokens"),
        ({"compilation": {"enforce_eager": True, "cudagraph_mode": "FULL"}}, "compilation.cudagraph_mode"),
        ({"compilation": {"enforce_eager": True, "capture_sizes": (1,)}}, "compilation.capture_sizes"),
        ({"compilation": {"capture_sizes": (2, 1)}}, "compilation.capture_sizes"),
        ({"speculation": {"method": "dflash", "num_tokens": 3}}, "speculation.model"),
        (
            {"speculation": {"method": "dflash", "model": "d", "num_tokens": 3, "draft_tensor_parallel_size": 2}},
            "speculation.draft_tensor_parallel_size",
        ),
        ({"limits": {"shutdown_timeout": 61}}, "limits.shutdown_timeout"),
        ({"limits": {"shutdown_timeout": 1.5}}, "limits.shutdown_timeout"),
        ({"limits": {"start_stall": 0}}, "limits.start_stall"),
        ({"restart": {"first_delay": 301}}, "restart.first_delay"),
        ({"extra_args": ("value",)}, "extra_args.0"),
        ({"extra_args": ("--seed", "1", "--port=9")}, "extra_args.2"),
        ({"checks": {"known_answer": {"prompt": "1, 2,"}}}, "checks.known_answer"),
        ({"checks": {"known_answer": {"prompt": "1,", "equals": "2", "contains": "2"}}}, "checks.known_answer"),
        (
            {"qualification": {"long_tokens": 4096}, "scheduling": {"max_model_len": 4096}},
            "qualification.long_tokens",
        ),
        ({"qualification": {"tools": True}}, "qualification.tools"),
    ],
)
def test_what_contradicts_is_a_fault_of_one_key(sections: dict[str, object], key: str) -> None:
    assert [fault.key for fault in faults(profile(**sections))] == [key]


def test_an_exposed_server_with_a_key_is_no_fault() -> None:
    assert faults(profile(server={"host": "0.0.0.0", "expose": True, "api_key_file": "/k"})) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.3", "localhost", "LOCALHOST", "::1"])
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example.org", "127", "127.0.0.256", "example.org"]
)
def test_what_others_can_reach_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("argument", "key"),
    [
        ("--max-model-len", "scheduling.max_model_len"),
        ("--max-model-len=8", "scheduling.max_model_len"),
        ("--max_model_len", "scheduling.max_model_len"),
        ("--max-model", "scheduling.max_model_len"),
        ("--no-enable-prefix-caching", "cache.prefix_caching"),
        ("--no-async-scheduling", "scheduling.async_scheduling"),
        ("--no-async", "scheduling.async_scheduling"),
        ("-tp", "parallel.tensor_parallel_size"),
        ("-tp=2", "parallel.tensor_parallel_size"),
        ("-q", "model.quantization"),
        ("-qfp8", "model.quantization"),
        ("-cc", "compilation.cudagraph_mode"),
        ("-cc.mode=3", "compilation.cudagraph_mode"),
        ("--compilation-config.mode", "compilation.cudagraph_mode"),
        ("--cudagraph-capture-sizes", "compilation.capture_sizes"),
        ("--speculative-config.method", "speculation"),
        ("-sc", "speculation"),
        ("--spec-method", "speculation.method"),
        ("--api-key", "server.api_key_file"),
        ("--api_key=secret", "server.api_key_file"),
        ("--uds", "server.host"),
        ("--model=x", "model.path"),
        ("--config", "write the settings into the profile"),
        ("--hf-token=x", "a secret"),
        ("--", "it ends the flags"),
        ("-t", "parallel.tensor_parallel_size"),
        ("-t=2", "parallel.tensor_parallel_size"),
        ("-s", "speculation"),
        ("-c", "compilation.cudagraph_mode"),
        ("--device-ids", "device.cards"),
        ("--pipeline-parallel-size=2", "device.cards"),
        ("--pipeline", "device.cards"),
        ("-pp", "device.cards"),
        ("-p", "device.cards"),
        ("-pcp=2", "device.cards"),
        ("--prefill_context_parallel_size", "device.cards"),
        ("-dp", "device.cards"),
        ("-dpl", "device.cards"),
        ("--data-parallel-size-local", "device.cards"),
        ("--no-data-parallel-hybrid-lb", "device.cards"),
        ("--enable-elastic-ep", "device.cards"),
        ("--nnodes", "one machine"),
        ("-n", "one machine"),
        ("-n2", "one machine"),
        ("-r1", "one machine"),
        ("--headless", "one machine"),
        ("--distributed-executor-backend=ray", "cannot see"),
        ("--api-server-count", "one API server"),
        ("-asc", "one API server"),
        ("-h", "help"),
    ],
)
def test_a_flag_that_a_key_stands_for_is_refused_by_the_keys_name(argument: str, key: str) -> None:
    reason = objection(argument)
    assert reason is not None
    assert key in reason


@pytest.mark.parametrize(
    "argument",
    [
        "--seed",
        "--seed=1",
        "1",
        "-1",
        "-0.5",
        "--mamba-block-size",
        "--max-logprobs",
        "-O3",
        "-dcp",
        "-ep",
        "-ac",
        "-dc",
        "x.y=--port",
    ],
)
def test_other_flags_and_values_may_stand_in_extra_args(argument: str) -> None:
    assert objection(argument) is None


def test_every_flag_of_a_key_is_one_of_vllms() -> None:
    for flag in SERVER_FLAGS:
        assert flag.name in FLAGS
        assert (flag.name.replace("--", "--no-", 1) in FLAGS) == (flag.form is Form.EITHER)


def test_no_flag_of_vllms_is_refused_for_being_the_beginning_of_another() -> None:
    refused = {flag for flag in FLAGS if objection(flag) is not None}
    owned = {flag.name for flag in SERVER_FLAGS}
    assert owned <= refused
    words = ("spec", "config", "graph", "--data-parallel-", "-dp")
    unexpected = {flag for flag in refused if not any(word in flag for word in words)} - owned
    assert {flag for flag in unexpected if not flag.startswith("--no-")} == {
        "--api-server-count",
        "--device-ids",
        "--distributed-executor-backend",
        "--enable-elastic-ep",
        "--headless",
        "--help",
        "--master-addr",
        "--master-port",
        "--nnodes",
        "--node-rank",
        "--pipeline-parallel-size",
        "--prefill-context-parallel-size",
        "-asc",
        "-h",
        "-n",
        "-pcp",
        "-pp",
        "-r",
        "--api-key",
        "--disable-access-log-for-endpoints",
        "--enable-auto-tool-choice",
        "--hf-token",
        "--host",
        "--model",
        "--port",
        "--revision",
        "--served-model-name",
        "--shutdown-timeout",
        "--tensor-parallel-size",
        "--uds",
        "-cc",
        "-q",
        "-sc",
        "-tp",
    }


def test_the_schema_describes_every_key() -> None:
    schema: Any = json_schema()
    definitions = schema["$defs"]
    sections = [schema, *(definitions[name] for name in definitions)]
    for section in sections:
        for key, entry in section["properties"].items():
            target = definitions[entry["$ref"].rpartition("/")[2]] if "$ref" in entry else entry
            assert entry.get("description") or target.get("description"), f"{section['title']}.{key}"
    assert schema["properties"]["extends"]["type"] == "string"
    assert definitions["Scheduling"]["properties"]["max_model_len"]["unit"] == "tokens"
    assert definitions["Scheduling"]["properties"]["max_model_len"]["examples"] == [262144]
