"""Reads an environment: what a launch would really run, file by file, and on what."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from arcops.config.paths import Paths
from arcops.core.budget.model import ShapeError
from arcops.core.budget.wants import wants_of
from arcops.core.errors import InvalidProfileError
from arcops.core.evidence.environment import UNKNOWN, Environment, ModelFacts
from arcops.core.launch import Launch
from arcops.evidence.environment import launcher, models
from arcops.evidence.environment.distributions import found_in
from arcops.evidence.environment.platform import platform_of
from arcops.evidence.setting import concealed
from arcops.machine.hashes import Hashes
from arcops.machine.interpreter import interpreter_of, program_of

Tell = Callable[[str], None]
"""Hears what is read now, in words."""


def gather(
    launch: Launch,
    paths: Paths,
    *,
    full: bool = False,
    weights: bool = False,
    setup_environment: Mapping[str, str] | None = None,
    tell: Tell = lambda _: None,
) -> Environment:
    """The environment of `launch` as it is now. Blocking: minutes at worst, seconds where its files are known already.

    `full` believes no hash of an earlier look; `weights` reads the weights' bytes as well. Where `setup_environment` is
    None, the set-up script is sourced here, in a bare environment, so that what comes of it does not depend on who
    asks. What cannot be read is absent, and named in `unread`. Raises ArcopsError where there is no runtime at all.
    """
    executable = launch.argv[0] if launch.argv else ""
    if not os.path.isfile(executable):
        raise InvalidProfileError(
            f"there is no runtime: {executable or 'an empty name'} is no file",
            hint=f"arcops profile check {launch.profile}",
        )
    hashes = Hashes(os.fspath(paths.hashes), believe=not full)
    unread: list[str] = []
    variables = launcher.variables_of(launch, setup_environment, unread)
    program = program_of(executable, variables.effective.get("PATH"))
    python = interpreter_of(program, variables.effective.get("PYTHONPATH", ""), variables.effective.get("HOME"))
    unread += [*program.remarks, *python.remarks]
    tell("packages")
    found = found_in(python.folders, program.prefix, hashes, tell)
    tell("system and cards")
    below = platform_of(launch.cards, launch.setup, variables.effective, hashes)
    model, draft = _models(launch, hashes, weights, tell, unread)
    if python.version is None:
        unread.append("the interpreter's version is not known")
    if not found.distributions:
        unread.append("no package was found: what the runtime consists of is not known")
    build = (("python build", python.build),) if python.build else ()
    # A memory that cannot be kept costs the next look its speed, and nothing else.
    with suppress(OSError):
        hashes.keep()
    return Environment(
        interpreter=python.version or UNKNOWN,
        prefix=program.prefix,
        distributions=tuple(found.distributions),
        system=tuple(sorted((*below.system, *build))),
        cards=below.cards,
        model=model,
        draft=draft,
        argv=concealed(launch.argv),
        environment=variables.shown,
        launcher=launcher.digests_of(program, launch.setup, hashes, unread),
        unread=tuple(dict.fromkeys((*unread, *found.unread, *below.unread))),
        profile=launch.profile,
        loose=tuple(found.loose),
    )


def _models(
    launch: Launch, hashes: Hashes, weights: bool, tell: Tell, unread: list[str]
) -> tuple[ModelFacts | None, ModelFacts | None]:
    """The model, and the draft where the launch has one of its own."""
    try:
        wants = wants_of(launch.argv)
    except ShapeError as error:
        unread.append(f"the model is not known: {error}")
        return None, None
    draft = None if wants.drafting is None else wants.drafting.draft
    read: list[ModelFacts | None] = []
    for what, folder in (("model", wants.model), ("draft", draft)):
        if not folder:
            read.append(None)
            continue
        tell(what)
        facts = models.facts_of(folder, hashes, weights=weights, tell=tell)
        if facts.problem:
            unread.append(f"the {what} {folder}: {facts.problem}")
        read.append(facts)
    return read[0], read[1]
