"""One YAML file: what is taken, what is refused, and where it says that a key is."""

import os
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.config.source import UnusableError, parse_source, plain_scalar, read_source

FILE = Path("/x/profile.yaml")


def problems(text: str) -> list[str]:
    with pytest.raises(UnusableError) as caught:
        parse_source(FILE, text)
    return [str(problem) for problem in caught.value.problems]


def test_the_line_of_every_key_and_item_is_known() -> None:
    source = parse_source(FILE, "a: 1\nb:\n  c:\n    - x\n    - [1,\n       2]\n")
    assert source.data == {"a": 1, "b": {"c": ("x", (1, 2))}}
    assert source.lines == {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 3,
        ("b", "c", 0): 4,
        ("b", "c", 1): 5,
        ("b", "c", 1, 0): 5,
        ("b", "c", 1, 1): 6,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0000:03:00.0", "0000:03:00.0"),
        ("12:30", "12:30"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("262_144", 262144),
        ("-3", -3),
        ("007", "007"),
        ("1__0", "1__0"),
        ("0x1f", "0x1f"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".", "."),
        (".inf", ".inf"),
        ("2026-10-06", "2026-10-06"),
        ("6.5GiB", "6.5GiB"),
        ("9" * 30, "9" * 30),
        ("x", "x"),
    ],
)
def test_an_unquoted_scalar_means_what_it_looks_like(text: str, value: object) -> None:
    found = plain_scalar(text)
    assert found == value
    assert type(found) is type(value)


def test_a_quoted_scalar_is_text() -> None:
    assert parse_source(FILE, "a: '1'\nb: \"true\"\nc: ''\n").data == {"a": "1", "b": "true", "c": ""}


def test_an_alias_is_what_it_stands_for() -> None:
    assert parse_source(FILE, "a: &x [1]\nb: *x\n").data == {"a": (1,), "b": (1,)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "/x/profile.yaml: is empty"),
        ("# nothing\n", "/x/profile.yaml: is empty"),
        ("- a\n- b\n", "/x/profile.yaml:1: is not a mapping of keys to values"),
        ("just words\n", "/x/profile.yaml:1: is not a mapping of keys to values"),
        ("a: 1\na: 2\n", "/x/profile.yaml:2: a: is written twice; the first is in line 1"),
        ("a:\n  b: 1\n  b: 2\n", "/x/profile.yaml:3: a.b: is written twice; the first is in line 2"),
        ("a: !!python/object:os.system x\n", "/x/profile.yaml:1: a: tags are not taken"),
        ("a: !!int '3'\n", "/x/profile.yaml:1: a: tags are not taken"),
        ("x: &x {a: 1}\ny:\n  <<: *x\n", "/x/profile.yaml:3: y.<<: merge keys are not taken; use extends"),
        ("[a, b]: 1\n", "/x/profile.yaml:1: a key must be a word"),
        ("a: &a [*a]\n", "/x/profile.yaml:1: a.0: holds itself"),
        ("a: &a {b: *a}\n", "/x/profile.yaml:1: a.b: holds itself"),
        ('a: "\\0"\n', "/x/profile.yaml:1: holds a NUL or half a character"),
        ('a: "\\ud800"\n', "/x/profile.yaml:1: holds a NUL or half a character"),
        ('a: "\\U00110000"\n', "/x/profile.yaml: not YAML: an escape that is no character"),
        ("a: [1\n", "/x/profile.yaml:2: not YAML: expected ',' or ']'"),
        ("a: 1\n b: 2\n", "/x/profile.yaml:2: not YAML: mapping values are not allowed here"),
        ("a: *nowhere\n", "/x/profile.yaml:1: not YAML: found undefined alias 'nowhere'"),
        ("a: 1\n---\nb: 2\n", "/x/profile.yaml:2: not YAML: but found another document"),
        ("a: \x07\n", "/x/profile.yaml: not YAML: unacceptable character"),
        ("a:\n\t- 1\n", "/x/profile.yaml:2: not YAML"),
        ("a: " + "[" * 30 + "]" * 30, "nested more than 20 deep"),
        ("[" * 100_000, "nested more than 20 deep"),
    ],
)
def test_what_is_refused_says_where_and_why(text: str, message: str) -> None:
    found = problems(text)
    assert any(message in problem for problem in found), found


def test_every_problem_of_a_file_is_named_at_once() -> None:
    assert len(problems("a: 1\na: 2\nb: !!int 3\n<<: {}\n")) == 3


def test_aliases_that_stand_for_billions_are_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert any("holds more than 10000 values" in problem for problem in problems("\n".join(lines)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: \xff\n", "1: is not text in UTF-8"),
        (b"\x7fELF\0\0", "is not text: it holds a NUL byte"),
        (b"a: " + b"x" * (1 << 20), "is larger than 1 MiB"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(content)
    with pytest.raises(UnusableError, match=message):
        read_source(file)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_source(file).data == {"a": 1}


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("missing", "no such file"), (".", "s a directory|not a file"), ("pipe", "not a file")):
        with pytest.raises(UnusableError, match=message):
            read_source(tmp_path / name)


YAML_WORDS = (*"a[]{}'#?1", '"', "b: ", "- ", ", ", ": ", "&x ", "*x", "!!", "<<: ", "\\U00ffffff", "null")
YAML_BITS = st.sampled_from([*YAML_WORDS, "\n", "  ", "|\n", "%YAML 9.9\n", "---\n", "\t", "\ufeff", "\x85"])


@given(st.one_of(st.text(max_size=200), st.lists(YAML_BITS, max_size=40).map("".join)))
def test_any_text_is_a_mapping_or_a_named_problem(text: str) -> None:
    try:
        assert isinstance(parse_source(FILE, text).data, dict)
    except UnusableError as error:
        found = error.problems
    else:
        return
    assert found
    assert all(problem.message for problem in found)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: " + "[" * 250 + "b," * 100_000 + "]" * 250, "nested more than 20 deep"),
        ("a: [" + "1," * 400_000 + "]", "holds more than 10000 values"),
        ("".join(f"k{number}: 1\n" for number in range(60_000)), "holds more than 10000 values"),
    ],
    ids=["deep and wide", "a long list", "many keys"],
)
def test_a_file_that_is_no_configuration_is_given_up_early(text: str, why: str) -> None:
    before = process_time()
    assert any(why in problem for problem in problems(text))
    assert process_time() - before < 4.0, "seconds; reading them to the end takes ten"
