"""Sizes and durations as people write them."""

import re
from decimal import Decimal
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

_BYTES: dict[str, int] = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_SECONDS: dict[str, Decimal] = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?) ?(B|[KMGT]i?B)")
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def parse_size(text: str) -> int:
    """Bytes of a size such as `6.5GiB` or `512MB`, rounded down. Raises ValueError."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"a size is written like 6.5GiB, 512MiB or 8GB, or as a number of bytes, not {text!r}")
    number, unit = match.groups()
    return int(Decimal(number) * _BYTES[unit])


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `60s`, `10m`, `1h30m` or `250ms`. Raises ValueError."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"a duration is written like 60s, 10m or 250ms, or as a number of seconds, not {text!r}")
    return float(sum(Decimal(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text)))


def _size(value: object) -> object:
    return parse_size(value) if isinstance(value, str) else value


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


Size: TypeAlias = Annotated[
    int,
    Field(gt=0),
    BeforeValidator(_size),
    WithJsonSchema({"type": ["integer", "string"], "exclusiveMinimum": 0, "pattern": f"^{_SIZE.pattern}$"}),
]
"""Bytes."""

Duration: TypeAlias = Annotated[
    float,
    Field(ge=0, le=7 * 86400, allow_inf_nan=False),
    BeforeValidator(_duration),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "pattern": f"^{_DURATION.pattern}$"}),
]
"""Seconds, at most a week."""
