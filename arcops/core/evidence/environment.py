"""What a runtime really is: facts that are recorded, compared, and held a qualification to."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Departure(Enum):
    """How a file differs from what its wheel's RECORD says."""

    CHANGED = "changed"
    """Another content: a patch, a replaced binary."""
    MISSING = "missing"
    UNREADABLE = "unreadable"
    """Unknown: neither as installed nor changed."""
    ADDED = "added"
    """A module or library within a package's folder that no RECORD names: it is imported like any other."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that is not as its wheel brought it."""

    path: str
    """Relative to the site-packages that it is in."""
    departure: Departure
    digest: str | None
    """Of what is there now, `sha256:`...; None where there is nothing or it cannot be read."""
    detail: str = ""
    """Why it could not be read, in words."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed package."""

    name: str
    version: str
    origin: str | None = None
    """Where it was installed from, where that is not an index: an editable folder, a wheel's file, a repository with its
    commit (direct_url.json, PEP 610)."""
    checked: bool = True
    """Its RECORD has hashes, and they were held against the files. False: nobody knows (an egg, an editable folder)."""
    files: tuple[ChangedFile, ...] = ()
    """Those that differ; empty for a wheel as it was built."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A checkpoint, by what is cheap to read."""

    path: str
    revision: str | None
    """The commit of its repository, where the Hugging Face cache's layout tells."""
    config_digest: str | None
    index_digest: str | None
    """Over the index (`model.safetensors.index.json`), or None where there is one file alone."""
    headers_digest: str | None
    """Over the headers of all weight files and their sizes: names, shapes and places of all tensors, not their values."""
    weights_digest: str | None = None
    """Over all bytes of the weight files; only on request: it reads all of them."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class EnvironmentCard:
    """A card as an environment has it; the address counts as little as the monitor on it."""

    name: str
    driver: str
    device_id: str | None = None
    firmware: tuple[tuple[str, str], ...] = ()
    """Name and version, where the driver tells."""


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment of one profile. Facts that could not be read are absent, and `unread` says which and why."""

    interpreter: str
    """Version and implementation: `CPython 3.12.14`."""
    prefix: str
    """The folder of the virtual environment; its place does not count for the digest."""
    distributions: tuple[Distribution, ...]
    """By name."""
    system: tuple[tuple[str, str], ...]
    """By name: `kernel`, `distribution`, `glibc`, `driver xe`, `oneapi`, `level-zero`, `compute-runtime`, ...:
    version each."""
    cards: tuple[EnvironmentCard, ...]
    model: ModelFacts | None
    draft: ModelFacts | None
    argv: tuple[str, ...]
    """The command line with secrets hidden; port and paths as the profile gives them."""
    environment: tuple[tuple[str, str], ...]
    """What profile and set-up script add or change, with secrets hidden, sorted by name."""
    launcher: Mapping[str, str]
    """Path -> digest of the files that the launch runs before vLLM: the set-up script, a wrapper in place of `vllm`."""
    unread: tuple[str, ...] = ()
    """What could not be read, a sentence each."""


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """One thing in which two environments differ."""

    part: str
    """`interpreter`, `distribution`, `file`, `system`, `card`, `model`, `draft`, `argv`, `variable`, `launcher`."""
    name: str
    was: str | None
    """None: it was not there."""
    becomes: str | None
    """None: it is not there any more."""
