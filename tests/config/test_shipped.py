"""The profiles that come with arcops."""

import json
from pathlib import Path

import pytest

from arcops.config import Config
from arcops.config.library import shipped_profiles
from arcops.core.launch import Launch
from tests.sites import CARDS, MadeUpSite

NAMES = sorted(file.stem for file in shipped_profiles().glob("*.yaml"))
FLAGS = frozenset((Path(__file__).parents[1] / "data/vllm-flags/serve_0.29.0.txt").read_text().split())
W4A16, FP8 = "qwen35-9b-w4a16", "qwen35-9b-fp8"


@pytest.fixture
def config(site: MadeUpSite) -> Config:
    return Config.load(site.env, sysfs=site.sysfs)


def launch(site: MadeUpSite, name: str) -> Launch:
    return Config.load(site.env, sysfs=site.sysfs).launch(name)


def option(made: Launch, flag: str) -> str | None:
    return made.argv[made.argv.index(flag) + 1] if flag in made.argv else None


def speculation(made: Launch) -> dict[str, object] | None:
    text = option(made, "--speculative-config")
    return None if text is None else json.loads(text)


def without_speculation(made: Launch) -> list[str]:
    words = list(made.argv)
    if "--speculative-config" in words:
        at = words.index("--speculative-config")
        del words[at : at + 2]
    return words


def test_the_library_is_complete() -> None:
    nine = {f"{base}{suffix}" for base in (W4A16, FP8) for suffix in ("", "-mtp3", "-tp2", "-mtp3-tp2")}
    users = {f"{base}-users{suffix}" for base in (W4A16, FP8) for suffix in ("", "-mtp3", "-tp2", "-mtp3-tp2")}
    patched = {
        f"{W4A16}-{suffix}" for suffix in ("mtp-scheduled", "classpad", "classpad-tp2", "classpad-mtp-scheduled")
    }
    demo = {"demo-target-only", "demo-mtp", "demo-dflash2"}
    assert set(NAMES) == {"target-only", "dflash2", "mtp"} | nine | users | patched | demo


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_profile_has_no_problem_where_everything_is(config: Config, name: str) -> None:
    assert config.profile(name).description
    assert config.check(name) == []


@pytest.mark.parametrize("name", ["target-only", "dflash2", "mtp", W4A16, FP8])
def test_the_sites_oneapi_is_sourced_for_the_profiles_of_intels_cards(site: MadeUpSite, name: str) -> None:
    file = site.config / "site.yaml"
    assert launch(site, name).setup is None
    file.write_text(file.read_text() + f"runtimes: {{xpu: {{setup: {site.setup}}}}}\n")
    assert launch(site, name).setup == str(site.setup)
    assert launch(site, "demo-dflash2").setup is None


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_profile_uses_flags_of_vllms_only(site: MadeUpSite, name: str) -> None:
    made = launch(site, name)
    assert {word for word in made.argv if word.startswith("--")} <= FLAGS


@pytest.mark.parametrize("name", ["dflash2", "mtp"])
def test_target_only_differs_in_speculation_and_nothing_else(site: MadeUpSite, name: str) -> None:
    alone, speculating = launch(site, "target-only"), launch(site, name)
    assert without_speculation(speculating) == list(alone.argv)
    assert speculating.argv != alone.argv
    assert (alone.speculates, speculating.speculates) == (False, True)
    assert (alone.without_draft, speculating.without_draft) == (None, "target-only")
    for field in Launch.__dataclass_fields__:
        if field not in ("argv", "profile", "speculates", "without_draft"):
            assert getattr(alone, field) == getattr(speculating, field), field


@pytest.mark.parametrize("name", ["demo-dflash2", "demo-mtp"])
def test_the_demo_profiles_differ_in_speculation_and_nothing_else(config: Config, name: str) -> None:
    alone, speculating = config.launch("demo-target-only"), config.launch(name)
    assert without_speculation(speculating) == list(alone.argv)
    assert speculating.environment == alone.environment


def test_target_only_is_the_reference_deployment(site: MadeUpSite) -> None:
    made = launch(site, "target-only")
    expected = {
        "--max-model-len": "262144",
        "--max-num-seqs": "1",
        "--max-num-batched-tokens": "8192",
        "--block-size": "64",
        "--kv-cache-memory-bytes": "6979321856",
        "--kv-cache-dtype": "auto",
        "--mamba-cache-dtype": "float16",
        "--mamba-ssm-cache-dtype": "float16",
        "--reasoning-parser": "qwen3",
        "--tool-call-parser": "qwen3_coder",
        "--dtype": "bfloat16",
        "--host": "127.0.0.1",
        "--served-model-name": "qwen-int4",
    }
    assert {flag: option(made, flag) for flag in expected} == expected
    assert {"--enable-prefix-caching", "--async-scheduling", "--enable-auto-tool-choice"} <= set(made.argv)
    assert "--enforce-eager" not in made.argv
    assert dict(made.environment) == {
        "ONEAPI_DEVICE_SELECTOR": "level_zero:gpu",
        "VLLM_USE_AOT_COMPILE": "0",
        "VLLM_XPU_ENABLE_XPU_GRAPH": "1",
        "ZE_AFFINITY_MASK": "0",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "0",
    }
    assert made.cards == CARDS[:1]
    assert made.locks == (str(site.devices / CARDS[0]),)


def test_dflash2_is_the_recorded_speculation(site: MadeUpSite) -> None:
    assert speculation(launch(site, "dflash2")) == {
        "method": "dflash",
        "model": str(site.models / "qwen-dflash2"),
        "num_speculative_tokens": 3,
        "kv_cache_dtype": "fp8",
    }


@pytest.mark.parametrize("base", [W4A16, FP8])
def test_the_9b_library_has_the_recorded_shapes(site: MadeUpSite, base: str) -> None:
    for suffix, length, sequences, batched in (("", "33024", "1", "4096"), ("-users", "256", "64", "512")):
        for mtp in ("", "-mtp3"):
            for cards in ("", "-tp2"):
                made = launch(site, f"{base}{suffix}{mtp}{cards}")
                shape = [option(made, f"--max-{key}") for key in ("model-len", "num-seqs", "num-batched-tokens")]
                assert shape == [length, sequences, batched]
                assert option(made, "--tensor-parallel-size") == ("2" if cards else None)
                assert len(made.locks) == (2 if cards else 1)
                assert speculation(made) == ({"method": "mtp", "num_speculative_tokens": 3} if mtp else None)
                assert ("VLLM_XPU_DRAFT_LM_HEAD_INT4", "1") in made.environment or not mtp
                compilation = json.loads(option(made, "--compilation-config") or "")
                assert compilation == {
                    "cudagraph_mode": "FULL_DECODE_ONLY",
                    "cudagraph_capture_sizes": list(range(1, 65)),
                }


def test_the_scheduled_depth_and_the_padded_layers_are_as_recorded(site: MadeUpSite) -> None:
    for name in (f"{W4A16}-mtp-scheduled", f"{W4A16}-classpad-mtp-scheduled"):
        made = launch(site, name)
        assert speculation(made) == {
            "method": "mtp",
            "num_speculative_tokens": 3,
            "num_speculative_tokens_per_batch_size": [[1, 8, 3], [9, 16, 1], [17, 64, 0]],
        }
    for name in ("classpad", "classpad-tp2", "classpad-mtp-scheduled"):
        assert ("VLLM_XPU_FP16_LINEAR_CLASSPAD", "1") in launch(site, f"{W4A16}-{name}").environment
