"""Tool calls: which tool, and arguments that fit its schema, picked from the words of the question."""

import json
import re
from typing import cast

Schema = dict[str, object]
QUOTED = re.compile(r"[\"'“]([^\"'”]{1,80})[\"'”]")
NAMES = re.compile(r"(?<=[a-z,:] )([A-Z][\w-]*(?: [A-Z][\w-]*)*)")
NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")
DATES = re.compile(r"\d{4}-\d{2}-\d{2}")


def objects(value: object) -> list[Schema]:
    """The JSON objects of a list."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Schema", item) for item in items if isinstance(item, dict)]


def inner(value: object) -> Schema:
    """A JSON object, empty where there is none."""
    return cast("Schema", value) if isinstance(value, dict) else {}


def functions(body: Schema) -> list[Schema]:
    """The functions that a request offers."""
    return [inner(tool.get("function")) for tool in objects(body.get("tools"))]


def chosen(offered: list[Schema], question: str) -> Schema:
    """The function whose name and description share most words with the question."""
    words = set(re.findall(r"[a-z]{3,}", question.lower()))

    def shared(function: Schema) -> int:
        text = f"{function.get('name')} {function.get('description')}".lower().replace("_", " ")
        return len(words & set(re.findall(r"[a-z]{3,}", text)))

    return max(offered, key=shared)


def arguments(function: Schema, question: str) -> Schema:
    """Arguments for it that fit its schema."""
    schema = inner(function.get("parameters"))
    return inner(_Filler(schema, question).fill(schema))


def misfit(given: Schema) -> Schema:
    """The same without the first one, and the rest of another type."""
    return {name: [value] for name, value in list(given.items())[1:]}


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


class _Filler:
    """Takes each word and number of the question once."""

    def __init__(self, root: Schema, question: str) -> None:
        self._root = root
        self._question = question
        self._dates = DATES.findall(question)
        plain = DATES.sub(" ", question)
        self._words = [*QUOTED.findall(plain), *NAMES.findall(QUOTED.sub(" ", plain))]
        self._numbers = [float(number) for number in NUMBERS.findall(QUOTED.sub(" ", plain))]

    def fill(self, schema: Schema) -> object:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = self._resolved(reference)
        for many in ("anyOf", "oneOf", "allOf"):
            if objects(schema.get(many)):
                return self.fill(objects(schema[many])[0])
        if "const" in schema:
            return schema["const"]
        named = cast("list[object]", schema.get("enum") or [])
        if named:
            asked = self._question.lower()
            return next((one for one in named if str(one).lower() in asked), named[0])
        kind = schema.get("type")
        first = (
            next((one for one in cast("list[object]", kind) if one != "null"), None) if isinstance(kind, list) else kind
        )
        match first:
            case "integer" | "number":
                return self._number(schema, whole=first == "integer")
            case "boolean":
                return True
            case "array":
                least = schema.get("minItems")
                count = max(1, least if isinstance(least, int) else 1)
                return [self.fill(inner(schema.get("items"))) for _ in range(count)]
            case "null":
                return None
            case "string":
                return self._string(schema)
            case _:
                properties = inner(schema.get("properties"))
                return {name: self.fill(inner(wanted)) for name, wanted in properties.items()}

    def _resolved(self, reference: str) -> Schema:
        found = self._root
        for part in reference.removeprefix("#/").split("/"):
            found = inner(found.get(part))
        return found

    def _string(self, schema: Schema) -> str:
        if self._dates and (schema.get("format") == "date" or not self._words):
            return self._dates.pop(0)
        return self._words.pop(0) if self._words else "2026-01-15" if schema.get("format") == "date" else "text"

    def _number(self, schema: Schema, *, whole: bool) -> float | int:
        least, most = schema.get("minimum"), schema.get("maximum")
        value = self._numbers.pop(0) if self._numbers else 1.0
        value = max(value, float(least)) if isinstance(least, int | float) else value
        value = min(value, float(most)) if isinstance(most, int | float) else value
        return int(value) if whole or value == int(value) else value
