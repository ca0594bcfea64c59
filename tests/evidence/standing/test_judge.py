"""How an environment stands: to those in which its profile has qualified, and to the one before."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError
from arcops.core.evidence.environment import Environment, digest_of
from arcops.core.launch import Launch
from arcops.evidence.standing import judge as module
from arcops.evidence.standing import kept
from arcops.evidence.standing.child import MOST_LINES, Question, Standing
from arcops.evidence.standing.judge import judge
from tests.core.simulated import launch
from tests.evidence.standing.surveyed import PATCHED, PLAIN, edit, qualify

Judged = Callable[..., Standing]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.of("t", {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})


@pytest.fixture
def judged(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> Judged:
    def read(environment: Environment, profile: str = "dflash2", **asked: object) -> Standing:
        def gathered(launch: Launch, paths: Paths) -> Environment:
            del launch, paths
            return environment

        monkeypatch.setattr(module, "gather", gathered)
        question = Question(instance="t", profile=profile, launch=launch(), **asked)  # pyright: ignore[reportArgumentType] - what a test asks beside
        return judge(question, paths)

    return read


def test_without_a_record_it_never_qualified(judged: Judged) -> None:
    found = judged(PLAIN)
    assert (found.digest, found.qualified, found.qualified_in, found.since_qualified) == (
        digest_of(PLAIN),
        False,
        None,
        None,
    )


def test_in_the_environment_of_its_record_it_has_qualified(judged: Judged, paths: Paths) -> None:
    qualify(paths.records, "dflash2", PLAIN)
    found = judged(PLAIN)
    assert (found.qualified, found.qualified_in, found.since_qualified) == (True, digest_of(PLAIN), None)


def test_in_another_one_it_has_not_and_what_has_changed_is_told(judged: Judged, paths: Paths) -> None:
    qualify(paths.records, "dflash2", PLAIN)
    found = judged(replace(PATCHED, system=(("kernel", "6.18"),)))
    assert (found.qualified, found.qualified_in) == (False, digest_of(PLAIN))
    assert found.since_qualified is not None
    assert found.since_qualified.count == len(found.since_qualified.lines) == 2
    assert "vllm/dflash.py" in found.since_qualified.lines[0]
    assert "6.17" in found.since_qualified.lines[1]


def test_of_several_the_newest_counts_for_what_has_changed(judged: Judged, paths: Paths) -> None:
    qualify(paths.records, "dflash2", PATCHED, at=1000.0)
    qualify(paths.records, "dflash2", PLAIN, at=2000.0)
    found = judged(replace(PLAIN, interpreter="CPython 3.13.1"))
    assert found.qualified_in == digest_of(PLAIN)
    assert judged(PATCHED).qualified is True, "an older environment is as good as it was"


def test_another_profiles_record_is_none(judged: Judged, paths: Paths) -> None:
    qualify(paths.records, "target-only", PLAIN)
    assert judged(PLAIN).qualified is False
    assert judged(PLAIN, "target-only").qualified is True


def test_what_failed_has_not_qualified_and_does_so_no_more(judged: Judged, paths: Paths) -> None:
    qualify(paths.records, "dflash2", PLAIN, at=1000.0, passed=False)
    assert judged(PLAIN).qualified is False
    qualify(paths.records, "dflash2", PLAIN, at=2000.0)
    assert judged(PLAIN).qualified is True
    qualify(paths.records, "dflash2", PLAIN, at=3000.0, passed=False)
    assert judged(PLAIN).qualified is False


def test_an_edited_record_is_not_believed_and_that_is_said(judged: Judged, paths: Paths) -> None:
    edit(qualify(paths.records, "dflash2", PLAIN))
    found = judged(PLAIN)
    assert (found.qualified, found.qualified_in) == (False, None)
    assert len(found.problems) == 1
    assert found.problems[0].startswith("a record is not believed: ")


def test_a_record_that_does_not_hold_its_environment_does_not_say_what_has_changed(
    judged: Judged, paths: Paths
) -> None:
    qualify(paths.records, "dflash2", PLAIN, told=None)
    found = judged(PATCHED)
    assert (found.qualified, found.qualified_in, found.since_qualified) == (False, digest_of(PLAIN), None)
    qualify(paths.records, "dflash2", PLAIN, at=2.0, told=PATCHED)
    assert judged(PATCHED).since_qualified is None, "it holds another one than it names"


def test_where_an_environment_stands_does_not_count(judged: Judged, paths: Paths) -> None:
    qualify(paths.records, "dflash2", PLAIN)
    assert judged(replace(PLAIN, prefix="/elsewhere")).qualified is True


def test_what_is_kept_is_found_again_by_its_digest(judged: Judged, paths: Paths) -> None:
    digest = judged(PLAIN, keep=True).digest
    assert kept.read(paths.environments, digest) == PLAIN
    found = judge(Question(instance="t", profile="dflash2", digest=digest), paths)
    assert (found.digest, found.qualified) == (digest, False)
    again = judged(PATCHED, previous=digest)
    assert again.since_previous is not None
    assert again.since_previous.count == 1


def test_with_what_is_not_kept_any_more_nothing_is_compared(judged: Judged, paths: Paths) -> None:
    digest = judged(PLAIN, keep=True).digest
    kept.path_of(paths.environments, digest).write_text("{}")
    assert judged(PATCHED, previous=digest).since_previous is None
    with pytest.raises(ArcopsError, match="cannot be read"):
        judge(Question(instance="t", profile="dflash2", digest=digest), paths)


def test_a_kept_environment_that_was_changed_is_not_believed(judged: Judged, paths: Paths) -> None:
    digest = judged(PLAIN, keep=True).digest
    path = kept.path_of(paths.environments, digest)
    path.write_bytes(path.read_bytes().replace(b"6.17", b"6.18"))
    with pytest.raises(ArcopsError, match="was changed after it was written"):
        kept.read(paths.environments, digest)


def test_what_a_question_or_a_qualification_names_stays_and_of_the_others_the_newest(
    judged: Judged, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = [replace(PLAIN, interpreter=f"CPython 3.12.{number}") for number in range(6)]
    qualify(paths.records, "mtp", environments[0])
    monkeypatch.setattr(kept.prune, "__defaults__", (2,))
    named = digest_of(environments[1])
    for environment in environments:
        judged(environment, keep=True, named=(named,))
    stay = {digest_of(environments[number]) for number in (0, 1, 3, 4, 5)}
    assert {f"sha256:{path.stem}" for path in paths.environments.glob("*.json")} == stay


def test_a_folder_that_takes_nothing_costs_the_file_and_is_said(judged: Judged, paths: Paths) -> None:
    paths.environments.parent.mkdir(parents=True)
    paths.environments.write_text("")
    found = judged(PLAIN, keep=True)
    assert found.digest == digest_of(PLAIN)
    assert len(found.problems) == 1
    assert "cannot be kept" in found.problems[0]


def test_records_that_cannot_be_read_are_not_the_same_as_none(judged: Judged, paths: Paths) -> None:
    paths.records.parent.mkdir(parents=True)
    paths.records.symlink_to(paths.records.name)
    found = judged(PLAIN)
    assert found.qualified is None
    assert "cannot read the folder of records" in found.problems[0]


def test_of_very_much_the_first_is_told_and_the_rest_counted(judged: Judged, paths: Paths) -> None:
    qualify(paths.records, "dflash2", PLAIN)
    many = tuple((f"part {number:03d}", "x" * 1000) for number in range(200))
    found = judged(replace(PLAIN, system=many, unread=tuple(f"{name} {value}" for name, value in many)))
    assert found.since_qualified is not None
    assert found.since_qualified.count == 201
    assert len(found.since_qualified.lines) == MOST_LINES
    assert len(found.unread) == MOST_LINES + 1
    assert found.unread[-1] == f"and {200 - MOST_LINES} more"
    assert all(len(line) <= 300 for line in (*found.since_qualified.lines, *found.unread))


@pytest.mark.parametrize("word", ["", "sha256:", "../../etc/passwd", f"sha256:{'A' * 64}", f"sha256:{'0' * 63}/"])
def test_what_is_no_digest_names_no_file(paths: Paths, word: str) -> None:
    with pytest.raises(ArcopsError, match="is no digest"):
        kept.path_of(paths.environments, word)
