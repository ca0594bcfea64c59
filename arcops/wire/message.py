"""What all messages have in common, and how they become JSON."""

from typing import Final

import msgspec

SCHEMA: Final = 1
"""Raised when a message changes in a way that an older client would misread. New optional fields do not raise it."""


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """What all messages have in common."""

    schema: int = SCHEMA


class Pong(Message, frozen=True, kw_only=True):
    """Somebody is there."""

    instance: str
    version: str
    pid: int


def encode(message: msgspec.Struct) -> bytes:
    """A message as JSON."""
    return msgspec.json.encode(message)
