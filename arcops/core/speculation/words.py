"""The words of all speculative methods: what goes into JSON, and what can be wrong with a key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

Json: TypeAlias = Union[str, int, float, bool, Sequence["Json"], dict[str, "Json"], None]  # noqa: UP007 - a | on str
"""What json.dumps writes."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with one key of a profile: `key` is dotted, relative to whoever reports it."""

    key: str
    message: str
