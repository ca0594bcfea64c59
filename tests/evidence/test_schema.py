"""The schema that is printed is the one that records fit."""

import json
import re
from pathlib import Path
from typing import cast

import msgspec
import pytest

from arcops.evidence import shelf
from arcops.evidence.schema import of_file
from arcops.evidence.sealed import sealed
from tests.core.evidence.measured import record

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted([*(ROOT / "tests" / "data" / "records").glob("*.json"), *(ROOT / "docs").glob("**/records/*.json")])
Schema = dict[str, object]


def misfits(value: object, schema: Schema, whole: Schema, where: str = "") -> str:
    """The first place that does not fit, as far as these schemas go; empty where all fits."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return misfits(value, cast("dict[str, Schema]", whole["$defs"])[name], whole, where)
    if "anyOf" in schema:
        found = [misfits(value, one, whole, where) for one in cast("list[Schema]", schema["anyOf"])]
        return "" if "" in found else found[0]
    if "enum" in schema:
        return "" if value in cast("list[object]", schema["enum"]) else f"{where}: {value!r}"
    match schema.get("type"):
        case "object":
            return _object(value, schema, whole, where)
        case "array":
            return _array(value, schema, whole, where)
        case kind:
            return "" if _is(value, str(kind)) and _fits_pattern(value, schema) else f"{where}: {value!r} is no {kind}"


def _is(value: object, kind: str) -> bool:
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
    return isinstance(value, kinds[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _fits_pattern(value: object, schema: Schema) -> bool:
    return "pattern" not in schema or re.fullmatch(str(schema["pattern"]), str(value)) is not None


def _object(value: object, schema: Schema, whole: Schema, where: str) -> str:
    if not isinstance(value, dict):
        return f"{where}: no object"
    inside = cast("dict[str, object]", value)
    known = cast("dict[str, Schema]", schema.get("properties", {}))
    others = schema.get("additionalProperties", True)
    for name in cast("list[str]", schema.get("required", [])):
        if name not in inside:
            return f"{where}.{name} is missing"
    for name, one in inside.items():
        if name not in known and others is False:
            return f"{where}.{name} is not known"
        expected = known.get(name, others)
        found = misfits(one, cast(Schema, expected), whole, f"{where}.{name}") if isinstance(expected, dict) else ""
        if found:
            return found
    return ""


def _array(value: object, schema: Schema, whole: Schema, where: str) -> str:
    if not isinstance(value, list):
        return f"{where}: no array"
    every = cast("list[object]", value)
    heads = cast("list[Schema]", schema.get("prefixItems", []))
    if heads and len(heads) != len(every):
        return f"{where}: {len(every)} in place of {len(heads)}"
    rest = cast(Schema, schema.get("items") or {})
    pairs = [(one, heads[number] if heads else rest) for number, one in enumerate(every)]
    found = (misfits(one, expected, whole, f"{where}[{number}]") for number, (one, expected) in enumerate(pairs))
    return next((one for one in found if one), "")


def test_what_arcops_writes_fits_its_schema() -> None:
    assert misfits(json.loads(sealed(record())), of_file(), of_file()) == ""


def test_what_it_does_not_write_does_not() -> None:
    plain = json.loads(sealed(record()))
    outside: list[Schema] = [{"digest": "sha256:short"}, {"digest": None}, {"record": None}, {"more": 1}]
    for change in outside:
        assert misfits(plain | change, of_file(), of_file())
    inside = plain["record"]
    wrong: list[Schema] = [{"began": "today"}, {"kind": 7}, {"surprise": 1}, {"run": 3}, {"command": [1]}]
    for change in wrong:
        assert misfits(plain | {"record": inside | change}, of_file(), of_file())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_the_committed_records_fit_and_are_believed(sample: Path) -> None:
    assert misfits(json.loads(sample.read_bytes()), of_file(), of_file()) == ""
    stored = shelf.read(sample)
    assert stored.record == msgspec.convert(json.loads(sample.read_bytes())["record"], type(stored.record))


def test_there_is_a_committed_record() -> None:
    assert SAMPLES
