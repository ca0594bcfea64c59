"""`arcops profile` on a made-up machine."""

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Ran
from tests.sites import MadeUpSite

Arcops = Callable[..., Ran]

PROFILE = (
    "description: Mine\ndevice: {kind: cpu}\nmodel: {path: tiny/hybrid}\n"
    "runtime: {env: {HF_TOKEN: hf_s3cret, A: 'two words'}}\n"
)


@pytest.fixture(autouse=True)
def mine(site: MadeUpSite) -> None:
    site.write_profile("mine", PROFILE)


def test_list_shows_every_profile_with_its_origin(arcops: Arcops) -> None:
    said = arcops("profile", "list")
    assert said.code == 0
    rows = [line.split(maxsplit=2) for line in said.out.splitlines()]
    assert ["mine", "own", "Mine"] in rows
    assert any(row[:2] == ["target-only", "shipped"] for row in rows)


def test_a_profile_without_a_description_is_not_called_invalid(arcops: Arcops, site: MadeUpSite) -> None:
    site.write_profile("plain", "device: {kind: cpu}\nmodel: {path: tiny/hybrid}\n")
    assert "invalid" not in arcops("profile", "list").out


def test_list_shows_an_invalid_profile_as_such(arcops: Arcops, site: MadeUpSite) -> None:
    site.write_profile("broken", "- x\n")
    said = arcops("profile", "list")
    assert said.code == 0
    assert "invalid: arcops profile check broken" in said.out
    rows: Any = json.loads(arcops("profile", "list", "--json").out)
    assert {"name": "broken", "from": "own", "description": None} in rows


def test_show_is_what_a_shell_would_run_without_secrets(arcops: Arcops, site: MadeUpSite) -> None:
    said = arcops("profile", "show", "mine")
    assert said.code == 0
    assert "hf_s3cret" not in said.out
    assert "# secret:   HF_TOKEN=(hidden)" in said.out
    words = shlex.split(said.out.replace("\\\n", " "), comments=True)
    assert words[:4] == ["A=two words", str(site.vllm), "serve", str(site.models / "tiny/hybrid")]
    assert words[-2:] == ["--disable-access-log-for-endpoints", "/health,/metrics,/v1/models"]
    assert "  --port 8000 \\\n" in said.out


def test_show_sources_the_set_up_script_first(arcops: Arcops, site: MadeUpSite) -> None:
    site.write_profile("mine", PROFILE + "server: {port: 9}\nextends: base\n")
    site.write_profile("base", f"runtime: {{setup: {site.setup}}}\n")
    said = arcops("profile", "show", "mine")
    lines = [line for line in said.out.splitlines() if not line.startswith("#")]
    assert lines[0] == f". {site.setup}"
    assert f"mine.yaml extends {site.profiles}/base.yaml" in said.out


def test_show_says_which_card_the_backend_sees_and_that_there_is_more(
    arcops: Arcops, site: MadeUpSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcops.config.locate.SYSFS", site.sysfs)
    said = arcops("profile", "show", "target-only")
    assert said.code == 0, said.err
    assert "ZE_AFFINITY_MASK=0 \\\n" in said.out
    assert "# adds:     5 variables to the environment; --full shows all of it" in said.out


def test_show_full_is_the_whole_environment_without_secrets(
    arcops: Arcops, site: MadeUpSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-too")
    site.write_profile("mine", PROFILE + "extends: base\n")
    site.write_profile("base", f"runtime: {{setup: {site.setup}}}\n")
    shown: Any = json.loads(arcops("profile", "show", "mine", "--full", "--json").out)
    environment = shown["environment"]
    assert environment["ONEAPI_ROOT"] == "/opt/intel/oneapi"
    assert (environment["A"], environment["HOME"]) == ("two words", site.env["HOME"])
    assert (environment["HF_TOKEN"], environment["MY_TOKEN"]) == ("(hidden)", "(hidden)")
    said = arcops("profile", "show", "mine", "--full")
    assert "ONEAPI_ROOT=/opt/intel/oneapi \\\n" in said.out
    assert "s3cret" not in said.out
    assert "adds:" not in said.out
    site.setup.write_text("exit 3\n")
    said = arcops("profile", "show", "mine", "--full")
    assert (said.code, said.out) == (6, "")
    assert arcops("profile", "show", "mine", "--full", "--diff", "target-only").code == 2


def test_show_json_is_the_whole_launch(arcops: Arcops, site: MadeUpSite) -> None:
    shown: Any = json.loads(arcops("profile", "show", "mine", "--json").out)
    assert shown["schema"] == 1
    assert shown["argv"][0] == str(site.vllm)
    assert shown["environment"] == {"A": "two words", "HF_TOKEN": "(hidden)"}
    assert shown["sources"] == [str(site.profiles / "mine.yaml")]


def test_show_diff_names_only_what_differs(arcops: Arcops) -> None:
    said = arcops("profile", "show", "demo-dflash2", "--diff", "demo-target-only")
    lines = said.out.splitlines()
    assert lines[:2] == ["--- demo-dflash2", "+++ demo-target-only"]
    assert len(lines) == 3
    assert lines[2].startswith("- --speculative-config ")
    changes: Any = json.loads(arcops("profile", "show", "demo-dflash2", "--diff", "demo-target-only", "--json").out)
    assert len(changes["only"]["demo-dflash2"]) == 1
    assert changes["other"]["demo-target-only"] == []


def test_show_of_what_cannot_start_is_exit_code_6_with_every_reason(arcops: Arcops, site: MadeUpSite) -> None:
    site.write_profile("bad", "device: {kind: cpu}\nmodel: {path: nope, dtyp: x}\n")
    said = arcops("profile", "show", "bad")
    assert (said.code, said.out) == (6, "")
    assert "bad.yaml:2: model.dtyp: unknown key; did you mean dtype?" in said.err
    assert arcops("profile", "show", "nosuch").code == 6


def test_check_of_all_forgives_a_shipped_profile_what_this_machine_lacks(arcops: Arcops, site: MadeUpSite) -> None:
    site.write_site(f"runtime: {{vllm: {site.vllm}}}\nmodels_dir: {site.models}\n")
    said = arcops("profile", "check")
    assert said.code == 0, said.err
    assert "mine: ok\n" in said.out
    assert "target-only: ok, but not for this machine as it is (" in said.out


def test_one_badly_named_file_does_not_end_the_check_of_all(arcops: Arcops, site: MadeUpSite) -> None:
    site.write_profile("my profile", PROFILE)
    said = arcops("profile", "check")
    assert said.code == 6
    assert "mine: ok\n" in said.out
    assert "my profile: 1 problem\n" in said.out
    assert "arcops: a profile is not usable: my profile" in said.err
    listed = [line.split() for line in arcops("profile", "list").out.splitlines()]
    assert ["my", "profile", "own", "invalid:", "arcops", "profile", "check", "'my", "profile'"] in listed


def test_check_by_name_forgives_nothing(arcops: Arcops, site: MadeUpSite) -> None:
    site.write_site("cards: []\n")
    said = arcops("profile", "check", "target-only")
    assert said.code == 6
    assert "device.cards: 1 needed" in said.out
    assert "arcops: a profile is not usable: target-only" in said.err


def test_check_of_all_fails_for_an_own_profile(arcops: Arcops, site: MadeUpSite) -> None:
    site.write_profile("bad", "device: {kind: gpu}\nmodel: {path: tiny/hybrid}\n")
    said = arcops("profile", "check", "--json")
    assert said.code == 6
    checked: Any = {entry["name"]: entry for entry in json.loads(said.out)}
    assert not checked["bad"]["ok"]
    assert checked["bad"]["problems"][0]["key"] == "device.kind"
    assert checked["bad"]["problems"][0]["line"] == 1
    assert checked["mine"]["ok"]


def test_schema_is_json_schema(arcops: Arcops) -> None:
    schema: Any = json.loads(arcops("profile", "schema").out)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"extends", "model", "speculation", "extra_args"} <= set(schema["properties"])


def test_bad_site_settings_stop_every_command_in_words(arcops: Arcops, site: MadeUpSite) -> None:
    site.write_site("cardz: []\n")
    for command in (["list"], ["check"], ["show", "mine"]):
        said = arcops("profile", *command)
        assert (said.code, said.out) == (6, "")
        assert "cardz: unknown key; did you mean cards?" in said.err
