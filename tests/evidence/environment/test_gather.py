"""A whole environment of a made-up runtime: what runs before vLLM, what is hidden, and what cannot be read."""

import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError
from arcops.core.evidence.environment import Environment, changes, digest_of
from arcops.core.launch import HIDDEN, Launch
from arcops.evidence.environment.gather import gather
from tests.evidence.environment.runtime import CODE, MadeUpRuntime
from tests.evidence.environment.test_models import checkpoint


@pytest.fixture
def runtime(tmp_path: Path) -> MadeUpRuntime:
    return MadeUpRuntime.at(tmp_path / "venv")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return checkpoint(tmp_path / "model")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.of("main", {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")})


def test_an_environment_is_the_same_when_it_is_read_again(runtime: MadeUpRuntime, model: Path, paths: Paths) -> None:
    launch = runtime.launch(model)
    one, two = gather(launch, paths), gather(launch, paths, full=True)
    assert (one.unread, one == two, changes(one, two)) == ((), True, ())
    assert [name for name, _ in one.system].count("kernel") == 1
    assert {"distribution", "kernel", "python build"} <= dict(one.system).keys()


def test_it_survives_being_written_down(runtime: MadeUpRuntime, model: Path, paths: Paths) -> None:
    found = gather(runtime.launch(model), paths)
    again = msgspec.json.decode(msgspec.json.encode(found), type=Environment)
    assert (again, digest_of(again)) == (found, digest_of(found))


def test_a_patch_is_a_change(runtime: MadeUpRuntime, model: Path, paths: Paths) -> None:
    before = gather(runtime.launch(model), paths)
    (runtime.site / "vllm/ops.py").write_bytes(CODE + b"# patched\n")
    after = gather(runtime.launch(model), paths)
    assert [(change.part, change.name) for change in changes(before, after)] == [("file", "vllm/ops.py")]


def test_a_runtime_that_was_moved_is_the_same(tmp_path: Path, model: Path, paths: Paths) -> None:
    one, two = (MadeUpRuntime.at(tmp_path / name) for name in ("here", "there"))
    first = gather(one.launch(model, environment={"X": f"{one.prefix}/lib"}), paths)
    second = gather(two.launch(model, environment={"X": f"{two.prefix}/lib"}), paths)
    assert changes(first, second) == ()
    assert first.prefix != second.prefix


def test_secrets_are_hidden(runtime: MadeUpRuntime, model: Path, paths: Paths) -> None:
    environment = {"HF_TOKEN": "hf_tellnobody", "PLAIN": "seen", "PROXY": "http://me:tellnobody@host"}
    found = gather(runtime.launch(model, "--api-key", "tellnobody", environment=environment), paths)
    assert "tellnobody" not in msgspec.json.encode(found).decode()
    assert dict(found.environment) == {"HF_TOKEN": HIDDEN, "PLAIN": "seen", "PROXY": f"http://{HIDDEN}@host"}


def with_setup(launch: Launch, script: Path, text: str) -> Launch:
    script.write_text(text)
    return replace(launch, setup=str(script))


def test_what_the_setup_script_makes_is_recorded_whoever_asks(
    runtime: MadeUpRuntime, model: Path, paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'export ONEAPI_ROOT=/opt/intel/oneapi LD_LIBRARY_PATH="/opt/lib:$LD_LIBRARY_PATH" PATH="/opt/bin:$PATH"\n'
    launch = with_setup(runtime.launch(model), tmp_path / "setvars.sh", text)
    first = gather(launch, paths)
    monkeypatch.setenv("PATH", f"/somewhere/else:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/a/login")
    monkeypatch.setenv("ONEAPI_ROOT", "/opt/intel/oneapi")
    second = gather(launch, paths)
    assert dict(first.environment) == {
        "LD_LIBRARY_PATH": "/opt/lib",
        "ONEAPI_ROOT": "/opt/intel/oneapi",
        "PATH": "/opt/bin",
    }
    assert changes(first, second) == ()
    assert list(first.launcher) == [str(tmp_path / "setvars.sh"), str(runtime.vllm)]


def test_a_script_that_was_sourced_already_is_taken_at_its_word(
    runtime: MadeUpRuntime, model: Path, paths: Paths, tmp_path: Path
) -> None:
    launch = with_setup(runtime.launch(model), tmp_path / "setvars.sh", "exit 1\n")
    made = {**os.environ, "SYCL_CACHE": "1", "PATH": f"/opt/bin:{os.environ['PATH']}"}
    found = gather(launch, paths, setup_environment=made)
    assert (dict(found.environment), found.unread) == ({"PATH": "/opt/bin", "SYCL_CACHE": "1"}, ())


def test_a_setup_script_that_fails_leaves_its_variables_unknown(
    runtime: MadeUpRuntime, model: Path, paths: Paths, tmp_path: Path
) -> None:
    found = gather(with_setup(runtime.launch(model), tmp_path / "setvars.sh", "false\nreturn 3\n"), paths)
    assert any("set-up script" in sentence for sentence in found.unread)


def test_an_edited_setup_script_is_a_change(runtime: MadeUpRuntime, model: Path, paths: Paths, tmp_path: Path) -> None:
    script = tmp_path / "setvars.sh"
    before = gather(with_setup(runtime.launch(model), script, "export A=1\n"), paths)
    after = gather(with_setup(runtime.launch(model), script, "export A=1 # edited\n"), paths)
    assert [(change.part, change.name) for change in changes(before, after)] == [("launcher", "setvars.sh")]


def test_an_overlay_on_the_pythonpath_is_part_of_the_runtime(
    runtime: MadeUpRuntime, model: Path, paths: Paths, tmp_path: Path
) -> None:
    (tmp_path / "overlay" / "vllm_patch").mkdir(parents=True)
    (tmp_path / "overlay" / "vllm_patch" / "__init__.py").write_bytes(CODE)
    found = gather(runtime.launch(model, environment={"PYTHONPATH": str(tmp_path / "overlay")}), paths)
    assert [file.path for file in found.loose] == ["vllm_patch/"]


def test_a_draft_of_its_own_is_read_as_well(runtime: MadeUpRuntime, model: Path, paths: Paths, tmp_path: Path) -> None:
    draft = checkpoint(tmp_path / "draft", b"\3" * 100)
    config = f'{{"method":"dflash","model":"{draft}","num_speculative_tokens":3}}'
    found = gather(runtime.launch(model, "--speculative-config", config), paths)
    assert found.draft is not None
    assert found.draft.path == str(draft)


def test_a_model_that_cannot_be_read_is_unknown_and_said(runtime: MadeUpRuntime, paths: Paths, tmp_path: Path) -> None:
    found = gather(runtime.launch(tmp_path / "nowhere"), paths)
    assert any(str(tmp_path / "nowhere") in sentence for sentence in found.unread)


def test_a_card_that_is_not_there_is_unknown_and_said(runtime: MadeUpRuntime, model: Path, paths: Paths) -> None:
    found = gather(replace(runtime.launch(model), cards=("ffff:ff:1f.7",)), paths)
    assert [card.name for card in found.cards] == ["unknown"]
    assert any("ffff:ff:1f.7" in sentence for sentence in found.unread)


def test_without_a_runtime_there_is_one_error_in_words(model: Path, paths: Paths, tmp_path: Path) -> None:
    launch = MadeUpRuntime(tmp_path / "nowhere").launch(model)
    with pytest.raises(ArcopsError, match="there is no runtime"):
        gather(launch, paths)


def test_a_memory_that_cannot_be_written_costs_nothing_but_time(
    runtime: MadeUpRuntime, model: Path, paths: Paths
) -> None:
    paths.hashes.parent.parent.mkdir(parents=True, exist_ok=True)
    paths.hashes.parent.write_text("a file in the folder's place")
    assert gather(runtime.launch(model), paths).distributions
