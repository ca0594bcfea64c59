"""What one launch does differently from another, by flag and by variable: the place in the command line does not count.

vLLM takes `--flag value`, `--flag=value`, `--no-flag` for `--flag`, and `_` for `-` within a flag's name.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from arcops.core.launch import HIDDEN

_NUMBER = re.compile(r"-\d+(\.\d+)?")
_POSITIONS = ("program", "command", "model")
"""What the words before the first flag are: `vllm serve MODEL`."""
ON, OFF = "on", "off"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is different."""

    name: str
    """A flag (`--max-model-len`), a key of its JSON (`--speculative-config.method`), a variable, or a place's word."""
    was: str | None
    """None: it is not there."""
    becomes: str | None
    """None: it is not there any more."""


class Launched(Protocol):
    """What is compared of a launch, with its secrets hidden already."""

    @property
    def argv(self) -> tuple[str, ...]: ...
    @property
    def environment(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def setup(self) -> str | None: ...
    @property
    def locks(self) -> tuple[str, ...]: ...


def of_launches(old: Launched, new: Launched) -> tuple[Change, ...]:
    """What the launch `new` does differently from `old`: the command line first, then the rest by name."""
    return (*of_arguments(old.argv, new.argv), *of_variables(_rest(old), _rest(new)))


def _rest(launch: Launched) -> Mapping[str, str]:
    rest = dict(launch.environment)
    if launch.setup is not None:
        rest["set-up script"] = launch.setup
    if launch.locks:
        rest["locks"] = ", ".join(launch.locks)
    return rest


def of_arguments(old: Sequence[str], new: Sequence[str]) -> tuple[Change, ...]:
    """What the command line `new` says differently from `old`: in the order of `new`, then what only `old` has."""
    before, after = _named(old), _named(new)
    names = (*after, *(name for name in before if name not in after))
    return tuple(change for name in names for change in _of_flag(name, before.get(name), after.get(name)))


def settings_of(argv: Sequence[str]) -> Mapping[str, str]:
    """Everything that a command line sets, by its name as in `Change`: the flags, the keys of their JSON, the words."""
    found: dict[str, str] = {}
    for name, value in _named(argv).items():
        inside = _object(value)
        found |= {name: value} if inside is None else {f"{name}.{key}": one for key, one in inside.items()}
    return found


def of_variables(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Change, ...]:
    """What the environment `new` has differently from `old`, by name. Two values that are hidden count as the same."""
    names = sorted({*old, *new})
    return tuple(Change(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name))


def hidden_in_both(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    """The variables whose values are hidden on both sides: whether they differ cannot be told."""
    return tuple(sorted(name for name in {*old, *new} if old.get(name) == new.get(name) == HIDDEN))


def _of_flag(name: str, was: str | None, becomes: str | None) -> Iterator[Change]:
    if was == becomes:
        return
    inside, other = _object(was), _object(becomes)
    if inside is None or other is None:
        yield Change(name, was, becomes)
        return
    for change in of_variables(inside, other):
        yield Change(f"{name}.{change.name}", change.was, change.becomes)


def _named(argv: Sequence[str]) -> dict[str, str]:
    """Each flag with its values as one text, those of a repeated flag one after the other; positions by their words."""
    found: dict[str, list[str]] = {}
    name: str | None = None
    for position, word in enumerate(argv):
        if _is_flag(word):
            flag, given, value = word.partition("=")
            name = flag.replace("_", "-")
            found.setdefault(name, []).extend([value] if given else [])
        elif name is None:
            found[_POSITIONS[position] if position < len(_POSITIONS) else f"argument {position}"] = [word]
        else:
            found[name].append(word)
    return dict(_switch(name, values) for name, values in found.items())


def _is_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and _NUMBER.fullmatch(word) is None


def _switch(name: str, values: list[str]) -> tuple[str, str]:
    """A flag without a value is on, and its `--no-` is the same one off."""
    if values or not name.startswith("-"):
        return name, " ".join(values)
    return (f"--{name[5:]}", OFF) if name.startswith("--no-") else (name, ON)


def _object(text: str | None) -> dict[str, str] | None:
    """The keys of a JSON object with their values as text, those within it by dotted names; None for anything else."""
    if text is None or not text.startswith("{"):
        return None
    try:
        value: object = json.loads(text)
    except ValueError:
        return None
    return dict(_flat("", cast("dict[str, object]", value)))  # what begins with a brace is an object, or no JSON


def _flat(prefix: str, inside: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in inside.items():
        if isinstance(value, dict) and value:
            yield from _flat(f"{prefix}{key}.", cast("dict[str, object]", value))
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
