"""The profiles to choose from, read from files as they are."""

from pathlib import Path

import pytest
import yaml

from arcops.core.errors import ArcopsError
from arcops.core.launch import HIDDEN
from arcops.tui.profiles import ProfileChoice, configured
from tests.fakes.runtime import fake_model, fake_vllm_path


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for profiles, beside site settings that are right."""
    monkeypatch.setenv("ARCOPS_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    fake_model(tmp_path / "models" / "target")
    site = {"runtime": {"vllm": str(fake_vllm_path())}, "models_dir": str(tmp_path / "models")}
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(site))
    (tmp_path / "profiles").mkdir()
    return tmp_path / "profiles"


def write(folder: Path, name: str, **sections: object) -> None:
    complete: dict[str, object] = {
        "description": f"It is {name}.",
        "device": {"kind": "cpu"},
        "model": {"path": "target", "served_name": "tiny"},
        "scheduling": {"max_model_len": 32768, "max_num_seqs": 4},
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(complete | sections))


def found(name: str) -> ProfileChoice:
    return next(choice for choice in configured("main") if choice.name == name)


def test_a_profile_that_can_be_used_says_what_it_would_start_and_hides_secrets(profiles: Path):
    write(profiles, "good", runtime={"env": {"MY_TOKEN": "s3cret", "OMP_NUM_THREADS": "8"}})
    choice = found("good")
    assert (choice.description, choice.problem, choice.lacking) == ("It is good.", "", False)
    assert choice.planned is not None
    assert choice.planned.argv[:2] == (str(fake_vllm_path()), "serve")
    assert dict(choice.planned.environment)["MY_TOKEN"] == HIDDEN
    assert dict(choice.planned.environment)["OMP_NUM_THREADS"] == "8"


def test_a_file_that_is_wrong_is_told_with_every_problem_and_does_not_hide_the_others(profiles: Path):
    write(profiles, "good")
    write(profiles, "bad", model={"pth": "target"}, nosuch=1)
    choice = found("bad")
    assert "model.pth: unknown key" in choice.problem
    assert "nosuch" in choice.problem
    assert (choice.lacking, choice.planned) == (False, None)
    assert found("good").problem == ""


def test_what_only_this_machine_lacks_is_no_fault_of_the_file(profiles: Path):
    write(profiles, "elsewhere", model={"path": "not/here", "served_name": "tiny"})
    choice = found("elsewhere")
    assert choice.lacking
    assert choice.problem
    assert choice.description == "It is elsewhere."
    assert choice.planned is None


def test_a_file_whose_name_is_none_or_that_is_no_yaml_is_one_of_the_list(profiles: Path):
    (profiles / "white space.yaml").write_text("")
    (profiles / "noise.yaml").write_bytes(b"\xff\xfe\x00")
    assert found("white space").problem
    assert found("noise").problem


def test_site_settings_that_cannot_be_read_are_an_error(profiles: Path):
    (profiles.parent / "site.yaml").write_text("modls_dir: x\n")
    with pytest.raises(ArcopsError, match="modls_dir"):
        configured("main")
