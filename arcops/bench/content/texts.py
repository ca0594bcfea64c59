"""Prose and code from arcops' own documents and sources, as they were when edition 1 was made.

An edition never changes, so that two versions of arcops ask the same: `tools/content/make.py` makes a next one.
"""

import gzip
import zlib
from collections.abc import Iterator
from enum import Enum
from importlib import resources
from typing import Final

from arcops.bench.content.documents import documents
from arcops.core.errors import ArcopsError
from arcops.core.evidence.work import digest

EDITION: Final = 1
DIGESTS: Final = {
    "prose": "sha256:96ebb36668ec3a783360c1dcf492a17767b95bfed28737a643543792939f2ee1",
    "code": "sha256:d027860d7e38bb2eb6a7f15412eb1164eb253d9f9bbd4f9b9050102efdae2fa8",
}
"""Of each text of the edition, unpacked: what was changed asks something else, and must not do so in silence."""


class Kind(Enum):
    """What a prompt is made of."""

    PROSE = "prose"
    """Technical prose."""
    CODE = "code"
    DOCUMENTS = "documents"
    """Structured documents."""


KINDS: Final = tuple(Kind)


def lines(kind: Kind) -> Iterator[str]:
    """The lines of a kind, each with its end, always in the same order. Documents have no end, the others do.

    Raises ArcopsError where the installation lacks them, or has others.
    """
    match kind:
        case Kind.DOCUMENTS:
            for document in documents():
                yield from document.splitlines(keepends=True)
        case Kind.PROSE | Kind.CODE:
            yield from _text(kind).splitlines(keepends=True)


def _text(kind: Kind) -> str:
    name = f"{kind.value}-{EDITION}.txt.gz"
    try:
        packed = resources.files("arcops.bench.content").joinpath("data", name).read_bytes()
        text = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise ArcopsError(f"the content for prompts cannot be read ({name}): {error}", hint=_REINSTALL) from error
    if digest(text) != DIGESTS[kind.value]:
        raise ArcopsError(f"the content for prompts is not edition {EDITION}: {name} was changed", hint=_REINSTALL)
    return text.decode()


_REINSTALL: Final = "install arcops anew"
