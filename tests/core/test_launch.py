"""From a profile to argv and environment."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.launch import (
    HIDDEN,
    Bindings,
    Checks,
    KnownAnswer,
    Launch,
    Limits,
    Qualifying,
    RestartPolicy,
    environment_of,
    hidden,
    launch_of,
    redact,
)
from arcops.core.profile import Profile

FLAGS = frozenset((Path(__file__).parents[1] / "data/vllm-flags/serve_0.29.0.txt").read_text().split())


def launch(
    draft: str | None = None, cards: tuple[str, ...] = (), ordinals: tuple[int, ...] = (), **sections: Any
) -> Launch:
    profile = Profile.model_validate({"device": {"kind": "cpu"}, "model": {"path": "org/name"}, **sections})
    locks = tuple(f"/sys/bus/pci/devices/{card}" for card in cards) or ("/run/cpu.lock",)
    return launch_of("p", profile, Bindings("/opt/vllm/bin/vllm", "/models/name", draft, None, cards, ordinals, locks))


def values(made: Launch, flag: str) -> list[str]:
    """What follows `flag`, each time it is there."""
    return [made.argv[index + 1] for index, word in enumerate(made.argv) if word == flag]


def test_a_plain_launch_says_only_what_must_be_said() -> None:
    assert launch().argv == (
        *("/opt/vllm/bin/vllm", "serve", "/models/name"),
        *("--host", "127.0.0.1", "--port", "8000", "--served-model-name", "name"),
        *("--shutdown-timeout", "5", "--disable-access-log-for-endpoints", "/health,/metrics,/v1/models"),
    )


def test_a_plain_profile_has_the_launchs_own_defaults() -> None:
    made = launch()
    assert (made.limits, made.restart, made.checks) == (Limits(), RestartPolicy(), Checks())
    assert made.qualification == Qualifying()


def test_an_orderly_stop_takes_its_drain_its_grace_and_the_clearing_at_most() -> None:
    assert Limits(drain=60.0, shutdown_timeout=5.0, stop_grace=30.0, clear=10.0).stop == 100.0


def test_booleans_are_written_as_vllm_wants_them() -> None:
    on = launch(
        cache={"prefix_caching": True}, scheduling={"async_scheduling": True}, compilation={"enforce_eager": True}
    )
    off = launch(cache={"prefix_caching": False}, scheduling={"async_scheduling": False})
    assert {"--enable-prefix-caching", "--async-scheduling", "--enforce-eager"} <= set(on.argv)
    assert {"--no-enable-prefix-caching", "--no-async-scheduling"} <= set(off.argv)


def test_every_flag_that_is_written_is_one_of_vllms() -> None:
    made = launch(
        draft="/models/d",
        cards=("0000:03:00.0", "0000:07:00.0"),
        device={"kind": "xpu", "cards": 2},
        model={
            "path": "x",
            "tokenizer": "t",
            "dtype": "bfloat16",
            "quantization": "q",
            "language_model_only": True,
            "load_format": "auto",
            "trust_remote_code": False,
        },
        scheduling={"max_model_len": 8, "max_num_seqs": 1, "max_num_batched_tokens": 8, "async_scheduling": True},
        cache={
            "block_size": 64,
            "kv_cache_memory": "6.5GiB",
            "kv_cache_dtype": "auto",
            "mamba_cache_dtype": "float16",
            "mamba_ssm_cache_dtype": "float16",
            "mamba_cache_mode": "align",
            "prefix_caching": True,
        },
        compilation={"cudagraph_mode": "FULL_DECODE_ONLY", "capture_sizes": (1, 2)},
        parsers={"reasoning": "qwen3", "tool_call": "qwen3_coder"},
        speculation={"method": "dflash", "model": "d", "num_tokens": 3, "kv_cache_dtype": "fp8"},
    )
    assert {word for word in made.argv if word.startswith("--")} <= FLAGS
    assert values(made, "--kv-cache-memory-bytes") == ["6979321856"]
    assert values(made, "--tensor-parallel-size") == ["2"]
    assert "--enable-auto-tool-choice" in made.argv
    assert json.loads(values(made, "--compilation-config")[0]) == {
        "cudagraph_mode": "FULL_DECODE_ONLY",
        "cudagraph_capture_sizes": [1, 2],
    }
    assert json.loads(values(made, "--speculative-config")[0])["model"] == "/models/d"
    assert made.speculates


def test_the_same_profile_gives_the_same_launch() -> None:
    runtime = {"env": {"B": "2", "A": "1"}}
    assert launch(runtime=runtime) == launch(runtime=runtime)
    assert launch(runtime=runtime).environment == (("A", "1"), ("B", "2"))


@pytest.mark.parametrize(
    ("kind", "variables"),
    [
        ("xpu", {"ZE_AFFINITY_MASK": "0,2", "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "0"}),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "0,2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
    ],
)
def test_a_backend_sees_the_locked_cards_and_no_other(kind: str, variables: dict[str, str]) -> None:
    made = launch(cards=("0000:03:00.0", "0000:07:00.0"), ordinals=(0, 2), device={"kind": kind, "cards": 2})
    assert dict(made.environment) == variables
    inherited = {"ZE_AFFINITY_MASK": "1", "CUDA_VISIBLE_DEVICES": "1", "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}
    assert environment_of(inherited, inherited, made).items() >= variables.items()


def test_extra_arguments_come_last() -> None:
    assert launch(extra_args=("--seed", "1")).argv[-2:] == ("--seed", "1")


def test_what_the_profile_limits_is_limited_so() -> None:
    made = launch(
        limits={"shutdown_timeout": 20, "clear": "2m"}, restart={"per_hour": 0}, checks={"first_answer": False}
    )
    assert values(made, "--shutdown-timeout") == ["20"]
    assert (made.limits.shutdown_timeout, made.limits.clear) == (20, 120)
    assert (made.restart.per_hour, made.checks.first_answer) == (0, False)


def test_a_short_drain_shortens_vllms_own_part_of_it() -> None:
    assert launch(limits={"drain": "2s"}).limits.shutdown_timeout == 2
    assert values(launch(limits={"drain": "500ms"}), "--shutdown-timeout") == ["0"]


def made_launch(**environment: str) -> Launch:
    return launch(runtime={"env": environment})


def test_the_backend_does_not_inherit_what_systemd_told_the_supervisor() -> None:
    names = "NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID LISTEN_FDS LISTEN_PID LISTEN_FDNAMES INVOCATION_ID JOURNAL_STREAM"
    base = dict.fromkeys([*names.split(), "MANAGERPID", "SYSTEMD_EXEC_PID"], "x")
    assert environment_of({**base, "HOME": "/h"}, base, made_launch()) == {"HOME": "/h"}


def test_the_supervisors_python_is_not_the_runtimes() -> None:
    base = {"VIRTUAL_ENV": "/a/.venv", "PYTHONPATH": "/a", "PYTHONHOME": "/p", "PATH": "/a/.venv/bin:/usr/bin"}
    assert environment_of(base, {}, made_launch()) == {"PATH": "/usr/bin"}


def test_an_api_key_of_the_supervisors_own_environment_is_not_the_backends() -> None:
    inherited = {"VLLM_API_KEY": "operators", "HOME": "/h"}
    for setup in (inherited, {"VLLM_API_KEY": "scripts"}):
        assert environment_of(inherited, setup, made_launch()) == {"HOME": "/h"}


def test_what_the_supervisor_asks_all_the_time_is_not_logged() -> None:
    """Its own questions would be log lines, and pass for the progress of a start."""
    assert values(launch(), "--disable-access-log-for-endpoints") == ["/health,/metrics,/v1/models"]


def test_a_setup_that_passes_the_base_on_does_not_bring_back_what_was_left_out() -> None:
    base = {"VIRTUAL_ENV": "/a/.venv", "PYTHONPATH": "/a", "PATH": "/a/.venv/bin:/usr/bin", "NOTIFY_SOCKET": "/n"}
    after = {**base, "PATH": "/oneapi/bin:/a/.venv/bin:/usr/bin", "ONEAPI_ROOT": "/oneapi"}
    environment = environment_of(base, after, made_launch())
    assert environment == {"PATH": "/oneapi/bin:/usr/bin", "ONEAPI_ROOT": "/oneapi"}


def test_the_setup_script_goes_over_the_base_and_the_profile_over_both() -> None:
    base = {"A": "base", "B": "base", "C": "base", "PYTHONPATH": "/arcops"}
    setup = {"B": "setup", "C": "setup", "PYTHONPATH": "/oneapi"}
    environment = environment_of(base, setup, made_launch(C="profile"))
    assert environment == {"A": "base", "B": "setup", "C": "profile", "PYTHONPATH": "/oneapi"}


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "my_secret", "API_KEYS", "KEY_FILE"]
)
def test_what_looks_like_a_secret_is_hidden(name: str) -> None:
    assert hidden(name, "abc") == HIDDEN


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "ONEAPI_DEVICE_SELECTOR", "PATH", "KEYBOARD"])
def test_what_does_not_look_like_a_secret_is_shown(name: str) -> None:
    assert hidden(name, "abc") == "abc"


def test_credentials_in_a_url_are_hidden() -> None:
    assert hidden("HTTPS_PROXY", "http://user:pass@proxy:1") == f"http://{HIDDEN}@proxy:1"


@given(st.dictionaries(st.sampled_from(["HF_TOKEN", "A", "PASSWORD"]), st.just("s3cret-value"), max_size=3))
def test_a_redacted_launch_holds_no_secret(environment: dict[str, str]) -> None:
    shown = dict(redact(made_launch(**environment)).environment)
    assert all(shown[name] == ("s3cret-value" if name == "A" else HIDDEN) for name in environment)


def test_who_reads_a_launch_need_not_load_pydantic() -> None:
    code = "import sys, arcops.core.launch, arcops.core.world; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("says", "expected", "exactly"), [({"equals": "3, 4"}, "3, 4", True), ({"contains": "Paris"}, "Paris", False)]
)
def test_what_the_profile_checks_is_checked_so(says: dict[str, str], expected: str, exactly: bool) -> None:
    made = launch(
        checks={
            "idle_probe": "1m",
            "known_answer": {"prompt": "1, 2,", **says},
            "degenerate": True,
            "acceptance_floor": 0.1,
            "first_answer": False,
        }
    ).checks
    assert (made.idle_probe, made.degenerate, made.acceptance_floor) == (60.0, True, 0.1)
    assert made.known_answer == KnownAnswer("1, 2,", expected, exactly)
    assert made.asks_first, "a known answer is asked for at the start, whatever first_answer says"


def test_what_is_asked_to_qualify_goes_with_a_launch_and_makes_no_other_one() -> None:
    asked = {"chat": {"prompt": "2 + 2?", "expect": "4"}, "long_tokens": 512, "headroom_mib": 256, "tools": False}
    made = launch(qualification=asked)
    assert made.qualification == Qualifying("2 + 2?", "4", 512, 256 << 20, tools=False)
    assert made == launch()
    assert made != launch(checks={"first_answer": False})
