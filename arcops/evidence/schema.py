"""The JSON Schema of a record's file, made from the types that it is read with."""

from typing import Final, cast

import msgspec

from arcops.evidence.record import Record

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def of_file() -> dict[str, object]:
    """Of the whole file: the digest and the record. That the digest is the record's own a schema cannot say."""
    (record,), components = msgspec.json.schema_components([Record], ref_template="#/$defs/{name}")
    for part in components.values():
        if "properties" in part:  # and no other: a field that nobody knows is refused when a record is read
            part["additionalProperties"] = False
    return {
        "$schema": _DIALECT,
        "title": "A record of arcops",
        "type": "object",
        "properties": {
            "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
            "record": cast("object", record),
        },
        "required": ["digest", "record"],
        "additionalProperties": False,
        "$defs": cast("object", components),
    }
