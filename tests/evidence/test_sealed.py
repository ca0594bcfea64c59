"""A record is believed as a whole or not at all."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcops.core.errors import ArcopsError
from arcops.core.evidence.work import digest
from arcops.evidence import sealed
from arcops.evidence.record import FORMAT
from arcops.evidence.sealed import canonical, head_of, opened
from tests.core.evidence.measured import ladder, record, setting

CONTENT = sealed.sealed(record())
MADE = msgspec.to_builtins(record())
Plain = dict[str, object]


def resealed(value: bytes) -> bytes:
    """As somebody would write it who knows the format, and gives the digest that fits."""
    return b'{"digest":"' + digest(value).encode() + b'","record":' + value + b"}\n"


def edited(change: Callable[[Plain], None]) -> bytes:
    plain = cast(Plain, json.loads(json.dumps(MADE)))
    change(plain)
    return resealed(canonical(plain))


def refusal(content: bytes) -> str:
    with pytest.raises(ArcopsError) as caught:
        opened(content, "R")
    return caught.value.message


def test_what_was_sealed_is_opened_unchanged() -> None:
    found, told = opened(CONTENT, "R")
    assert found == record()
    assert told == json.loads(CONTENT)["digest"]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_a_record_with_any_byte_changed_is_refused(place: int, by: int) -> None:
    changed = bytearray(CONTENT)
    changed[place] = (changed[place] + by) % 256
    refusal(bytes(changed))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(CONTENT) - 1))
def test_a_record_that_was_cut_off_anywhere_is_refused(place: int) -> None:
    refusal(CONTENT[:place])


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(CONTENT)), st.binary(min_size=1, max_size=3))
def test_a_record_with_something_added_anywhere_is_refused(place: int, more: bytes) -> None:
    refusal(CONTENT[:place] + more + CONTENT[place:])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=200).map(resealed))
def test_rubbish_is_refused_in_words(content: bytes) -> None:
    refusal(content)
    with pytest.raises(ArcopsError):
        head_of(content, "R")


def test_an_edited_record_says_that_it_was_edited() -> None:
    assert "was edited after it was written" in refusal(CONTENT.replace(b'"tiny"', b'"huge"', 1))


def test_a_cut_record_says_that_it_was_cut() -> None:
    assert "is cut off" in refusal(CONTENT[:-100])


def test_what_is_no_record_says_so() -> None:
    assert refusal(b"PNG") == "R is not a record of arcops"
    assert "is not a record" in refusal(resealed(b"[1,2]"))
    assert "is not a record" in refusal(resealed(b"{"))
    assert "is not a record" in refusal(resealed(b"[" * 100_000))
    assert "is not a record" in refusal(resealed(b'"' + b"\xff" * 9 + b'"'))
    assert "is not a record" in refusal(resealed(b"9" * 10_000))


def test_a_key_that_is_there_twice_is_refused() -> None:
    value = canonical(MADE)
    twice = value.replace(b'{"answer":null', b'{"answer":null,"answer":null', 1)
    twice = twice if twice != value else value.replace(b'"kind":"ladder"', b'"kind":"ladder","kind":"ladder"', 1)
    assert "a key is there twice" in refusal(resealed(twice))


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_a_number_that_is_none_is_refused(number: bytes) -> None:
    value = canonical(MADE)
    began = canonical(MADE["began"])
    assert "is not a record" in refusal(resealed(value.replace(b'"began":' + began, b'"began":' + number)))


def test_another_spelling_of_the_same_is_refused() -> None:
    value = canonical(MADE)
    assert "not in the one form" in refusal(resealed(value.replace(b",", b", ", 1)))
    assert "not in the one form" in refusal(resealed(value.replace(b'"ladder"', b'"l\\u0061dder"', 1)))
    backwards = json.dumps(dict(reversed(MADE.items())), separators=(",", ":")).encode()
    assert "not in the one form" in refusal(resealed(backwards))


def test_a_newer_format_is_refused_as_such() -> None:
    def newer(plain: Plain) -> None:
        plain["arcops_record"] = FORMAT + 1
        plain["what_is_this"] = 1

    said = refusal(edited(newer))
    assert said == f"R has format {FORMAT + 1}, and this arcops reads up to {FORMAT}"
    with pytest.raises(ArcopsError, match="has format"):
        head_of(edited(newer), "R")


@pytest.mark.parametrize("number", [0, -1])
def test_a_format_that_never_was_is_refused(number: int) -> None:
    assert "says what cannot be" in refusal(edited(lambda plain: plain.update(arcops_record=number)))


def test_a_kind_that_there_is_not_is_refused() -> None:
    assert "no records of the kind 'party'" in refusal(edited(lambda plain: plain.update(kind="party")))


def test_a_field_that_nobody_knows_is_refused_wherever_it_is() -> None:
    assert "`surprise`" in refusal(edited(lambda plain: plain.update(surprise=1)))

    def deep(plain: Plain) -> None:
        run = cast("dict[str, list[dict[str, dict[str, int]]]]", plain["run"])
        run["stages"][1]["watched"]["surprise"] = 1

    assert refusal(edited(deep)) == "R has what this arcops does not know: record.run.stages[1].watched.surprise"


def test_a_record_without_fields_that_came_later_is_read() -> None:
    assert opened(edited(lambda plain: plain.pop("note")), "R")[0] == record()  # type: ignore[arg-type]


def test_a_flipped_token_is_refused_even_with_a_digest_that_fits() -> None:
    def flip(plain: Plain) -> None:
        answers = cast("dict[str, dict[str, list[int]]]", plain["run"])["answers"]
        next(iter(answers.values()))[-1] += 1

    assert "has tokens of another digest" in refusal(edited(flip))


def test_a_claim_of_identity_is_refused_even_with_a_digest_that_fits() -> None:
    odd = record(ladder(odd={1: (1, 2)}))
    plain = cast("dict[str, dict[str, list[Plain]]]", json.loads(canonical(msgspec.to_builtins(odd))))
    plain["identity"]["stages"][1].update(exact=4, divergences=[])
    assert "does not follow from its answers" in refusal(resealed(canonical(plain)))


def test_a_record_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(ArcopsError, match="cannot be written"):
        sealed.sealed(record(began=float("nan")))


def test_a_record_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "MOST_BYTES", 1000)
    with pytest.raises(ArcopsError, match="larger than a record may be"):
        sealed.sealed(record())


def test_text_of_a_server_is_kept_whatever_it_is() -> None:
    for text in ("é 中 \u202e \x1b[31m", "\ud800", "\x00"):
        noted = msgspec.structs.replace(record(), note=text)
        content = sealed.sealed(noted)
        assert content.isascii()
        assert opened(content, "R")[0].note == text


def test_the_head_is_read_without_the_rest() -> None:
    head, told = head_of(CONTENT, "R")
    assert (head.kind, head.profile, head.model, head.qualified_profile) == ("ladder", "target-only", "tiny", None)
    assert told == digest(canonical(MADE))
    assert setting().configuration.profile == head.profile


def test_other_programs_can_check_the_digest(tmp_path: Path) -> None:
    """The command that docs/records.md gives."""
    document = Path(__file__).resolve().parents[2] / "docs" / "records.md"
    command = document.read_text().partition("```sh\n")[2].partition("```")[0]
    path = tmp_path / "record.json"
    path.write_bytes(CONTENT)
    script = command.replace("RECORD.json", str(path))
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert said.stdout.strip() == json.loads(CONTENT)["digest"]
    again = subprocess.run(["bash", "-c", f"head -c 82 {path}"], capture_output=True, text=True, check=True, timeout=30)
    assert again.stdout.endswith(said.stdout.strip())


@pytest.mark.parametrize("number", [10**400, -(10**400), 10**18])
def test_a_count_of_what_nothing_counts_so_far_is_refused_and_never_reckoned_with(number: int) -> None:
    def enormous(plain: Plain) -> None:
        server = cast(dict[str, Plain], plain["setting"])["server"]
        server["max_model_len"] = number

    assert "nothing is counted so far" in refusal(edited(enormous))
