"""Headers are read once, and again where a file has changed."""

import json
import os
from pathlib import Path

import pytest

from arcops.core.launch import Launch
from arcops.planning import PlanError, Subject, Subjects, subject_of
from arcops.planning.subjects import MOST_KEPT
from tests.core.simulated import launch
from tests.planning.tiny import tiny


class Counting:
    """Reads, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, one: Launch) -> Subject:
        self.times += 1
        return subject_of(one)


def of(folder: Path, *flags: str) -> Launch:
    return launch(argv=("vllm", "serve", str(folder), *flags))


def test_what_has_not_changed_is_read_once(tmp_path: Path) -> None:
    reads = Counting()
    subjects, one = Subjects(reads), of(tiny(tmp_path / "model"))
    assert subjects.of(one) is subjects.of(one)
    assert reads.times == 1


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_was_written_again_is_read_again(tmp_path: Path, name: str) -> None:
    reads = Counting()
    subjects, one = Subjects(reads), of(tiny(tmp_path / "model"))
    first = subjects.of(one)
    os.utime(tmp_path / "model" / name, ns=(1, 1))
    assert subjects.of(one) == first
    assert reads.times == 2


def test_a_file_that_came_or_grew_is_noticed(tmp_path: Path) -> None:
    subjects, one = Subjects(), of(tiny(tmp_path / "model"))
    before = subjects.of(one)
    tiny(tmp_path / "larger", rows=1024)
    (tmp_path / "larger" / "model.safetensors").rename(tmp_path / "model" / "model.safetensors")
    assert subjects.of(one).target.weights.total == 2 * before.target.weights.total


def test_the_drafts_files_count_as_well(tmp_path: Path) -> None:
    reads = Counting()
    target, draft = tiny(tmp_path / "model"), tiny(tmp_path / "draft")
    speculative = json.dumps({"method": "draft_model", "model": str(draft), "num_speculative_tokens": 2})
    subjects, one = Subjects(reads), of(target, "--speculative-config", speculative)
    subjects.of(one)
    os.utime(draft / "config.json", ns=(1, 1))
    subjects.of(one)
    assert reads.times == 2


def test_what_cannot_be_read_is_tried_again(tmp_path: Path) -> None:
    subjects, one = Subjects(), of(tmp_path / "model")
    with pytest.raises(PlanError):
        subjects.of(one)
    tiny(tmp_path / "model")
    assert subjects.of(one).target.weights.total > 0
    with pytest.raises(PlanError):
        subjects.of(of(tmp_path / "model", "--max-model-len", "long"))


def test_only_the_last_ones_are_kept(tmp_path: Path) -> None:
    reads = Counting()
    subjects, folder = Subjects(reads), tiny(tmp_path / "model")
    launches = [of(folder, "--max-model-len", str(length)) for length in range(1024, 1024 + MOST_KEPT + 1)]
    for one in launches:
        subjects.of(one)
    subjects.of(launches[-1])
    assert reads.times == len(launches)
    subjects.of(launches[0])
    assert reads.times == len(launches) + 1
