"""Makes wrong things of right ones: texts, trees of data, bytes. What comes out is mostly well-formed, and odd."""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias, cast

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str | int | float | bool | None"

_DIGITS = re.compile(r"\d[\d.eE+]*")
NUMBERS = (
    "0", "-1", "1", "65536", "2147483648", "-9223372036854775809", "18446744073709551616", "1e308", "-1e309", "1e-400",
    "NaN", "+Inf", "-inf", "0x10", "1_000", "007", "1.", ".5", "1e", "--1", "٣", "²", "½", "9" * 400, "1" * 5000, "",
)  # fmt: skip
STRINGS = (
    "", " ", "\0", "\n", "\r", "\r\n", "\t", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "\ud800", "é",
    "ß", "🦀", "a" * 300, "../../etc/passwd", "/", "~", "~root", "%s%n", "{", "}", "[", "]", '"', "'", "\\", "#", ":",
    "=", ",", "<<", "!!", "&a", "*a", "null", "true", "no", "()", "(", ")", "\\N{", "${HOME}", "-", "--", "é" * 100,
)  # fmt: skip
ODD: tuple[Tree, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**64, -(2**63), 10**30, 0.5, 1e308, float("inf"), float("nan"), "", "0", "x",
    "1e9", [], {}, [[]], [{}], {"": None}, {"a": {"b": {"c": 1}}}, ["x", 1, None], "a" * 2000, "60s", "5m",
    "0000:03:00.0",
)  # fmt: skip


def text(random: Random, sample: str, others: Sequence[str] = (), *, most: int = 50_000) -> str:
    """`sample` after one to six changes, at most `most` characters."""
    for _ in range(random.randint(1, 6)):
        sample = random.choice(_TEXT_CHANGES)(random, sample, others)[:most]
    return sample


def octets(random: Random, sample: str, others: Sequence[str] = (), *, most: int = 50_000) -> bytes:
    """The same as bytes, now and then not UTF-8."""
    data = bytearray(text(random, sample, others, most=most).encode("utf-8", "surrogatepass"))
    if random.random() < 0.3:
        for _ in range(random.randint(1, 8)):
            if data:
                data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)


def tree(random: Random, sample: Tree) -> Tree:
    """Data of the same kind after one to four changes somewhere inside."""
    for _ in range(random.randint(1, 4)):
        sample = _change(random, sample, 0)
    return sample


def window(random: Random, sample: str, lines: int) -> str:
    """Some lines in a row of a long text, so that an input stays small."""
    every = sample.splitlines(keepends=True)
    start = random.randrange(max(1, len(every) - lines))
    return "".join(every[start : start + random.randint(1, lines)])


# -- texts ------------------------------------------------------------------------------------------------------------
def _insert(random: Random, sample: str, _: Sequence[str]) -> str:
    at = random.randint(0, len(sample))
    return sample[:at] + random.choice(STRINGS) * random.choice((1, 1, 1, 1, 3, 3, 200)) + sample[at:]


def _remove(random: Random, sample: str, _: Sequence[str]) -> str:
    at = random.randint(0, len(sample))
    return sample[:at] + sample[at + random.randint(1, 40) :]


def _cut(random: Random, sample: str, _: Sequence[str]) -> str:
    return sample[: random.randint(0, len(sample))]


def _repeat(random: Random, sample: str, _: Sequence[str]) -> str:
    at = random.randint(0, len(sample))
    piece = sample[at : at + random.randint(1, 60)]
    return sample[:at] + piece * random.choice((2, 2, 3, 3, 3, 50, 50, 1000)) + sample[at:]


def _number(random: Random, sample: str, _: Sequence[str]) -> str:
    """Another number in the place of one."""
    found = _DIGITS.search(sample, random.randint(0, len(sample))) or _DIGITS.search(sample)
    return sample if found is None else sample[: found.start()] + random.choice(NUMBERS) + sample[found.end() :]


def _lines(random: Random, sample: str, others: Sequence[str]) -> str:
    """Lines left out, doubled, put elsewhere, or taken from another sample."""
    rows = sample.splitlines(keepends=True) or [""]
    at = random.randrange(len(rows))
    match random.randrange(4):
        case 0:
            del rows[at]
        case 1:
            rows[at:at] = [rows[at]] * random.choice((1, 1, 100))
        case 2:
            rows.insert(random.randrange(len(rows)), rows.pop(at))
        case _:
            foreign = (random.choice(others) if others else sample).splitlines(keepends=True) or [""]
            rows.insert(at, random.choice(foreign))
    return "".join(rows)


def _flip(random: Random, sample: str, _: Sequence[str]) -> str:
    if not sample:
        return sample
    at = random.randrange(len(sample))
    return sample[:at] + chr(random.choice((random.randrange(128), random.randrange(0x2FFF)))) + sample[at + 1 :]


def _swap(random: Random, sample: str, _: Sequence[str]) -> str:
    """Two words change places."""
    words = sample.split(" ")
    if len(words) < 2:
        return sample
    one, other = random.randrange(len(words)), random.randrange(len(words))
    words[one], words[other] = words[other], words[one]
    return " ".join(words)


_TEXT_CHANGES: tuple[Callable[[Random, str, Sequence[str]], str], ...] = (
    _insert, _remove, _cut, _repeat, _number, _number, _lines, _lines, _flip, _swap,
)  # fmt: skip


# -- trees ------------------------------------------------------------------------------------------------------------
def _change(random: Random, node: Tree, depth: int) -> Tree:
    inside = isinstance(node, (dict, list)) and node and depth < 8 and random.random() < 0.8
    if not inside:
        return _replaced(random, node)
    if isinstance(node, dict):
        return _changed_dict(random, node, depth)
    items = list(cast("list[Tree]", node))
    at = random.randrange(len(items))
    match random.randrange(5):
        case 0:
            del items[at]
        case 1:
            items.insert(at, random.choice(ODD))
        case 2:
            items += [items[at]] * random.choice((1, 50))
        case _:
            items[at] = _change(random, items[at], depth + 1)
    return cast("Tree", items)


def _changed_dict(random: Random, node: dict[str, Tree], depth: int) -> dict[str, Tree]:
    changed = dict(node)
    key = random.choice(list(changed))
    match random.randrange(8):
        case 0:
            del changed[key]
        case 1:
            changed[random.choice(STRINGS)] = random.choice(ODD)
        case 2:
            changed[_misspelt(random, key)] = changed.pop(key)
        case 3:
            other = random.choice(list(changed))
            changed[key], changed[other] = changed[other], changed[key]
        case _:
            changed[key] = _change(random, changed[key], depth + 1)
    return changed


def _misspelt(random: Random, key: str) -> str:
    at = random.randint(0, len(key))
    return key[:at] + random.choice(("x", "_", "", "-", key)) + key[at + random.randint(0, 1) :]


def _replaced(random: Random, node: Tree) -> Tree:
    match random.randrange(6):
        case 0 if isinstance(node, str):
            return text(random, node, most=5_000)
        case 1:
            return [node]
        case 2:
            return {random.choice(("", "a", "0")): node}
        case 3:
            deep: Tree = node
            for _ in range(random.choice((5, 30, 200))):
                deep = [deep] if random.random() < 0.5 else {"a": deep}
            return deep
        case _:
            return random.choice(ODD)
