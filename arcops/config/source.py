"""One YAML file: its data, and the line of every key. The only module that imports a YAML parser.

A configuration is data, so of YAML only data is taken: mappings, lists and scalars of YAML 1.2's core schema. Tags,
merge keys and duplicate keys are refused. In YAML 1.1, which the parser knows, `0000:03:00.0` is the number 180 and
`no` is false; here a PCI address is text and `no` is a word.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from arcops.config.problem import Problem

Scalar: TypeAlias = str | int | float | bool | None
Data: TypeAlias = "Scalar | tuple[Data, ...] | dict[str, Data]"
KeyPath: TypeAlias = tuple[str | int, ...]

LARGEST_FILE = 1 << 20
"""Bytes. A profile has about a thousand."""
MOST_NODES = 10_000
"""Of a file with its aliases written out: a few lines of aliases can stand for billions."""
DEEPEST = 20

_PLAIN_TAGS = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"})
_INT = re.compile(r"[-+]?(0|[1-9][0-9_]{0,18})")
_FLOAT = re.compile(r"[-+]?([0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))([eE][-+]?[0-9]{1,3})?")
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it was read."""

    path: Path
    data: dict[str, Data]
    lines: Mapping[KeyPath, int]
    """The line of every key and list item, counted from 1."""


class UnusableError(Exception):
    """The file cannot be read as a mapping: every reason that was found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


def read_source(path: Path, *, may_be_empty: bool = False) -> Source:
    """Read one file. Raises UnusableError."""
    return parse_source(path, _text_of(path), may_be_empty=may_be_empty)


def parse_source(path: Path, text: str, *, may_be_empty: bool = False) -> Source:
    """Make a Source of `text`, as if it stood in `path`. Raises UnusableError."""
    try:
        root = _compose(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _unusable(path, f"not YAML: {error.problem or error.context}", mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise _unusable(path, f"not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise _unusable(path, f"nested more than {DEEPEST} deep") from None
    except _TooManyError:
        raise _unusable(path, f"the file holds more than {MOST_NODES} values") from None
    except (ValueError, OverflowError):  # \U00110000 and the like in a quoted scalar
        raise _unusable(path, "not YAML: an escape that is no character") from None
    if root is None and may_be_empty:
        return Source(path, {}, {})
    if root is None:
        raise _unusable(path, "is empty")
    if not isinstance(root, yaml.MappingNode):
        raise _unusable(path, "is not a mapping of keys to values", root.start_mark.line + 1)
    reader = _Reader(path)
    data = reader.mapping(root, ())
    if reader.problems:
        raise UnusableError(reader.problems)
    return Source(path, data, reader.lines)


def dotted(keys: KeyPath) -> str:
    """A key path as people write it."""
    return ".".join(str(key) for key in keys)


class _TooManyError(Exception):
    """More nodes than any configuration has."""


class _Loader(yaml.BaseLoader):
    """Gives up early: the parser's work for each node grows with its depth, and a file can hold half a million nodes.

    Its limits are wider than those of `_Reader`, which says more about what is just too much.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._nodes += 1
        self._depth += 1
        if self._nodes > 3 * MOST_NODES:  # keys are nodes, too
            raise _TooManyError
        if self._depth > 2 * DEEPEST:
            raise RecursionError
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _compose(text: str) -> yaml.Node | None:
    return _Loader(text).get_single_node()


def _text_of(path: Path) -> str:
    try:
        # O_NONBLOCK: opening a pipe must not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _unusable(path, "is not a file")
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise _unusable(path, "there is no such file") from None
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_FILE:
        raise _unusable(path, f"is larger than {LARGEST_FILE >> 20} MiB")
    if b"\0" in content:
        raise _unusable(path, "is not text: it holds a NUL byte")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(path, "is not text in UTF-8", content.count(b"\n", 0, error.start) + 1) from None


def _unusable(path: Path, message: str, line: int | None = None) -> UnusableError:
    return UnusableError([Problem(path, line, "", message)])


class _Reader:
    """Walks the nodes of one document, and collects what is wrong with them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self._left = MOST_NODES
        self._open: set[int] = set()

    def mapping(self, node: yaml.MappingNode, at: KeyPath) -> dict[str, Data]:
        data: dict[str, Data] = {}
        for name, key, value in self._pairs(node, at):
            line = key.start_mark.line + 1
            here = (*at, name)
            if name in data:
                self._object(here, line, f"is written twice; the first is in line {self.lines[here]}")
                continue
            self.lines[here] = line
            data[name] = self._value(value, here)
        return data

    def _pairs(self, node: yaml.MappingNode, at: KeyPath) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._object(at, line, "a key must be a word")
            elif key.value == "<<" and key.style is None:
                self._object((*at, "<<"), line, "merge keys are not taken; use extends")
            elif self._text(key, (*at, key.value)):
                yield key.value, key, value

    def _value(self, node: yaml.Node, at: KeyPath) -> Data:
        line = node.start_mark.line + 1
        self._left -= 1
        if self._left < 0:
            if self._left == -1:
                self._object(at, line, f"the file holds more than {MOST_NODES} values, aliases written out")
            return None
        if node.tag not in _PLAIN_TAGS:
            self._object(at, line, f"tags are not taken ({node.tag})")
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, at)
        if id(node) in self._open or len(at) > DEEPEST:
            self._object(at, line, "holds itself" if id(node) in self._open else f"nested more than {DEEPEST} deep")
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, at)
            return self._list(node, at)
        finally:
            self._open.discard(id(node))

    def _list(self, node: yaml.Node, at: KeyPath) -> tuple[Data, ...]:
        items: list[Data] = []
        for index, item in enumerate(node.value):
            here = (*at, index)
            self.lines[here] = item.start_mark.line + 1
            items.append(self._value(item, here))
        return tuple(items)

    def _scalar(self, node: yaml.ScalarNode, at: KeyPath) -> Scalar:
        if not self._text(node, at):
            return None
        return node.value if node.style is not None else plain_scalar(node.value)

    def _text(self, node: yaml.ScalarNode, at: KeyPath) -> bool:
        """Whether the scalar is text that a path or an environment could hold."""
        bad = "\0" in node.value or any("\ud800" <= character <= "\udfff" for character in node.value)
        if bad:
            self._object(at[:-1], node.start_mark.line + 1, "holds a NUL or half a character")
        return not bad

    def _object(self, at: KeyPath, line: int, message: str) -> None:
        self.problems.append(Problem(self.path, line, dotted(at), message))


def plain_scalar(text: str) -> Scalar:
    """What an unquoted scalar means in YAML 1.2's core schema, with `_` allowed between digits."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text.rstrip("_")) if not text.endswith("_") and "__" not in text else text
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
