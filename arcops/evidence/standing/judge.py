"""Reads an environment, or takes a kept one, and holds it against the records. Blocking: seconds, minutes at worst."""

from collections.abc import Iterable

from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError
from arcops.core.evidence.environment import Environment, changes, digest_of, words
from arcops.evidence import shelf
from arcops.evidence.environment.gather import gather
from arcops.evidence.shelf import Stored
from arcops.evidence.standing import kept
from arcops.evidence.standing.child import LONGEST_LINE, MOST_LINES, Changes, Question, Standing

MOST_DAMAGED = 3
"""Damaged records that are named."""


def judge(question: Question, paths: Paths) -> Standing:
    """The answer to a question. Raises ArcopsError where there is no environment to judge."""
    problems: list[str] = []
    environment = _environment(question, paths)
    digest = digest_of(environment)
    try:
        passed = shelf.qualified_in(paths.records, question.profile, digest)
        last = passed or shelf.latest_qualified(paths.records, question.profile)
        problems += _damaged(paths)
        qualified: bool | None = passed is not None
    except ArcopsError as error:
        last, qualified = None, None
        problems.append(error.message)
    if question.keep:
        problems += _keep(question, paths, environment)
    return Standing(
        digest=digest,
        qualified=qualified,
        qualified_in=_digest_in(last),
        since_qualified=None if last is None or qualified else _since_record(last, environment),
        since_previous=_since_kept(question, paths, environment),
        unread=_first(environment.unread),
        problems=_first(problems),
    )


def _environment(question: Question, paths: Paths) -> Environment:
    if question.launch is not None:
        return gather(question.launch, paths)
    return kept.read(paths.environments, question.digest or "")


def _digest_in(stored: Stored | None) -> str | None:
    if stored is None or stored.record.qualification is None:
        return None
    return stored.record.qualification.environment_digest


def _since_record(stored: Stored, environment: Environment) -> Changes | None:
    """None where the record does not hold the environment that it names."""
    was = stored.record.environment
    if was is None or digest_of(was) != _digest_in(stored):
        return None
    return changes_between(was, environment)


def _since_kept(question: Question, paths: Paths, environment: Environment) -> Changes | None:
    if question.previous is None:
        return None
    try:
        return changes_between(kept.read(paths.environments, question.previous), environment)
    except ArcopsError:
        # Removed, damaged: then there is nothing to compare with, and the next launch has this one.
        return None


def changes_between(was: Environment, becomes: Environment) -> Changes:
    """For a person, bounded."""
    found = changes(was, becomes)
    return Changes(len(found), tuple(_cut(words(change)) for change in found[:MOST_LINES]))


def _damaged(paths: Paths) -> Iterable[str]:
    """Records that may have been what is looked for, and cannot be believed."""
    found = [one for one in shelf.find(paths.records, "qualification") if one.head is None]
    for one in found[:MOST_DAMAGED]:
        yield f"a record is not believed: {one.problem}"
    if len(found) > MOST_DAMAGED:
        yield f"{len(found) - MOST_DAMAGED} more records are not believed"


def _keep(question: Question, paths: Paths, environment: Environment) -> Iterable[str]:
    try:
        digest = kept.keep(paths.environments, environment)
        kept.prune(paths.environments, {digest, *question.named, *_named_by_records(paths)})
    except OSError as error:
        yield f"the environment cannot be kept in {paths.environments}: {error.strerror}"
    except ArcopsError as error:
        yield error.message


def _named_by_records(paths: Paths) -> Iterable[str]:
    """Environments that a qualification names. Raises ArcopsError."""
    for found in shelf.find(paths.records, "qualification"):
        if found.head is None:
            continue
        try:
            stored = shelf.read(found.path)
        except ArcopsError:
            continue
        digest = _digest_in(stored)
        if digest is not None:
            yield digest


def _first(lines: Iterable[str]) -> tuple[str, ...]:
    every = list(lines)
    more = (f"and {len(every) - MOST_LINES} more",) if len(every) > MOST_LINES else ()
    return (*map(_cut, every[:MOST_LINES]), *more)


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"
