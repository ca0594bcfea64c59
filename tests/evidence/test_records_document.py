"""docs/records.md says what a record has, and what it is asked."""

import re
from pathlib import Path

from arcops.core.evidence.judge import Question
from arcops.core.evidence.rungs import Standing
from arcops.evidence.record import Record
from arcops.evidence.sealed import MOST_BYTES

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "records.md").read_text()


def test_every_part_of_a_record_is_named() -> None:
    named = {word.partition(".")[0] for word in re.findall(r"`([a-z_]+)[`.\[]", DOCUMENT)}
    assert set(Record.__struct_fields__) <= named


def test_every_question_stands_in_the_table() -> None:
    for question in Question:
        assert f"\n| {question.value} |" in DOCUMENT, question


def test_what_a_rung_may_come_to_is_said_in_the_same_words() -> None:
    for standing in Standing:
        assert standing.value in " ".join(DOCUMENT.split()), standing


def test_the_largest_file_is_named() -> None:
    assert f"larger than {MOST_BYTES // 2**20} MiB" in " ".join(DOCUMENT.split())
