"""`arcops env`: an environment recorded, shown, compared, and held against what is there now."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ran
from tests.evidence.environment.runtime import CODE, MadeUpRuntime
from tests.evidence.environment.test_models import checkpoint
from tests.sites import MadeUpSite

Arcops = Callable[..., Ran]
PROFILE = "device: {kind: cpu}\nmodel: {path: made/up}\nscheduling: {max_model_len: 2048}\n"


@pytest.fixture
def runtime(site: MadeUpSite) -> MadeUpRuntime:
    """`mine` in a made-up runtime."""
    made = MadeUpRuntime.at(site.root / "venv")
    checkpoint(site.models / "made/up")
    site.write_site(f"runtime: {{vllm: {made.vllm}}}\nmodels_dir: {site.models}\n")
    site.write_profile("mine", PROFILE)
    return made


def recorded(arcops: Arcops, *more: str) -> dict[str, str]:
    ran = arcops("env", "record", "mine", "--json", *more)
    assert ran.code == 0, ran.err
    found: dict[str, str] = json.loads(ran.out)
    return found


def patch(runtime: MadeUpRuntime) -> None:
    (runtime.site / "vllm/ops.py").write_bytes(CODE + b"# patched\n")


def test_a_record_is_named_by_its_environments_digest_and_shown_by_it(arcops: Arcops, runtime: MadeUpRuntime) -> None:
    patch(runtime)
    found = recorded(arcops)
    digits = found["digest"].removeprefix("sha256:")
    assert Path(found["path"]).name == f"environment-{digits[:12]}.json"
    shown = arcops("env", "show", digits[:8])
    assert shown.code == 0, shown.err
    assert "changed    vllm/ops.py" in shown.out.split("interpreter")[0]
    assert shown.out == arcops("env", "show").out == arcops("env", "show", found["path"]).out


def test_recording_the_same_again_keeps_the_first(arcops: Arcops, runtime: MadeUpRuntime) -> None:
    first = recorded(arcops)
    again = arcops("env", "record", "mine")
    assert (again.code, recorded(arcops)) == (0, first)
    assert "recorded before" in again.err


def test_packages_are_counted_and_named_on_request(arcops: Arcops, runtime: MadeUpRuntime) -> None:
    recorded(arcops)
    assert "kernels" not in arcops("env", "show").out
    assert "kernels" in arcops("env", "show", "--all").out


def test_nothing_that_changed_is_said_as_such(arcops: Arcops, runtime: MadeUpRuntime) -> None:
    recorded(arcops)
    ran = arcops("env", "verify", "mine", "--json")
    said = json.loads(ran.out)
    # On a machine without a package database something is unknown, and then nothing is called the same.
    assert said["same"] is (None if said["unread"] else True)
    assert (ran.code, said["changes"], said["old"] == said["new"]) == (0, [], True)


@pytest.mark.parametrize("by", ["profile", "file", "digest"])
def test_a_patched_file_is_caught_and_named(arcops: Arcops, runtime: MadeUpRuntime, by: str) -> None:
    found = recorded(arcops)
    patch(runtime)
    word = {"profile": "mine", "file": found["path"], "digest": found["digest"][:20]}[by]
    ran = arcops("env", "verify", word)
    assert ran.code == 1
    assert ran.out.startswith("file vllm/ops.py: changed ")


def test_a_new_version_is_caught_and_named(arcops: Arcops, runtime: MadeUpRuntime) -> None:
    recorded(arcops)
    metadata = runtime.site / "vllm-0.29.0.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("0.29.0", "0.30.0"))
    ran = arcops("env", "verify", "mine")
    assert ran.code == 1
    assert "distribution vllm: 0.29.0" in ran.out
    assert "-> 0.30.0" in ran.out


def test_weights_that_were_recorded_are_read_again(arcops: Arcops, runtime: MadeUpRuntime, site: MadeUpSite) -> None:
    recorded(arcops, "--weights")
    weights = site.models / "made/up/model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-PLACE] ^= 1
    weights.write_bytes(content)
    ran = arcops("env", "verify", "mine")
    assert ran.code == 1
    assert ran.out.startswith("model weights: ")


PLACE = 7_000
"""Bytes from the end: between two of the places that are looked at in any case."""


def test_two_environments_are_compared(arcops: Arcops, runtime: MadeUpRuntime) -> None:
    first = recorded(arcops)["path"]
    patch(runtime)
    second = recorded(arcops)["path"]
    assert arcops("env", "diff", first, first).code == 0
    ran = arcops("env", "diff", first, second, "--json")
    said = json.loads(ran.out)
    assert (ran.code, said["same"]) == (1, False)
    assert [(change["part"], change["name"], change["was"]) for change in said["changes"]] == [
        ("file", "vllm/ops.py", None)
    ]


def test_two_that_have_something_unread_are_not_called_the_same(
    arcops: Arcops, runtime: MadeUpRuntime, site: MadeUpSite
) -> None:
    (site.models / "made/up/model.safetensors").unlink()
    path = recorded(arcops)["path"]
    ran = arcops("env", "diff", path, path)
    assert ran.out.startswith("nothing that could be read differs")
    assert "unknown: the model" in ran.err
    assert json.loads(arcops("env", "diff", path, path, "--json").out)["same"] is None


def test_a_record_may_go_to_a_file_which_is_never_overwritten(
    arcops: Arcops, runtime: MadeUpRuntime, tmp_path: Path
) -> None:
    place = str(tmp_path / "mine.json")
    assert recorded(arcops, "--to", place)["path"] == place
    again = arcops("env", "record", "mine", "--to", place)
    assert again.code == 1
    assert place in again.err


def test_a_record_that_was_edited_is_refused(arcops: Arcops, runtime: MadeUpRuntime) -> None:
    path = Path(recorded(arcops)["path"])
    edited = path.read_text().replace('"version":"0.29.0"', '"version":"0.30.0"')
    assert edited != path.read_text()
    path.chmod(0o600)
    path.write_text(edited)
    for command in (("show", str(path)), ("verify", str(path)), ("diff", str(path), str(path))):
        assert arcops("env", *command).code == 1


@pytest.mark.parametrize(
    "command", [("show",), ("show", "abcdef"), ("verify", "mine"), ("verify", "abcdef"), ("record",)]
)
def test_what_is_not_there_is_a_mistake_in_the_command(
    arcops: Arcops, runtime: MadeUpRuntime, command: tuple[str, ...]
) -> None:
    ran = arcops("env", *command)
    assert (ran.code, ran.out) == (2, "")
    assert "hint:" in ran.err


def test_what_a_package_calls_itself_moves_no_cursor(arcops: Arcops, runtime: MadeUpRuntime) -> None:
    (runtime.site / "vllm/\x1b[2Jevil.py").write_bytes(CODE)
    shown = arcops("env", "record", "mine")
    assert shown.code == 0, shown.err
    assert "evil.py" in shown.out
    assert "\x1b" not in shown.out


def test_a_word_that_no_file_can_be_called_is_no_environment(arcops: Arcops, site: MadeUpSite) -> None:
    ran = arcops("env", "show", "g" * 300)
    assert (ran.code, "no environment is recorded as" in ran.err) == (2, True)
