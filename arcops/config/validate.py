"""From data to a model, with every problem at once, each in the words and at the place of the file it came from."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Generic, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from arcops.config.merge import Merged
from arcops.config.problem import Problem
from arcops.config.source import Data, KeyPath, dotted
from arcops.core.speculation import Fault

M = TypeVar("M", bound=BaseModel)

_LONGEST_VALUE = 60
"""Characters of a wrong value that a message repeats."""


@dataclass(frozen=True, slots=True)
class Validated(Generic[M]):
    """A model, if there are no problems."""

    model: M | None
    problems: tuple[Problem, ...]


def validate(
    merged: Merged,
    kind: type[M],
    file: Path,
    faults: Callable[[M], Sequence[Fault]],
    placeholders: dict[KeyPath, Data],
) -> Validated[M]:
    """Make a `kind` of `merged`.

    What is wrong between keys is looked for even where a single key is wrong: with that key left out, and with
    `placeholders` for keys that must be there. Such a fault is dropped if it is about a key that was wrong itself.
    """
    problems = [
        Problem(*place, dotted(keys), unknown_key(kind, keys))
        for keys, place in merged.removed.items()
        if not _exists(kind, keys)
    ]
    wrong: set[KeyPath] = set()
    try:
        model = kind.model_validate(merged.data)
    except ValidationError as error:
        details = [(_keys(merged.data, detail), detail) for detail in error.errors(include_url=False)]
        wrong = {keys for keys, _ in details}
        for keys, detail in details:
            if detail["type"] == "too_short" and any(keys == bad[:-1] for bad in wrong if bad):
                continue  # pydantic counts the items that are right: with a wrong one among them that says nothing
            problems.append(Problem(*merged.place(keys, file), dotted(keys), _words(kind, keys, detail)))
        model = _without(merged.data, kind, wrong, placeholders)
    if model is not None:
        for fault in faults(model):
            keys = _parse(fault.key)
            if not any(keys[: len(bad)] == bad or bad[: len(keys)] == keys for bad in wrong):
                problems.append(Problem(*merged.place(keys, file), fault.key, fault.message))
    unique = in_order(problems)
    return Validated(None if unique else model, unique)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each problem once, as one who reads the files from top to bottom meets them."""
    return tuple(dict.fromkeys(sorted(problems, key=lambda problem: (str(problem.file), problem.line or 0))))


def unknown_key(kind: type[BaseModel], keys: KeyPath) -> str:
    """The message for a key that is not there: with the nearest spelling, or where that key really lives."""
    siblings = _fields(kind, keys[:-1])
    name = str(keys[-1])
    near = get_close_matches(name, siblings, n=1, cutoff=0.6)
    if near:
        return f"unknown key; did you mean {near[0]}?"
    elsewhere = [f"{section}.{name}" for section in _fields(kind, ()) if name in _fields(kind, (section,))]
    if elsewhere:
        return f"unknown key here; did you mean {' or '.join(elsewhere)}?"
    return f"unknown key; known are {', '.join(siblings)}" if siblings else "unknown key"


def _exists(kind: type[BaseModel], keys: KeyPath) -> bool:
    parent = _model(kind, keys[:-1])
    return parent is None or keys[-1] in parent.model_fields


def _fields(kind: type[BaseModel], keys: KeyPath) -> list[str]:
    model = _model(kind, keys)
    return [] if model is None else list(model.model_fields)


def _model(kind: type[BaseModel], keys: KeyPath) -> type[BaseModel] | None:
    """The model whose fields `keys` names; None where a mapping of free keys or a value begins."""
    current: type[BaseModel] = kind
    for key in keys:
        field = current.model_fields.get(str(key))
        section = None if field is None else _section(field.annotation)
        if section is None:
            return None
        current = section
    return current


def _section(annotation: object) -> type[BaseModel] | None:
    """The section that a field holds, also where it may be left out; None for a value."""
    kinds: tuple[object, ...] = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return models[0] if len(models) == 1 else None


def _keys(data: Data, detail: ErrorDetails) -> KeyPath:
    """The error's place in the data. Pydantic adds `[key]` and names of union members, which are no keys of a file."""
    keys: list[str | int] = []
    current: Data = data
    for part in detail["loc"]:
        known, current = _inside(current, part)
        if not known and detail["type"] != "missing":
            break
        keys.append(part)
    return tuple(keys)


def _inside(data: Data, part: str | int) -> tuple[bool, Data]:
    if isinstance(data, dict) and part in data:
        return True, data[str(part)]
    if isinstance(data, tuple) and isinstance(part, int) and part < len(data):
        return True, data[part]
    return False, None


def _words(kind: type[BaseModel], keys: KeyPath, detail: ErrorDetails) -> str:
    match detail["type"]:
        case "extra_forbidden":
            return unknown_key(kind, keys)
        case "missing":
            model = _model(kind, keys[:-1])
            field = model.model_fields.get(str(keys[-1])) if model is not None else None
            return f"is missing: {field.description}" if field is not None and field.description else "is missing"
        case "value_error":
            return detail["msg"].removeprefix("Value error, ")
        case "model_type" | "dict_type":
            return f"must be a mapping of keys to values, not {_shown(detail['input'])}"
        case "tuple_type":
            return f"must be a list, not {_shown(detail['input'])}"
        case _:
            message = detail["msg"].removeprefix("Input ").rstrip(".")
            return f"{message}, not {_shown(detail['input'])}"


def _shown(value: object) -> str:
    text = "true" if value is True else "false" if value is False else repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def _parse(key: str) -> KeyPath:
    return tuple(int(part) if part.isdigit() else part for part in key.split("."))


def _without(data: dict[str, Data], kind: type[M], wrong: set[KeyPath], placeholders: dict[KeyPath, Data]) -> M | None:
    kept = cast("dict[str, Data]", _prune(data, wrong, ()))
    for keys in wrong:
        for needed, value in placeholders.items():
            if needed[: len(keys)] == keys:
                _put(kept, needed, value)
    try:
        return kind.model_validate(kept)
    except ValidationError:
        return None


def _prune(data: Data, wrong: set[KeyPath], at: KeyPath) -> Data:
    if isinstance(data, dict):
        return {key: _prune(value, wrong, (*at, key)) for key, value in data.items() if not _bad((*at, key), wrong)}
    return data


def _bad(keys: KeyPath, wrong: set[KeyPath]) -> bool:
    """A list with a bad item goes as a whole: its other items have no meaning without their number."""
    return any(bad == keys or (bad[: len(keys)] == keys and isinstance(bad[len(keys)], int)) for bad in wrong)


def _put(data: dict[str, Data], keys: KeyPath, value: Data) -> None:
    *sections, last = (str(key) for key in keys)
    for section in sections:
        inner = data.setdefault(section, {})
        if not isinstance(inner, dict):
            return
        data = inner
    data.setdefault(last, value)
