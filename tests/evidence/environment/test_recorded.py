"""Environments on the shelf, and those that launches ran in, found by what a person says."""

from dataclasses import replace
from pathlib import Path

import pytest

from arcops.core.errors import ArcopsError
from arcops.core.evidence.environment import Environment, ModelFacts, digest_of
from arcops.evidence.environment import recorded
from arcops.evidence.standing import kept

MODEL = ModelFacts("/m", None, "sha256:c", None, "sha256:h", samples_digest="sha256:s")
ONE = Environment("CPython 3.12", "/opt", (), (("kernel", "1"),), (), MODEL, None, (), (), {}, profile="mine")
TWO = replace(ONE, system=(("kernel", "2"),), profile="other")


def put(folder: Path, environment: Environment, at: float) -> recorded.Recorded:
    return recorded.keep(folder, environment, at, at + 1, ("arcops", "env", "record"))


def digits(environment: Environment) -> str:
    return digest_of(environment).removeprefix("sha256:")


def test_one_is_found_by_the_beginning_of_its_digest(tmp_path: Path) -> None:
    one = put(tmp_path, ONE, 1.0)
    put(tmp_path, TWO, 2.0)
    assert recorded.named(tmp_path, digits(ONE)[:6]) == one
    assert recorded.named(tmp_path, digest_of(ONE)) == one
    assert recorded.named(tmp_path, one.path.name) == one


def test_what_a_launch_left_is_found_as_well(tmp_path: Path) -> None:
    kept.keep(tmp_path, ONE)
    found = recorded.named(tmp_path, digits(ONE)[:8])
    assert (found.environment, found.by) == (ONE, "launch")


def test_the_newest_is_what_was_recorded_before_what_was_launched(tmp_path: Path) -> None:
    kept.keep(tmp_path, TWO)
    found = recorded.newest(tmp_path)
    assert found is not None
    assert found.by == "launch"
    put(tmp_path, ONE, 1.0)
    put(tmp_path, replace(ONE, interpreter="CPython 3.13"), 2.0)
    found = recorded.newest(tmp_path)
    assert found is not None
    assert (found.at, found.environment.interpreter) == (2.0, "CPython 3.13")
    assert recorded.newest(tmp_path, "nobody's") is None


def test_the_same_with_more_known_is_kept_beside_it(tmp_path: Path) -> None:
    first = put(tmp_path, ONE, 1.0)
    more = replace(ONE, model=replace(MODEL, weights_digest="sha256:w"))
    second = put(tmp_path, more, 2.0)
    assert (second.digest, second.path != first.path) == (first.digest, True)
    assert put(tmp_path, ONE, 3.0) == first


def test_a_file_of_a_launch_that_was_edited_is_refused(tmp_path: Path) -> None:
    kept.keep(tmp_path, ONE)
    path = tmp_path / f"{digits(ONE)}.json"
    path.write_text(path.read_text().replace("3.12", "3.13"))
    with pytest.raises(ArcopsError, match="changed after it was written"):
        recorded.read(path)
    assert recorded.newest(tmp_path) is None


def test_a_slip_is_no_digest(tmp_path: Path) -> None:
    put(tmp_path, ONE, 1.0)
    for word in ("abc", "zzzz", "", "sha256:"):
        with pytest.raises(ArcopsError, match="no environment is recorded"):
            recorded.named(tmp_path, word)
