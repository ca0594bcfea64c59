"""A checkpoint's files: its config.json, and the headers of its safetensors files, without loading a tensor.

Source: the format's description (eight bytes of length, JSON, the data). The files are somebody else's: lengths are
checked against the file's before anything is read, and what is read is bounded.
"""

import errno
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated, BinaryIO, Final, TypeAlias, cast

import msgspec

from arcops.core.budget.weights import Tensor

CONFIG: Final = "config.json"
LARGEST_CONFIG: Final = 16_000_000
"""Bytes; real ones have some thousand."""
INDEX: Final = "model.safetensors.index.json"
LARGEST_HEADER: Final = 100_000_000
"""Bytes: the format's own limit."""
LARGEST_INDEX: Final = 100_000_000
MOST_SHARDS: Final = 4096
_SAFETENSORS: Final = ".safetensors"
_LENGTH: Final = 8
_SHORTEST_HEADER: Final = 2
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_BITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
}


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """One tensor in a header; `__metadata__`, which stands among them, has none of these."""

    dtype: str = ""
    shape: Annotated[tuple[_Number, ...], msgspec.Meta(max_length=16)] = ()
    data_offsets: tuple[_Number, _Number] = (0, 0)


class CheckpointError(Exception):
    """What is wrong with a checkpoint's files: `words` in one sentence, for a person."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


@dataclass(frozen=True, slots=True)
class Shard:
    """One file, as its header describes it."""

    path: str
    tensors: tuple[Tensor, ...]


def read_config(folder: str) -> Mapping[str, object]:
    """The table in a checkpoint's config.json. Raises CheckpointError."""
    found = _json(folder, CONFIG, LARGEST_CONFIG)
    if not isinstance(found, dict):
        raise CheckpointError(f"{CONFIG} is no table of settings")
    return cast("Mapping[str, object]", found)


Fingerprint: TypeAlias = tuple[tuple[str, int, int], ...]


def fingerprint(folder: str) -> Fingerprint:
    """By what a later look tells whether a checkpoint's files have changed: the name, size and time of each.

    Empty for a folder that cannot be read; what is in it the reading says.
    """
    try:
        with os.scandir(folder) as entries:
            wanted = [entry for entry in entries if entry.name in (CONFIG, INDEX) or entry.name.endswith(_SAFETENSORS)]
            found = [(entry.path, entry.stat()) for entry in wanted]
    except OSError:
        return ()
    return tuple(sorted((path, stat.st_size, stat.st_mtime_ns) for path, stat in found))


def shards_of(folder: str) -> tuple[Shard, ...]:
    """All files of a checkpoint: those that its index names, else every safetensors file. Raises CheckpointError.

    A shard that is missing or shorter than its header says is found here, before anybody waits for it.
    """
    names = _names(folder)
    return tuple(Shard(os.path.join(folder, name), read_header(os.path.join(folder, name))) for name in names)


def read_header(path: str) -> tuple[Tensor, ...]:
    """The tensors of one file. Raises CheckpointError."""
    name = os.path.basename(path)
    try:
        with _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(_LENGTH), "little") if size >= _LENGTH else 0
            if length < _SHORTEST_HEADER or length > size - _LENGTH:
                raise CheckpointError(f"{name} is no safetensors file, or was cut off in its header")
            if length > LARGEST_HEADER:
                raise CheckpointError(f"{name} has a header of {length:,} bytes, more than the format allows")
            text = file.read(length)
    except OSError as error:
        raise CheckpointError(f"{name} cannot be read: {error.strerror}") from error
    return _tensors(name, text, size - _LENGTH - length)


def _opened(path: str) -> BinaryIO:
    """A regular file, for reading: a pipe that nobody writes to would hold whoever opens it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return os.fdopen(descriptor, "rb")


def _tensors(name: str, text: bytes, data: int) -> tuple[Tensor, ...]:
    try:
        entries = msgspec.json.decode(text, type=dict[str, _Entry])
    except msgspec.ValidationError as error:
        if text.lstrip()[:1] != b"{":
            raise CheckpointError(f"the header of {name} is no table of tensors") from error
        raise CheckpointError(f"a tensor of {name} is not described as the format wants it: {error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise CheckpointError(f"the header of {name} is no JSON") from error
    entries.pop("__metadata__", None)
    end = max((entry.data_offsets[1] for entry in entries.values()), default=0)
    found = tuple(_tensor(name, key, entry) for key, entry in entries.items())
    if end > data:
        raise CheckpointError(f"{name} was cut off: its tensors need {end:,} bytes, and {data:,} are there")
    return found


def _tensor(name: str, key: str, entry: _Entry) -> Tensor:
    (start, stop), bits = entry.data_offsets, _BITS.get(entry.dtype)
    if bits is None:
        what = f"tensor {key[:80]!r} of {name}"
        raise CheckpointError(f"{what} has a type that is not known here: {entry.dtype[:20]!r}")
    if stop < start or (stop - start) * 8 != prod(entry.shape) * bits:
        what = f"tensor {key[:80]!r} of {name}"
        raise CheckpointError(
            f"{what} has {stop - start:,} bytes, and its shape {list(entry.shape)} of {entry.dtype} needs others"
        )
    return Tensor(key, entry.dtype, entry.shape, stop - start)


def _names(folder: str) -> tuple[str, ...]:
    index = os.path.join(folder, INDEX)
    if not os.path.exists(index):
        return _loose(folder)
    said = _json(folder, INDEX, LARGEST_INDEX)
    table = cast("Mapping[str, object]", said).get("weight_map") if isinstance(said, dict) else None
    if not isinstance(table, dict):
        raise CheckpointError(f"{INDEX} has no weight_map")
    names = sorted({str(name) for name in cast("Mapping[str, object]", table).values()})
    if len(names) > MOST_SHARDS:
        raise CheckpointError(f"{INDEX} names {len(names):,} files, more than any checkpoint has")
    strange = next((name for name in names if os.path.basename(name) != name or name in ("", ".", "..")), None)
    if strange is not None:
        raise CheckpointError(f"{INDEX} names a file outside of the checkpoint: {strange[:80]!r}")
    missing = [name for name in names if not os.path.isfile(os.path.join(folder, name))]
    if missing:
        raise CheckpointError(f"{len(missing)} of {len(names)} files are missing: {', '.join(missing[:3])}")
    return tuple(names)


def _json(folder: str, name: str, most: int) -> object:
    """What a file of JSON says. Raises CheckpointError."""
    try:
        with _opened(os.path.join(folder, name)) as file:
            # No more than there is: a buffer is made as large as is asked for.
            text = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
    except OSError as error:
        raise CheckpointError(f"{name} cannot be read: {error.strerror}") from error
    if len(text) > most:
        raise CheckpointError(f"{name} is larger than any such file: over {most:,} bytes")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name} is no JSON") from error


def _loose(folder: str) -> tuple[str, ...]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(_SAFETENSORS))
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror}") from error
    if not names:
        raise CheckpointError(f"{folder} has no safetensors files")
    return tuple(names[:MOST_SHARDS])
