"""A checkpoint by what is cheap to read; all of it only on request."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from typing import Final

from arcops.core.evidence.environment import ModelFacts
from arcops.core.evidence.work import digest
from arcops.machine import checkpoint, repository
from arcops.machine.checkpoint import CONFIG, INDEX, CheckpointError
from arcops.machine.hashes import Hashes

PIECES: Final = 16
"""Of each weight file that are read for `samples_digest`."""
PIECE: Final = 4096
"""Bytes."""
LARGEST_SMALL: Final = 256 << 20
"""Bytes of a tokenizer's file; real ones have up to forty million."""
MOST_SMALL: Final = 200
_SMALL: Final = re.compile(
    r".*\.(?:json|jinja|model|tiktoken|py)|(?:merges|vocab|added_tokens|special_tokens_map)\.txt", re.DOTALL
)
"""What vLLM and transformers read of a checkpoint beside config and weights."""

Tell = Callable[[str], None]


def facts_of(folder: str, hashes: Hashes, *, weights: bool, tell: Tell = lambda _: None) -> ModelFacts:
    """What can be told of the checkpoint in a folder; `problem` says what could not be read.

    Hashes of all weights that an earlier look has read and that still stand are given without `weights`, too.
    """
    problems: list[str] = []
    files = _weight_files(folder, problems)
    return ModelFacts(
        path=folder,
        revision=repository.snapshot_of(folder) or repository.commit_of(folder),
        config_digest=_of_file(os.path.join(folder, CONFIG), hashes, problems),
        index_digest=_of_index(folder, hashes, problems),
        headers_digest=_over(files, _header, problems),
        weights_digest=_weights(files, hashes, problems, tell) if weights else _remembered(files, hashes),
        problem="; ".join(dict.fromkeys(problems)),
        samples_digest=_over(files, _samples, problems),
        tokenizer_digest=_small(folder, hashes, problems),
    )


def _weight_files(folder: str, problems: list[str]) -> tuple[str, ...]:
    try:
        return tuple(shard.path for shard in checkpoint.shards_of(folder))
    except CheckpointError as error:
        problems.append(error.words)
        return ()


def _of_file(path: str, hashes: Hashes, problems: list[str]) -> str | None:
    try:
        return f"sha256:{hashes.of(path)}"
    except OSError as error:
        problems.append(f"{os.path.basename(path)} cannot be read: {error.strerror}")
        return None


def _of_index(folder: str, hashes: Hashes, problems: list[str]) -> str | None:
    path = os.path.join(folder, INDEX)
    return _of_file(path, hashes, problems) if os.path.lexists(path) else None


def _over(files: Iterable[str], read: Callable[[str], str], problems: list[str]) -> str | None:
    """One digest over what `read` gives of each file; None where one cannot be read, or there is none."""
    lines: list[str] = []
    for path in files:
        try:
            lines.append(f"{os.path.basename(path)} {os.stat(path).st_size} {read(path)}")
        except OSError as error:
            problems.append(f"{os.path.basename(path)} cannot be read: {error.strerror}")
            return None
    return digest("\n".join(lines).encode("utf-8", "surrogateescape")) if lines else None


def _header(path: str) -> str:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return hashlib.sha256(file.read(min(length, checkpoint.LARGEST_HEADER))).hexdigest()


def _samples(path: str) -> str:
    """Pieces at even distances, the first bytes of the tensors and the last among them."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        begin = 8 + min(int.from_bytes(file.read(8), "little"), size)
        room = max(0, size - begin - PIECE)
        hasher = hashlib.sha256()
        for number in range(PIECES):
            file.seek(begin + room * number // (PIECES - 1))
            hasher.update(file.read(PIECE))
    return hasher.hexdigest()


def _weights(files: Iterable[str], hashes: Hashes, problems: list[str], tell: Tell) -> str | None:
    def read(path: str) -> str:
        tell(f"{os.path.basename(path)}, {os.stat(path).st_size / 1e9:.1f} GB")
        return hashes.of(path)

    return _over(files, read, problems)


def _remembered(files: Iterable[str], hashes: Hashes) -> str | None:
    known = {path: hashes.known(path) for path in files}
    if not known or None in known.values():
        return None
    return _over(known, lambda path: known[path] or "", [])


def _small(folder: str, hashes: Hashes, problems: list[str]) -> str | None:
    lines: list[str] = []
    try:
        names = sorted(name for name in os.listdir(folder) if _SMALL.fullmatch(name) and name not in (CONFIG, INDEX))
    except OSError as error:
        problems.append(f"the folder cannot be read: {error.strerror}")
        return None
    for name in names[:MOST_SMALL]:
        path = os.path.join(folder, name)
        try:
            if os.path.isfile(path) and os.path.getsize(path) <= LARGEST_SMALL:
                lines.append(f"{name} {hashes.of(path)}")
        except OSError as error:
            problems.append(f"{name} cannot be read: {error.strerror}")
    return digest("\n".join(lines).encode("utf-8", "surrogateescape")) if lines else None
