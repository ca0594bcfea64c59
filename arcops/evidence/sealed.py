"""A record as bytes with a digest over itself, and back: what is read is believed only as a whole.

A file is one line, `{"digest":"sha256:…","record":{…}}`. The digest is over the bytes of the record's value as they
stand there: JSON with sorted keys, without white space, in ASCII (other characters as `\\uXXXX`). So any program can
check it: the value begins at byte 94, and what follows it are a brace and the end of the line.
"""

import json
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from arcops.core.errors import ArcopsError
from arcops.core.evidence import possible_soak
from arcops.core.evidence.possible import impossible
from arcops.core.evidence.work import digest
from arcops.evidence.record import FORMAT, KINDS, Record

MOST_BYTES: Final = 128 * 1024 * 1024
"""Of one file. A ladder to 128 users in three passes with 512 tokens an answer has about 10 MiB."""
_START: Final = b'{"digest":"'
_MIDDLE: Final = b'","record":'
_END: Final = b"}\n"
_DIGEST_LENGTH: Final = len("sha256:") + 64
_HEAD_LENGTH: Final = len(_START) + _DIGEST_LENGTH + len(_MIDDLE)
_MOST_DIGITS: Final = 18
"""Of a whole number, which fits into 64 bits then, as all that is counted anywhere does."""
_UNREADABLE: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""ValueError: JSON's errors, duplicate keys, numbers that are none, bytes that are no text."""


class _Server(msgspec.Struct, frozen=True):
    model: str | None = None


class _Configuration(msgspec.Struct, frozen=True):
    profile: str | None = None


class _Setting(msgspec.Struct, frozen=True):
    server: _Server = _Server()
    configuration: _Configuration = _Configuration()


class _Qualification(msgspec.Struct, frozen=True):
    profile: str


class Head(msgspec.Struct, frozen=True):
    """What a list of records says of one: little, read fast, whatever the rest is."""

    arcops_record: int
    kind: str
    began: float
    ended: float
    note: str = ""
    setting: _Setting | None = None
    qualification: _Qualification | None = None

    @property
    def profile(self) -> str | None:
        """Of what was measured or qualified, where it is known."""
        return self.qualified_profile or (None if self.setting is None else self.setting.configuration.profile)

    @property
    def qualified_profile(self) -> str | None:
        """Which profile was held to its gates."""
        return None if self.qualification is None else self.qualification.profile

    @property
    def model(self) -> str | None:
        """The served name that was asked."""
        return None if self.setting is None else self.setting.server.model


_HEADS: Final = msgspec.json.Decoder(Head)


@dataclass(frozen=True, slots=True)
class _Parts:
    digest: str
    value: bytes
    """The record's own bytes."""


def sealed(record: Record) -> bytes:
    """A file's content. Raises ArcopsError for a record that JSON cannot hold (a number that is none)."""
    try:
        value = canonical(msgspec.to_builtins(record))
    except ValueError as error:
        raise ArcopsError(f"the record cannot be written: {error}") from error
    content = _START + digest(value).encode() + _MIDDLE + value + _END
    if len(content) > MOST_BYTES:
        raise ArcopsError(f"the record is larger than a record may be: {len(content) / 2**20:,.0f} MiB")
    return content


def canonical(value: object) -> bytes:
    """JSON with sorted keys, without white space, in ASCII. Raises ValueError for NaN and infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def opened(content: bytes, name: str) -> tuple[Record, str]:
    """The record in a file's content, with its digest; `name` is what errors call it. Raises ArcopsError."""
    parts = _parts(content, name)
    try:
        plain: object = json.loads(parts.value, object_pairs_hook=_once, parse_int=_whole)
        same = canonical(plain) == parts.value
        _known_format(plain, name)
        record = msgspec.convert(plain, Record)
    except _UNREADABLE as error:
        raise ArcopsError(f"{name} is not a record: {error}") from error
    if not same:
        raise ArcopsError(f"{name} was not written by arcops: its JSON is not in the one form that records have")
    stranger = _stranger(plain, msgspec.to_builtins(record), "record")
    if stranger:
        raise ArcopsError(f"{name} has what this arcops does not know: {stranger}", hint=_NEWER)
    wrong = _wrong(record)
    if wrong:
        raise ArcopsError(f"{name} says what cannot be: {wrong}")
    return record, parts.digest


_NEWER: Final = "a newer arcops may have written it"


def head_of(content: bytes, name: str) -> tuple[Head, str]:
    """The head of the record in a file's content, with its digest, which is checked. Raises ArcopsError."""
    parts = _parts(content, name)
    try:
        head = _HEADS.decode(parts.value)
    except _UNREADABLE as error:
        raise ArcopsError(f"{name} is not a record: {error}") from error
    if head.arcops_record > FORMAT:
        raise _too_new(name, head.arcops_record)
    return head, parts.digest


def _parts(content: bytes, name: str) -> _Parts:
    if not content.startswith(_START):
        raise ArcopsError(f"{name} is not a record of arcops")
    if not content.endswith(_END) or len(content) < _HEAD_LENGTH + len(_END):
        raise ArcopsError(f"{name} is cut off, or something was added to it")
    said, middle = (
        content[len(_START) : len(_START) + _DIGEST_LENGTH],
        content[_HEAD_LENGTH - len(_MIDDLE) : _HEAD_LENGTH],
    )
    value = content[_HEAD_LENGTH : -len(_END)]
    found = digest(value)
    if middle != _MIDDLE or said != found.encode():
        raise ArcopsError(
            f"{name} was edited after it was written: its digest is not that of its content",
            hint="a record is evidence only as it was written: measure again, or find the original",
        )
    return _Parts(found, value)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose keys are there once each: of two, another program might believe the other one."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _whole(digits: str) -> int:
    """Of what no float can hold nothing can be reckoned."""
    if len(digits.removeprefix("-")) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits, and nothing is counted so far")
    return int(digits)


def _known_format(plain: object, name: str) -> None:
    said = cast("dict[str, object]", plain).get("arcops_record") if isinstance(plain, dict) else None
    if isinstance(said, int) and said > FORMAT:
        raise _too_new(name, said)


def _too_new(name: str, said: int) -> ArcopsError:
    return ArcopsError(f"{name} has format {said}, and this arcops reads up to {FORMAT}", hint=_NEWER)


def _stranger(plain: object, understood: object, where: str) -> str:
    """The place of the first field that a record has and nobody reads; empty where there is none."""
    if isinstance(plain, dict) and isinstance(understood, dict):
        inside, known = cast("dict[str, object]", plain), cast("dict[str, object]", understood)
        for key, value in inside.items():
            found = _stranger(value, known[key], f"{where}.{key}") if key in known else f"{where}.{key}"
            if found:
                return found
    elif isinstance(plain, list) and isinstance(understood, list | tuple):
        both = zip(cast("list[object]", plain), cast("list[object]", understood), strict=True)
        for number, (value, known_value) in enumerate(both):
            found = _stranger(value, known_value, f"{where}[{number}]")
            if found:
                return found
    return ""


def _wrong(record: Record) -> str:
    """Why the record cannot be true, in words; empty where nothing speaks against it."""
    if record.arcops_record != FORMAT:
        return f"its format is {record.arcops_record}"
    if record.kind not in KINDS:
        return f"there are no records of the kind {record.kind!r}"
    return impossible(record) or ("" if record.soak is None else possible_soak.impossible(record.soak))
