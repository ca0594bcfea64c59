"""What a runtime really is: facts that are recorded, compared, and held a qualification to.

`counted` says what counts, as names with values: the digest is over it and a comparison goes by it, so the two agree.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from arcops.core.affinity import AFFINITY
from arcops.core.difference import settings_of
from arcops.core.evidence.work import digest


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
    """Where it was installed from, where that is not an index: an editable folder, a wheel's file, a repository with
    its commit (direct_url.json, PEP 610)."""
    checked: bool = True
    """Its RECORD has hashes, and they were held against the files. False: nobody knows (an egg, an editable folder)."""
    files: tuple[ChangedFile, ...] = ()
    """Those that differ; empty for a wheel as it was built."""
    content_digest: str | None = None
    """Over what was installed: over RECORD's own names and hashes, so that two builds with one version are told apart;
    where there are none, over the package's modules and libraries as they are. None where neither could be read."""


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
    """Over the headers of all weight files and their sizes: names, shapes and places of all tensors, no values."""
    weights_digest: str | None = None
    """Over all bytes of the weight files; only on request: it reads all of them. So it is no part of an environment's
    digest, and is compared where both sides have it."""
    samples_digest: str | None = None
    """Over pieces of the weight files at places that their sizes choose: other weights of the same shapes have another.
    It takes milliseconds, and proves nothing about the bytes between."""
    tokenizer_digest: str | None = None
    """Over the tokenizer's files, the chat template, the generation defaults and the model's own code."""
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
    profile: str = ""
    """Whose launch it is; a profile by another name that does the same has the same environment."""
    loose: tuple[ChangedFile, ...] = ()
    """Modules, libraries and .pth files at the top of a site-packages that belong to no distribution; a folder of them
    ends with `/`, and its digest is over the modules in it."""


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


Counted = Mapping[tuple[str, str], str]
"""(part, name) -> value."""

UNKNOWN: Final = "unknown"
_PLACES: Final = frozenset({"program", "--host", "--port", "--uds"})
"""What of a command line says where, and not what."""
_CARD_NUMBERS = frozenset(name for table in AFFINITY.values() for name, value in table.items() if not value)
_DIGEST = re.compile(r"sha256:([0-9a-f]{12})[0-9a-f]{52}")


def digest_of(environment: Environment) -> str:
    """Of everything that counts (`counted`): `sha256:` and 64 hexadecimal digits.

    What could not be read counts as unknown: an environment with something in `unread` has a digest, and two that have
    the same one may differ in it all the same.
    """
    found = [[part, name, value] for (part, name), value in sorted(counted(environment).items())]
    return digest(json.dumps(found, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def changes(old: Environment, new: Environment) -> tuple[EnvironmentChange, ...]:
    """In what two environments differ, by part and name; empty where nothing that both could read does.

    Two with the same digest have none, but for the weights: whoever had all their bytes read compares them as well.
    """
    before, after = counted(old), counted(new)
    found = [
        EnvironmentChange(part, name, before.get((part, name)), after.get((part, name)))
        for part, name in sorted({*before, *after})
        if before.get((part, name)) != after.get((part, name))
    ]
    return (*found, *_of_weights("model", old.model, new.model), *_of_weights("draft", old.draft, new.draft))


def unread_in_either(old: Environment, new: Environment) -> tuple[str, ...]:
    """What could not be read on one side or the other: of it nobody can say that it is the same."""
    return tuple(sorted({*old.unread, *new.unread}))


def words(change: EnvironmentChange) -> str:
    """A change as one line for a person; digests are cut to what tells them apart."""
    was, becomes = (None if one is None else _short(one) for one in (change.was, change.becomes))
    what = f"{change.part} {change.name}" if change.name else change.part
    if was is None:
        return f"{what}: {becomes} (was not there)"
    if becomes is None:
        return f"{what}: gone (was {was})"
    return f"{what}: {was} -> {becomes}"


def counted(environment: Environment) -> Counted:
    """All facts that make an environment what it is. Left out are places (prefix, port, host, a card's address, the
    folder of a model whose content is known), the order of things, and where a package was installed from."""
    found: dict[tuple[str, str], list[str]] = {}
    for part, name, value in _facts(environment):
        # Two facts of one name (a package in two folders, two cards alike) are both kept.
        found.setdefault((part, name), []).append(value)
    return {key: " and ".join(sorted(values)) for key, values in found.items()}


def _facts(one: Environment) -> Iterator[tuple[str, str, str]]:
    yield "interpreter", "", one.interpreter
    for distribution in one.distributions:
        yield from _of_distribution(distribution)
    for file in one.loose:
        yield _of_file(file)
    for name, value in one.system:
        yield "system", name, value
    for card in one.cards:
        firmware = "".join(f", {name} {version}" for name, version in sorted(card.firmware))
        yield "card", card.name, f"{card.driver}, {card.device_id or UNKNOWN}{firmware}"
    yield from _of_model("model", one.model)
    yield from _of_model("draft", one.draft)
    known = {"model": one.model, "--speculative-config.model": one.draft}
    for name, value in settings_of(one.argv).items():
        facts = known.get(name)
        if name not in _PLACES and (facts is None or not _is_known(facts)):
            yield "argv", name, _placeless(value, one.prefix)
    for name, value in one.environment:
        if name not in _CARD_NUMBERS:
            yield "variable", name, _placeless(value, one.prefix)
    for path, content in one.launcher.items():
        yield "launcher", path.rpartition("/")[2], content


def _of_distribution(one: Distribution) -> Iterator[tuple[str, str, str]]:
    name = re.sub(r"[-_.]+", "-", one.name).lower()
    checked = "" if one.checked else ", not checked"
    yield "distribution", name, f"{one.version}, {one.content_digest or UNKNOWN}{checked}"
    for file in one.files:
        yield _of_file(file)


def _of_file(file: ChangedFile) -> tuple[str, str, str]:
    return "file", file.path, f"{file.departure.value}{'' if file.digest is None else f' {file.digest}'}"


def _of_model(part: str, model: ModelFacts | None) -> Iterator[tuple[str, str, str]]:
    if model is None:
        return
    for name, value in (
        ("revision", model.revision),
        ("configuration", model.config_digest),
        ("index", model.index_digest),
        ("headers", model.headers_digest),
        ("samples", model.samples_digest),
        ("tokenizer", model.tokenizer_digest),
    ):
        if value is not None:
            yield part, name, value
    if not _is_known(model):
        yield part, "content", UNKNOWN


def _is_known(model: ModelFacts) -> bool:
    """Whether its content tells it from another: then its folder does not count."""
    return not model.problem and None not in (model.config_digest, model.headers_digest, model.samples_digest)


def _of_weights(part: str, old: ModelFacts | None, new: ModelFacts | None) -> Iterator[EnvironmentChange]:
    was, becomes = (None if one is None else one.weights_digest for one in (old, new))
    if was is not None and becomes is not None and was != becomes:
        yield EnvironmentChange(part, "weights", was, becomes)


def _placeless(text: str, prefix: str) -> str:
    return text.replace(prefix, "{prefix}") if len(prefix) > 1 else text


def _short(text: str) -> str:
    return _DIGEST.sub(r"\1", text)
