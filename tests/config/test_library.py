"""Profiles as a user writes them: extending, shadowing, every problem at once, and what this machine lacks."""

import os
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcops.config import Config
from arcops.core.errors import ArcopsError, ExitCode, InvalidProfileError
from arcops.core.launch import Qualifying
from tests.sites import CARDS, MadeUpSite

MINIMAL = "device: {kind: cpu}\nmodel: {path: tiny/hybrid}\n"


def load(site: MadeUpSite, instance: str = "main") -> Config:
    return Config.load(site.env, instance=instance, sysfs=site.sysfs)


def problems(site: MadeUpSite, name: str) -> list[str]:
    """Every problem, with paths relative to the profiles' directory."""
    return [str(problem).replace(f"{site.profiles}/", "") for problem in load(site).check(name)]


def test_a_profile_is_a_launch(site: MadeUpSite) -> None:
    site.write_profile("p", MINIMAL)
    launch = load(site).launch("p")
    assert launch.argv[:3] == (str(site.vllm), "serve", str(site.models / "tiny/hybrid"))
    assert launch.locks == (f"{site.env['XDG_RUNTIME_DIR']}/arcops/cpu.lock",)
    assert launch.cards == ()


def test_every_problem_is_named_at_once_with_its_place(site: MadeUpSite) -> None:
    site.write_profile(
        "p",
        "device: {kind: xpu, card: 1}\n"
        "model: {path: tiny/hybrid}\n"
        "schedulin:\n"
        "  max_model_len: 8\n"
        "cache:\n"
        "  max_num_seqs: 1\n"
        "  block_size: 0\n"
        "server:\n"
        "  host: 0.0.0.0\n"
        "  port: '80'\n"
        "extra_args: [--seed, '1', --block-size=3]\n",
    )
    needs = "server.expose: true and server.api_key_file"
    assert problems(site, "p") == [
        "p.yaml:1: device.card: unknown key; did you mean cards?",
        "p.yaml:3: schedulin: unknown key; did you mean scheduling?",
        "p.yaml:6: cache.max_num_seqs: unknown key here; did you mean scheduling.max_num_seqs?",
        "p.yaml:7: cache.block_size: should be greater than or equal to 1, not 0",
        f"p.yaml:9: server.host: 0.0.0.0 is reachable from other machines; that needs {needs}",
        "p.yaml:10: server.port: should be a valid integer, not '80'",
        "p.yaml:11: extra_args.2: --block-size=3: is what cache.block_size stands for; set that instead",
    ]


def test_missing_keys_do_not_hide_other_problems(site: MadeUpSite) -> None:
    site.write_profile("p", "limits: {shutdown_timeout: 2m}\n")
    assert problems(site, "p") == [
        "p.yaml: device: is missing: On what.",
        "p.yaml: model: is missing: Which checkpoint.",
        "p.yaml:1: limits.shutdown_timeout: 120 s is over limits.drain (60 s)",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("server: 3", "server: must be a mapping of keys to values, not 3"),
        ("extra_args: --x", "extra_args: must be a list, not '--x'"),
        ("runtime: {env: {A: true}}", "runtime.env.A: should be a valid string, not true"),
        ("cache: {kv_cache_memory: lots}", "cache.kv_cache_memory: a size is written like 6.5GiB"),
        ("limits: {drain: soon}", "limits.drain: a duration is written like 60s"),
        ("speculation: {method: mtpp}", "speculation.method: should be 'none', 'mtp', 'dflash'"),
        ("speculation: {method: mtp, num_tokens: 1, schedule: [[1, 2]]}", "speculation.schedule.0"),
        ("parallel: {tensor_parallel_size: 2.0}", "parallel.tensor_parallel_size: should be a valid integer, not 2.0"),
    ],
)
def test_a_wrong_value_is_shown_with_what_it_should_be(site: MadeUpSite, line: str, message: str) -> None:
    site.write_profile("p", MINIMAL + line + "\n")
    found = problems(site, "p")
    assert found[0].startswith(f"p.yaml:3: {message}")


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("target-onli", "there is no profile 'target-onli'; did you mean target-only?"),
        ("../../etc/passwd", "there is no profile '../../etc/passwd'"),
        ("p", "names the profile itself; name another, or set it to null to drop an inherited one"),
        ("[q]", "should be a valid string, not ('q',)"),
    ],
)
def test_what_is_to_stand_in_has_to_be_another_profile_that_is_there(
    site: MadeUpSite, named: str, message: str
) -> None:
    site.write_profile("p", MINIMAL + f"on_failure: {named}\nserver: {{port: 0}}\n")
    found = problems(site, "p")
    assert found[0] == f"p.yaml:3: on_failure: {message}"
    assert found[1].startswith("p.yaml:4: server.port: ")


def test_what_is_to_stand_in_is_named_in_the_launch_and_inherited(site: MadeUpSite) -> None:
    site.write_profile("safe", MINIMAL)
    site.write_profile("p", MINIMAL + "on_failure: safe\n")
    site.write_profile("child", "extends: p\n")
    site.write_profile("dropped", "extends: p\non_failure: null\n")
    config = load(site)
    named = [config.launch(name).on_failure for name in ("safe", "p", "child", "dropped")]
    assert named == [None, "safe", "safe", None]


def test_two_profiles_may_stand_in_for_one_another(site: MadeUpSite) -> None:
    site.write_profile("p", MINIMAL + "on_failure: q\n")
    site.write_profile("q", MINIMAL + "on_failure: p\n")
    assert problems(site, "p") == problems(site, "q") == []


def test_extends_merges_mappings_replaces_lists_and_null_removes(site: MadeUpSite) -> None:
    site.write_profile(
        "base",
        MINIMAL
        + "runtime: {env: {A: 1, B: 2}}\n"
        + "scheduling: {max_model_len: 8, max_num_seqs: 2}\n"
        + "extra_args: [--seed, '1']\n",
    )
    site.write_profile(
        "p",
        "extends: base\n"
        "runtime: {env: {B: null, C: 3}}\n"
        "scheduling: {max_num_seqs: null}\n"
        "extra_args: [--max-logprobs, '5']\n",
    )
    profile = load(site).profile("p")
    assert profile.runtime.env == {"A": "1", "C": "3"}
    assert (profile.scheduling.max_model_len, profile.scheduling.max_num_seqs) == (8, None)
    assert profile.extra_args == ("--max-logprobs", "5")
    assert [path.name for path in load(site).sources("p")] == ["p.yaml", "base.yaml"]


def test_a_problem_is_placed_in_the_file_that_wrote_the_key(site: MadeUpSite) -> None:
    site.write_profile("base", MINIMAL + "limits:\n  drain: 1\n  shutdown_timeout: 5\n")
    site.write_profile("p", "extends: base\n\nserver:\n  port: 0\n")
    assert problems(site, "p") == [
        "base.yaml:5: limits.shutdown_timeout: 5 s is over limits.drain (1 s)",
        "p.yaml:4: server.port: should be greater than or equal to 1, not 0",
    ]


def test_removing_a_key_that_never_was_is_a_problem(site: MadeUpSite) -> None:
    site.write_profile("p", MINIMAL + "scheduling: {max_model_length: null}\n")
    assert problems(site, "p") == ["p.yaml:3: scheduling.max_model_length: unknown key; did you mean max_model_len?"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"p": "extends: p\n"}, "p.yaml:1: extends: goes in a circle: p -> p"),
        ({"p": "extends: q\n", "q": "extends: p\n"}, "q.yaml:1: extends: goes in a circle: p -> q -> p"),
        (
            {"p": "\nextends: target-onyl\n"},
            "there is no profile 'target-onyl' (p -> target-onyl); did you mean target-only?",
        ),
        ({"p": "extends: [a, b]\n"}, "p.yaml:1: extends: must be a profile's name"),
        ({"p": "extends: ../../etc/passwd\n"}, "p.yaml:1: extends: there is no profile '../../etc/passwd'"),
        ({"p": "extends: q\n", "q": ""}, "q.yaml: is empty"),
        ({"p": ""}, "p.yaml: is empty"),
        ({"p": "x"}, "p.yaml:1: is not a mapping"),
    ],
)
def test_a_broken_chain_is_named_with_the_way(site: MadeUpSite, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        site.write_profile(name, text)
    found = problems(site, "p")
    assert len(found) == 1
    assert message in found[0]
    with pytest.raises(InvalidProfileError):
        load(site).launch("p")


def test_an_own_profile_shadows_the_shipped_one_and_may_extend_it(site: MadeUpSite) -> None:
    site.write_profile(
        "target-only", f"extends: target-only\nserver: {{port: 9000}}\nruntime: {{setup: {site.setup}}}\n"
    )
    config = load(site)
    assert not config.is_shipped("target-only")
    assert config.is_shipped("dflash2")
    assert config.launch("target-only").port == 9000
    assert config.launch("dflash2").port == 9000
    assert config.names().count("target-only") == 1


def test_a_profile_that_is_not_there_is_named_with_the_nearest(site: MadeUpSite) -> None:
    for name, message in (("dflash", "did you mean dflash2"), ("../x", "there is no profile '../x'"), ("", "''")):
        with pytest.raises(InvalidProfileError, match=message) as caught:
            load(site).profile(name)
        assert caught.value.hint


def test_a_name_of_any_length_is_cut_in_messages(site: MadeUpSite) -> None:
    site.write_profile("p", f"extends: {'x' * 5000}\n")
    assert len(problems(site, "p")[0]) < 500
    with pytest.raises(InvalidProfileError) as caught:
        load(site).launch("y" * 5000)
    assert len(str(caught.value)) < 300


def test_the_hint_of_an_invalid_profile_names_it(site: MadeUpSite) -> None:
    site.write_profile("p", "device: {kind: gpu}\nmodel: {path: x}\n")
    with pytest.raises(InvalidProfileError) as caught:
        load(site).launch("p")
    assert caught.value.hint.startswith("`arcops profile check p`")


def test_a_badly_named_file_is_a_problem_of_its_own(site: MadeUpSite) -> None:
    site.write_profile("my profile", MINIMAL)
    assert problems(site, "my profile")[0].startswith("my profile.yaml: its name cannot be a profile's; ")


def test_a_list_with_a_wrong_item_is_not_called_too_short_as_well(site: MadeUpSite) -> None:
    site.write_profile("p", MINIMAL + "compilation: {capture_sizes: [0]}\n")
    assert problems(site, "p") == ["p.yaml:3: compilation.capture_sizes.0: should be greater than or equal to 1, not 0"]
    site.write_profile("p", MINIMAL + "compilation: {capture_sizes: []}\n")
    assert len(problems(site, "p")) == 1


def test_the_other_suffix_is_pointed_out(site: MadeUpSite) -> None:
    (site.profiles / "mine.yml").write_text(MINIMAL)
    with pytest.raises(InvalidProfileError) as caught:
        load(site).launch("mine")
    assert "rename" in caught.value.hint


def test_no_configuration_at_all_still_lists_the_shipped_profiles(tmp_path: Path) -> None:
    config = Config.load({"ARCOPS_CONFIG_DIR": str(tmp_path / "none"), "HOME": str(tmp_path)})
    assert "target-only" in config.names()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model_dir: /x\n", "site.yaml:1: model_dir: unknown key; did you mean models_dir?"),
        ("cards: ['3']\n", "site.yaml:1: cards: cards are a list of different PCI addresses"),
        ("cards: 2\n", "site.yaml:1: cards: cards are a list of different PCI addresses"),
        ("instances: {a: {cards: 1}}\n", "site.yaml:1: instances.a.cards: cards are a list of different PCI"),
        ("instances: {cpu: {port: 1}}\n", "site.yaml:1: instances.cpu: cannot be an instance's name"),
        ("instances: {Main: {port: 1}}\n", "site.yaml:1: instances.Main"),
        ("instances: {a: {port: 8001}, b: {port: 8001}}\n", "site.yaml:1: instances.b.port: 8001 is the instance a's"),
        ("- x\n", "site.yaml:1: is not a mapping"),
    ],
)
def test_bad_site_settings_are_named(site: MadeUpSite, text: str, message: str) -> None:
    site.write_site(text)
    with pytest.raises(InvalidProfileError, match=r"the site settings") as caught:
        load(site)
    assert message in caught.value.message
    assert caught.value.exit_code is ExitCode.INVALID


def test_empty_site_settings_are_no_settings(site: MadeUpSite) -> None:
    site.write_site("# nothing yet\n")
    assert load(site).machine.site.models_dir is None


def test_an_instance_has_its_own_cards_and_port(site: MadeUpSite) -> None:
    file = site.write_site(
        f"runtime: {{vllm: {site.vllm}}}\nmodels_dir: {site.models}\ncards: ['{CARDS[0]}', '{CARDS[1]}']\n"
        f"instances:\n  second: {{port: 8001, cards: ['{CARDS[1]}']}}\n"
    )
    site.write_profile("p", "device: {kind: xpu}\nmodel: {path: tiny/hybrid}\n")
    site.write_profile("fixed", "extends: p\nserver: {port: 9000}\n")
    assert (load(site).launch("p").port, load(site).launch("p").cards) == (8000, (CARDS[0],))
    second = load(site, "second")
    assert (second.launch("p").port, second.launch("p").cards) == (8001, (CARDS[1],))
    assert second.launch("fixed").port == 9000
    assert second.launch("p").locks == (str(site.devices / CARDS[1]),)
    assert file not in second.sources("p")


def test_the_first_of_the_sites_cards_as_written_are_taken(site: MadeUpSite) -> None:
    site.write_site(f"runtime: {{vllm: {site.vllm}}}\nmodels_dir: {site.models}\ncards: ['{CARDS[1]}', '{CARDS[0]}']\n")
    site.write_profile("p", "device: {kind: xpu}\nmodel: {path: tiny/hybrid}\n")
    site.write_profile("two", "extends: p\ndevice: {cards: 2}\n")
    assert load(site).launch("p").cards == (CARDS[1],)
    assert load(site).launch("two").cards == CARDS


def test_two_instances_with_a_card_each_see_different_devices(site: MadeUpSite) -> None:
    site.add_card("0000:00:02.0", "i915", device="0x7d67")
    site.add_card("0000:05:00.0", "vfio-pci")
    site.add_card("0000:06:00.0", "nvidia", vendor="0x10de")
    site.add_card("0000:04:00.0", "nvidia", vendor="0x10de")
    site.write_site(
        f"runtime: {{vllm: {site.vllm}}}\nmodels_dir: {site.models}\ninstances:\n"
        f"  first: {{cards: ['{CARDS[0]}']}}\n  second: {{cards: ['{CARDS[1]}']}}\n  n: {{cards: ['0000:06:00.0']}}\n"
    )
    site.write_profile("p", "device: {kind: xpu}\nmodel: {path: tiny/hybrid}\n")
    site.write_profile("own", "extends: p\ndevice: {cards: ['0000:00:02.0']}\n")
    site.write_profile("nvidia", "extends: p\ndevice: {kind: cuda}\n")

    def variable(instance: str, profile: str, name: str) -> str | None:
        return dict(load(site, instance).launch(profile).environment).get(name)

    masks = [variable(instance, "p", "ZE_AFFINITY_MASK") for instance in ("first", "second")]
    assert masks == ["0", "1"]
    assert variable("first", "own", "ZE_AFFINITY_MASK") == "2"
    assert variable("n", "nvidia", "CUDA_VISIBLE_DEVICES") == "1"
    assert variable("n", "nvidia", "CUDA_DEVICE_ORDER") == "PCI_BUS_ID"


def test_a_card_of_another_kind_or_driver_is_refused(site: MadeUpSite) -> None:
    site.add_card("0000:05:00.0", "vfio-pci")
    for kind, card in (("cuda", CARDS[0]), ("xpu", "0000:05:00.0")):
        site.write_profile("p", f"device: {{kind: {kind}, cards: ['{card}']}}\nmodel: {{path: tiny/hybrid}}\n")
        assert problems(site, "p") == [
            f"p.yaml:1: device.cards: {card} is no card that {kind} can use here; its driver is another's"
        ]


def test_two_cards_are_locked_in_address_order(site: MadeUpSite) -> None:
    site.write_profile(
        "p", f"device: {{kind: xpu, cards: ['{CARDS[1]}', '{CARDS[0]}']}}\nmodel: {{path: tiny/hybrid}}\n"
    )
    launch = load(site).launch("p")
    assert launch.locks == tuple(str(site.devices / card) for card in CARDS)
    assert launch.argv[launch.argv.index("--tensor-parallel-size") + 1] == "2"


def test_what_this_machine_lacks_is_named_all_at_once(site: MadeUpSite) -> None:
    site.write_site("cards: []\n")
    site.write_profile(
        "p",
        "device: {kind: xpu, cards: ['0000:99:00.0']}\n"
        "model: {path: nobody/nothing, tokenizer: tok}\n"
        "runtime:\n  vllm: /no/vllm\n  setup: /no/setvars.sh\n"
        "server: {api_key_file: /no/key}\n"
        "speculation: {method: dflash, model: nodraft, num_tokens: 1}\n",
    )
    found = load(site).check("p")
    assert all(problem.here for problem in found)
    cache = f"{site.env['HOME']}/.cache/huggingface/hub/models--nobody--nothing/snapshots/main"
    assert {(problem.key, problem.line, problem.message) for problem in found} == {
        ("device.cards", 1, "there is no card 0000:99:00.0 in this machine"),
        ("model.path", 2, f"no such model; looked at {cache}"),
        ("model.tokenizer", 2, "tok is relative, and site.yaml names no models_dir"),
        ("runtime.vllm", 4, "/no/vllm does not exist"),
        ("runtime.setup", 5, "/no/setvars.sh does not exist"),
        ("server.api_key_file", 6, "/no/key does not exist"),
        ("speculation.model", 7, "nodraft is relative, and site.yaml names no models_dir"),
    }


def test_a_vllm_that_cannot_be_started_is_refused_where_it_is_named(site: MadeUpSite) -> None:
    site.write_profile("p", MINIMAL)
    site.vllm.chmod(0o644)
    assert problems(site, "p") == [f"{site.config}/site.yaml:1: runtime.vllm: {site.vllm} is not executable"]
    site.write_profile("p", MINIMAL + f"runtime: {{vllm: {site.vllm.parent}}}\n")
    assert problems(site, "p") == [f"p.yaml:3: runtime.vllm: {site.vllm.parent} is not a file"]
    site.write_profile("p", MINIMAL + "runtime: {vllm: bin/vllm}\n")
    assert problems(site, "p") == ["p.yaml:3: runtime.vllm: bin/vllm must be an absolute path, or begin with ~/"]


def test_the_sites_setup_goes_with_the_sites_vllm_only(site: MadeUpSite) -> None:
    site.write_site(f"runtime: {{vllm: {site.vllm}, setup: {site.setup}}}\nmodels_dir: {site.models}\n")
    site.write_profile("p", MINIMAL)
    site.write_profile("own", MINIMAL + f"runtime: {{vllm: {site.vllm}}}\n")
    assert load(site).launch("p").setup == str(site.setup)
    assert load(site).launch("own").setup is None


def test_the_sites_oneapi_is_for_every_intel_profile_that_names_no_script(site: MadeUpSite) -> None:
    other = site.root / "other.sh"
    other.write_text("")
    site.write_profile("p", "device: {kind: xpu}\nmodel: {path: tiny/hybrid}\n")
    site.write_profile("vllm", f"extends: p\nruntime: {{vllm: {site.vllm}}}\n")
    site.write_profile("own", f"extends: p\nruntime: {{setup: {other}}}\n")
    site.write_profile("cpu", MINIMAL)
    rest = f"models_dir: {site.models}\ncards: ['{CARDS[0]}']\n"
    for runtime in (
        f"runtime: {{vllm: {site.vllm}}}\nruntimes: {{xpu: {{setup: {site.setup}}}}}\n",
        f"runtimes: {{xpu: {{vllm: {site.vllm}, setup: {site.setup}}}, cpu: {{vllm: {site.vllm}}}}}\n",
        f"runtime: {{setup: {site.setup}}}\nruntimes: {{xpu: {{vllm: {site.vllm}}}, cpu: {{vllm: {site.vllm}}}}}\n",
    ):
        site.write_site(runtime + rest)
        setups = [load(site).launch(name).setup for name in ("p", "vllm", "own", "cpu")]
        assert setups == [str(site.setup), str(site.setup), str(other), None], runtime


def test_the_tiny_models_are_found_in_the_cache_if_they_are_complete(site: MadeUpSite) -> None:
    site.write_site(f"runtime: {{vllm: {site.vllm}}}\n")
    site.write_profile("p", MINIMAL)
    assert "`make runtime` builds the tiny models" in problems(site, "p")[0]
    cache = Path(site.env["HOME"]) / ".cache/arcops"
    for number, name in enumerate(("old", "new", "half")):
        build = cache / f"tiny-models-{name}"
        (build / "hybrid").mkdir(parents=True)
        (build / "hybrid/config.json").write_text("{}")
        if name != "half":
            (build / ".complete").write_text("")
            os.utime(build / ".complete", (number, number))
    assert load(site).launch("p").argv[2] == str(cache / "tiny-models-new/hybrid")
    site.env["ARCOPS_RUNTIME_HOME"] = str(site.root / "elsewhere")
    assert len(problems(site, "p")) == 1


def test_a_kind_of_device_may_have_a_vllm_of_its_own(site: MadeUpSite) -> None:
    site.write_site(
        f"runtime: {{vllm: /no/vllm}}\nruntimes: {{cpu: {{vllm: {site.vllm}}}}}\nmodels_dir: {site.models}\n"
    )
    site.write_profile("p", MINIMAL)
    assert load(site).launch("p").argv[0] == str(site.vllm)


def test_a_model_is_found_in_the_hugging_face_cache(site: MadeUpSite) -> None:
    model = Path(site.env["HOME"]) / ".cache/huggingface/hub/models--org--name"
    (model / "refs").mkdir(parents=True)
    (model / "refs/main").write_text("abc123\n")
    (model / "snapshots/abc123").mkdir(parents=True)
    (model / "snapshots/abc123/config.json").write_text("{}")
    site.write_profile("p", "device: {kind: cpu}\nmodel: {path: org/name}\n")
    site.write_profile("commit", "device: {kind: cpu}\nmodel: {path: org/name, revision: abc123}\n")
    for name in ("p", "commit"):
        launch = load(site).launch(name)
        assert launch.argv[2] == str(model / "snapshots/abc123")
        assert launch.served_name == "name"


def test_the_cache_is_the_one_that_the_profiles_environment_names(site: MadeUpSite) -> None:
    snapshot = site.root / "hf/hub/models--org--name/snapshots/main"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    site.write_profile(
        "p", f"device: {{kind: cpu}}\nmodel: {{path: org/name}}\nruntime: {{env: {{HF_HOME: {site.root}/hf}}}}\n"
    )
    assert load(site).launch("p").argv[2] == str(snapshot)


def test_a_directory_without_a_configuration_is_no_model(site: MadeUpSite) -> None:
    (site.models / "tiny/hybrid/config.json").unlink()
    site.write_profile("p", MINIMAL)
    assert problems(site, "p") == [
        f"p.yaml:2: model.path: {site.models}/tiny/hybrid is no checkpoint: it holds no config.json"
    ]


def test_an_api_key_comes_from_a_file_that_only_its_owner_reads(site: MadeUpSite) -> None:
    key = Path(site.env["HOME"]) / "key"
    text = MINIMAL + "server: {host: 0.0.0.0, expose: true, api_key_file: ~/key}\n"
    site.write_profile("p", text)
    key.write_text("s3cret\n")
    key.chmod(0o644)
    assert problems(site, "p") == [f"p.yaml:3: server.api_key_file: {key} can be read by others; chmod 600 it"]
    key.chmod(0o600)
    launch = load(site).launch("p")
    assert launch.api_key_file == str(key)
    assert "s3cret" not in repr(launch)
    key.write_text("\n")
    assert problems(site, "p") == [f"p.yaml:3: server.api_key_file: {key} holds no key in its first line"]


def test_names_that_no_file_can_have_are_not_found(site: MadeUpSite) -> None:
    long = "x" * 5000
    site.write_profile(
        "p",
        f"device: {{kind: cpu}}\nmodel: {{path: {long}, tokenizer: {long}}}\n"
        f"runtime: {{vllm: /{long}, setup: /{long}}}\nserver: {{api_key_file: /{long}}}\n",
    )
    found = load(site).check("p")
    assert {problem.key for problem in found} == {
        "model.path",
        "model.tokenizer",
        "runtime.vllm",
        "runtime.setup",
        "server.api_key_file",
    }


def test_a_key_file_that_is_no_text_is_refused(site: MadeUpSite) -> None:
    key = site.root / "key"
    key.write_bytes(b"\xff\xfe")
    key.chmod(0o600)
    site.write_profile("p", MINIMAL + f"server: {{api_key_file: {key}}}\n")
    assert problems(site, "p") == [f"p.yaml:3: server.api_key_file: {key} cannot be read as text"]


def test_a_tokenizer_of_its_own_is_found_like_a_model(site: MadeUpSite) -> None:
    site.write_profile("p", "device: {kind: cpu}\nmodel: {path: tiny/hybrid, tokenizer: tiny/dflash}\n")
    argv = load(site).launch("p").argv
    assert argv[argv.index("--tokenizer") + 1] == str(site.models / "tiny/dflash")


def test_no_models_directory_and_no_cache_name_leaves_nowhere_to_look(site: MadeUpSite) -> None:
    site.write_site(f"runtime: {{vllm: {site.vllm}}}\n")
    site.write_profile("p", "device: {kind: cpu}\nmodel: {path: bare}\n")
    assert problems(site, "p") == ["p.yaml:2: model.path: bare is relative, and site.yaml names no models_dir"]


def test_two_wrong_keys_do_not_hide_what_is_wrong_between_others(site: MadeUpSite) -> None:
    site.write_profile(
        "p",
        MINIMAL
        + "speculation: {method: mtp, num_tokens: 2, schedule: [[1, 4, 3], [0, 0, 0]]}\n"
        + "limits: {drain: 1, shutdown_timeout: 2}\n",
    )
    assert problems(site, "p") == [
        "p.yaml:3: speculation.schedule.1.0: should be greater than or equal to 1, not 0",
        "p.yaml:3: speculation.schedule.1.1: should be greater than or equal to 1, not 0",
        "p.yaml:4: limits.shutdown_timeout: 2 s is over limits.drain (1 s)",
    ]


def test_too_few_cards_say_where_to_name_them(site: MadeUpSite) -> None:
    site.write_profile("p", "device: {kind: xpu, cards: 3}\nmodel: {path: tiny/hybrid}\n")
    found = problems(site, "p")
    assert found == [
        f"p.yaml:1: device.cards: 3 needed, {site.config}/site.yaml names 2 for the instance main; set cards there"
    ]


def test_an_unreadable_profile_is_a_problem_not_a_crash(site: MadeUpSite) -> None:
    (site.profiles / "link.yaml").symlink_to("/nonexistent/target")
    os.mkfifo(site.profiles / "pipe.yaml")
    (site.profiles / "dir.yaml").mkdir()
    for name in ("link", "pipe", "dir"):
        assert len(problems(site, name)) == 1


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 70000), st.floats(), st.text(max_size=8))
WORDS = (
    "extends device model server cache speculation runtime extra_args limits kind cards path port schedule method env"
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS.split()), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(WORDS.split()), VALUES, max_size=6))
def test_any_mapping_is_a_launch_or_an_error_in_words(site: MadeUpSite, data: dict[str, object]) -> None:
    site.write_profile("p", flow(data))
    try:
        load(site).launch("p")
    except ArcopsError as error:
        code = error.exit_code
    else:
        return
    assert code is ExitCode.INVALID


def flow(value: object) -> str:
    """`value` in YAML's flow style."""
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return "{" + ", ".join(f"{key}: {flow(inner)}" for key, inner in items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(inner) for inner in cast("list[object]", value)) + "]"
    if value is None:
        return "null"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()


def test_the_package_loads_its_parts_when_they_are_asked_for() -> None:
    import arcops.config

    with pytest.raises(AttributeError, match="no attribute 'Confiig'"):
        _ = arcops.config.Confiig  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportAttributeAccessIssue] - the point


def test_what_is_asked_to_qualify_is_inherited_key_by_key(site: MadeUpSite) -> None:
    site.write_profile(
        "base",
        MINIMAL + "qualification:\n"
        "  chat: {prompt: 'The capital of France?', expect: Paris}\n"
        "  long_tokens: 4096\n"
        "  headroom_mib: 512\n"
        "  image: ~/red.png\n",
    )
    site.write_profile("p", "extends: base\nqualification: {long_tokens: null, tools: false, chat: {expect: paris}}\n")
    found = load(site).launch("p")
    image = f"{site.env['HOME']}/red.png"
    asked = Qualifying("The capital of France?", "paris", None, 512 << 20, tools=False, image=image)
    assert found.qualification == asked
    assert not os.path.exists(image)  # what is missing for a qualification keeps nothing from starting


def test_a_wrong_key_of_the_qualification_is_placed_and_corrected(site: MadeUpSite) -> None:
    site.write_profile(
        "p",
        MINIMAL + "qualification:\n  chat: {promt: hm, expect: Paris}\n  long_token: 3\n  image: red.png\n  tool: 1\n",
    )
    assert problems(site, "p") == [
        "p.yaml:4: qualification.chat.prompt: is missing: What is asked (/v1/chat/completions, temperature 0).",
        "p.yaml:4: qualification.chat.promt: unknown key; did you mean prompt?",
        "p.yaml:5: qualification.long_token: unknown key; did you mean long_tokens?",
        "p.yaml:6: qualification.image: String should match pattern '^[/~]', not 'red.png'",
        "p.yaml:7: qualification.tool: unknown key; did you mean tools?",
    ]
