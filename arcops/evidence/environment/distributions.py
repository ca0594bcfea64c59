"""Every distribution of a runtime held against its own RECORD: what was patched, replaced, removed or added."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from arcops.core.evidence.environment import ChangedFile, Departure, Distribution
from arcops.core.evidence.work import digest
from arcops.evidence.environment.site_packages import Site, as_it_is
from arcops.evidence.environment.trees import tree_of
from arcops.machine import repository, wheels
from arcops.machine.hashes import Hashes
from arcops.machine.wheels import Installed, Named, Record

MOST_LISTED: Final = 1_000
"""Files of one distribution that are named one by one."""
_GENERATED = frozenset({"RECORD", "RECORD.jws", "RECORD.p7s", "INSTALLER", "REQUESTED", "direct_url.json"})
"""What installers write into the metadata: it says how, and runs nothing. uv's own begin with `uv_`."""

Tell = Callable[[str], None]
"""Hears what is read now, in words."""


@dataclass(slots=True)
class Found:
    """What a runtime's folders hold."""

    distributions: list[Distribution] = field(default_factory=list[Distribution])
    loose: list[ChangedFile] = field(default_factory=list[ChangedFile])
    unread: list[str] = field(default_factory=list[str])


def found_in(folders: Sequence[str], prefix: str, hashes: Hashes, tell: Tell = lambda _: None) -> Found:
    """All distributions in these folders, by name. What cannot be read is named in `unread`."""
    found = Found()
    sources: set[str] = set()
    for folder in folders:
        if folder in sources:
            continue
        try:
            installed = wheels.distributions_in(folder)
        except OSError as error:
            found.unread.append(f"the packages in {folder} cannot be listed: {error.strerror}")
            continue
        sources.update(os.path.normpath(one.editable) for one in installed if one.editable is not None)
        sources.update(os.path.join(os.path.normpath(one.editable), "src") for one in installed if one.editable)
        _read_site(folder, installed, prefix, hashes, found, tell)
    found.distributions.sort(key=lambda one: (one.name.lower(), one.version))
    return found


def _read_site(
    folder: str, installed: Sequence[Installed], prefix: str, hashes: Hashes, found: Found, tell: Tell
) -> None:
    site = Site(folder)
    read: list[tuple[Installed, list[ChangedFile], str | None, bool]] = []
    for number, one in enumerate(installed):
        tell(f"{one.name} {one.version}")
        if one.problem:
            found.unread.append(one.problem)
        record = _record(one, found)
        if record is None:
            read.append((one, list(_without_record(one, hashes)), None, False))
            continue
        site.take_up(number, record)
        files = list(_departures(one, record, prefix, hashes, found))
        hashed = any(named.digest for named in record.files)
        read.append((one, files, _content(one, record), hashed and one.editable is None))
    for number, (one, files, content, checked) in enumerate(read):
        if not checked:
            read[number] = (one, files, _code_of(one, site, hashes, found) or content, False)
    for path in site.added():
        read[site.owner_of(path)][1].append(as_it_is(site.folder, path, hashes))
    for one, files, content, checked in read:
        found.distributions.append(
            Distribution(one.name, one.version, _origin(one), checked, tuple(_listed(files)), content)
        )
    loose, problems = site.loose(hashes)
    found.loose += loose
    found.unread += problems


def _record(one: Installed, found: Found) -> Record | None:
    if not one.has_record:
        return None
    try:
        record = wheels.record_of(one)
    except OSError as error:
        found.unread.append(f"the RECORD of {one.name} cannot be read: {error.strerror}")
        return None
    if record.strange:
        lines = "line" if record.strange == 1 else "lines"
        found.unread.append(f"the RECORD of {one.name} has {record.strange:,} {lines} that say nothing to be checked")
    if record.cut:
        found.unread.append(f"the RECORD of {one.name} is longer than any real one: only a part of it was checked")
    return record


def _without_record(one: Installed, hashes: Hashes) -> Iterator[ChangedFile]:
    """Metadata that no installer has put there: it gives a name and a version to something else."""
    if one.info.endswith(".dist-info") and one.installer is None:
        yield as_it_is(one.folder, os.path.join(one.info, "METADATA"), hashes)


def _departures(one: Installed, record: Record, prefix: str, hashes: Hashes, found: Found) -> Iterator[ChangedFile]:
    outside = 0
    for named in record.files:
        if _says_nothing(one, named):
            continue
        path = os.path.normpath(os.path.join(one.folder, named.path))
        if (
            not _is_below(path, one.folder)
            and not _is_below(path, prefix)
            and not _is_below(path, _root_of(one.folder))
        ):
            outside += 1
            continue
        departed = _departed(named, path, hashes)
        if departed is not None:
            yield departed
    if outside:
        files = "file" if outside == 1 else "files"
        found.unread.append(f"the RECORD of {one.name} names {outside:,} {files} outside of the runtime: not looked at")


def _says_nothing(one: Installed, named: Named) -> bool:
    folder, name = os.path.split(named.path)
    if name.endswith((".pyc", ".pyo")) or os.path.basename(folder) == "__pycache__":
        return True
    return folder == one.info and (name in _GENERATED or name.startswith("uv_"))


def _departed(named: Named, path: str, hashes: Hashes) -> ChangedFile | None:
    """How a file differs from what its RECORD says; None where it does not, or where there is nothing to hold it to."""
    try:
        if named.digest is None or named.algorithm is None:
            os.stat(path)
            return None
        if hashes.of(path, named.algorithm) == named.digest or _is_script(named, path):
            return None
        return ChangedFile(named.path, Departure.CHANGED, f"sha256:{hashes.of(path)}")
    except FileNotFoundError:
        return ChangedFile(named.path, Departure.MISSING, None)
    except (OSError, ValueError) as error:
        detail = error.strerror if isinstance(error, OSError) else str(error)
        return ChangedFile(named.path, Departure.UNREADABLE, None, detail or type(error).__name__)


def _is_script(named: Named, path: str) -> bool:
    """A command that the installer wrote: its first line names the environment's Python, and changes with its place.
    The one that a launch runs is among the launcher's files."""
    if not _is_command(named):
        return False
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def _is_command(named: Named) -> bool:
    return named.path.startswith("..") and os.path.basename(os.path.dirname(named.path)) in ("bin", "Scripts")


def _content(one: Installed, record: Record) -> str | None:
    """Over what was installed, by RECORD itself: two builds of one version have another."""
    lines = sorted(
        f"{named.path} {named.algorithm}={named.digest}"
        for named in record.files
        if named.digest is not None and not _says_nothing(one, named) and not _is_command(named)
    )
    return digest("\n".join(lines).encode("utf-8", "surrogateescape")) if lines else None


def _code_of(one: Installed, site: Site, hashes: Hashes, found: Found) -> str | None:
    """Over the code of a distribution that cannot be held against a RECORD, as it is now."""
    root = one.editable or one.folder
    tops = one.tops or ((one.name.replace("-", "_"),) if one.editable is None else ())
    places = [os.path.join(root, *below, top) for top in tops for below in ((), ("src",))] or [root]
    if one.editable is None:
        mine = [top for top in tops if top not in site.owners and f"{top}.py" not in site.owned]
        site.unrecorded.update((*mine, *(f"{top}.py" for top in mine)))
        places = [os.path.join(root, top) for top in mine]
    digests: list[str] = []
    for place in places:
        tree = tree_of(place, hashes.of)
        if tree.problem:
            found.unread.append(f"{one.name}: {tree.problem}")
        if tree.digest is not None:
            digests.append(f"{os.path.basename(place)} {tree.digest}")
        elif os.path.isfile(f"{place}.py"):
            digests.append(as_it_is(root, f"{os.path.relpath(place, root)}.py", hashes).digest or "?")
    return digest("\n".join(digests).encode()) if digests else None


def _origin(one: Installed) -> str | None:
    if one.editable is None:
        return one.origin
    commit = repository.commit_of(one.editable)
    return one.origin if commit is None else f"{one.origin}, at {commit}"


def _listed(files: Iterable[ChangedFile]) -> Iterator[ChangedFile]:
    """By path; what is more than anybody reads is summed up in one line, with a digest over it."""
    ordered = sorted(files, key=lambda file: file.path)
    yield from ordered[:MOST_LISTED]
    rest = ordered[MOST_LISTED:]
    if rest:
        text = "\n".join(f"{file.path} {file.departure.value} {file.digest}" for file in rest)
        sums = digest(text.encode("utf-8", "surrogateescape"))
        yield ChangedFile(f"(and {len(rest):,} more)", Departure.CHANGED, sums)


def _root_of(folder: str) -> str:
    """The prefix that a `lib/python3.x/site-packages` is in: a user's own has another than the interpreter."""
    parts = folder.rstrip("/").split("/")
    return "/".join(parts[:-3]) if len(parts) > 4 and parts[-3] in ("lib", "lib64") else folder


def _is_below(path: str, folder: str) -> bool:
    return len(folder) > 1 and path.startswith(f"{folder.rstrip('/')}/")
