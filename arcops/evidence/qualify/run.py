"""Qualifies a profile: starts it, asks it, keeps the record, and brings back what ran before."""

import asyncio
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from arcops import __version__
from arcops.bench.drive import Progress
from arcops.bench.server import BenchServer
from arcops.client import Client
from arcops.config.library import Config
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.environment import Environment, digest_of
from arcops.core.evidence.identity import (
    Divergence,
    Identity,
    Margin,
    StageIdentity,
    by_another,
    compare,
    open_questions,
    with_margins,
)
from arcops.core.evidence.judge import judge
from arcops.core.evidence.qualification import Gate, Qualification, Verdict
from arcops.core.evidence.run import Run
from arcops.core.evidence.setting import Setting
from arcops.core.launch import Launch
from arcops.evidence import fresh, shelf
from arcops.evidence.environment.gather import gather
from arcops.evidence.qualify import gates
from arcops.evidence.qualify.ask import ask, picture, suite_items
from arcops.evidence.qualify.before import Before, bring_back, look
from arcops.evidence.qualify.seen import Question, Seen, Wanted, not_asked, wanted_of
from arcops.evidence.record import FORMAT, Record
from arcops.evidence.shelf import Stored
from arcops.evidence.soak import memory_of
from arcops.evidence.target import Target, target_of
from arcops.evidence.witness import Witness

UNKNOWN_ENVIRONMENT: Final = "unknown"
"""In place of a digest: no launch has it, and no switch accepts it."""
NOTHING_YET: Final = "nothing to compare with: this profile has no qualified record yet"
_RECORDING: Final = 120.0
"""Seconds for which the daemon's own record of the environment is waited for; then it is read here."""
_FAILED_STARTS: Final = (ExitCode.BACKEND_FAILED, ExitCode.WEDGED, ExitCode.TIMED_OUT)
_REFUSED: Final = (ExitCode.BUSY, ExitCode.INVALID, ExitCode.USAGE)
"""The daemon has not touched anything."""
_PARSER: Final = "--tool-call-parser"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person wants."""

    profile: str
    place: Path
    """A folder, or a file that is not there yet."""
    command: tuple[str, ...] = ()
    url: str | None = None
    """A bare server in place of the daemon's."""
    model: str | None = None
    api_key_file: Path | None = None
    question: Question | None = None
    long_tokens: int | None = None
    headroom: int | None = None
    """Bytes."""
    soak: float | None = None
    """Seconds."""
    image: Path | None = None
    accepted: str = ""
    keep: bool = False
    note: str = ""


async def qualify(asked: Asked, paths: Paths, tell: Progress) -> Stored:
    """Do it. Raises ArcopsError where it cannot even begin (an order is refused, say), or what ran before does not come
    back; what the profile does wrong is in the record."""
    shelf.prepare(asked.place)
    if asked.url is not None:
        return await _bare(asked, paths, tell)
    launch = await asyncio.to_thread(_launch, asked.profile, paths)
    wanted = _wanted(asked, launch)
    before = await asyncio.to_thread(look, paths.socket)
    if before.serving and before.profile == asked.profile:
        tell(f"{asked.profile} serves already, and is asked as it runs")
        return await _held(asked, wanted, launch, paths, tell, None)
    return await _switched(asked, wanted, launch, before, paths, tell)


async def _switched(
    asked: Asked, wanted: Wanted, launch: Launch, before: Before, paths: Paths, tell: Progress
) -> Stored:
    stays = False
    began = time.time()
    try:
        tell(f"switching to {asked.profile}")
        try:
            await fresh.change(paths.socket, asked.profile)
        except ArcopsError as error:
            if error.exit_code not in _FAILED_STARTS:
                stays = error.exit_code in _REFUSED
                raise
            return await _failed(asked, launch, error, began, paths)
        stored = await _held(asked, wanted, launch, paths, tell, began)
        stays = asked.keep and stored.record.qualification is not None and stored.record.qualification.qualified
        return stored
    finally:
        # After Ctrl-C as well: the order goes on without whoever gave it, and must not be what stays.
        if not stays and before.profile != asked.profile:
            await bring_back(paths.socket, before, asked.profile, tell)


async def _failed(asked: Asked, launch: Launch, error: ArcopsError, began: float, paths: Paths) -> Stored:
    """The record of a start that failed."""
    evidence = await asyncio.to_thread(_diagnosis, paths.socket)
    lines = tuple(line for line in (error.hint, *evidence.splitlines()) if line)
    start = Gate("start", Verdict.FAILED, error.message, lines, time.time() - began)
    try:
        environment = await asyncio.to_thread(gather, launch, paths)
    except ArcopsError:
        environment = None
    given = Qualification(asked.profile, _digest(environment), not_asked(start))
    record = _record(asked, began, given, environment, None)
    return await asyncio.to_thread(shelf.write, asked.place, record)


async def _held(
    asked: Asked, wanted: Wanted, launch: Launch, paths: Paths, tell: Progress, ordered: float | None
) -> Stored:
    """What serves, held to its gates. `ordered`: when its start was, in seconds since the epoch; None where it ran
    already."""
    began = time.time() if ordered is None else ordered
    try:
        target = await asyncio.to_thread(target_of, None, asked.api_key_file, paths)
        backend = await asyncio.to_thread(fresh.serving, paths.socket)
        start = _start(backend.ready_at, ordered)
        facts = _Facts(asked, wanted, target, asked.profile, _PARSER in launch.argv, launch.cards)
        found = await _asked(facts, paths, tell)
    except ArcopsError as error:
        gone = ArcopsError(f"it came up, and could not be asked: {error.message}", hint=error.hint)
        return await _failed(asked, launch, gone, began, paths)
    tell("environment")
    environment = await _environment(paths, backend.launch_id, launch)
    return await _kept(facts, found, start, environment, began)


def _start(ready_at: float | None, ordered: float | None) -> Gate:
    since = "a time that is not known" if ready_at is None else f"{datetime.fromtimestamp(ready_at, UTC):%FT%TZ}"
    if ordered is None:
        words = f"serves since {since}: it ran already, and was not started anew for this"
        return Gate("start", Verdict.PASSED, words)
    took = max(0.0, (time.time() if ready_at is None else ready_at) - ordered)
    return Gate("start", Verdict.PASSED, f"serves since {since}, {took:.1f} s after the order", seconds=took)


async def _bare(asked: Asked, paths: Paths, tell: Progress) -> Stored:
    """A server at a URL: whose environment nobody knows."""
    try:
        launch = await asyncio.to_thread(_launch, asked.profile, paths)
    except ArcopsError:
        launch = None
    wanted = _wanted(asked, launch)
    target = await asyncio.to_thread(target_of, asked.url, asked.api_key_file, paths)
    began = time.time()
    # Not the profile's own name: nothing that is held to the profile may go by a server that arcops did not launch.
    facts = _Facts(asked, wanted, target, f"{asked.profile} at {target.url}", None, None)
    found = await _asked(facts, paths, tell)
    start = Gate("start", Verdict.PASSED, f"it serves at {target.url}; who started it how is not arcops's knowledge")
    return await _kept(facts, found, start, None, began)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is asked, of whom."""

    asked: Asked
    wanted: Wanted
    target: Target
    profile: str
    """As the record names it."""
    parses_tools: bool | None
    """It has a parser of tool calls; None: its command line says, where that is known."""
    cards: tuple[str, ...] | None
    """PCI addresses; None: as the witness finds them."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What came of it."""

    seen: Seen
    setting: Setting
    cards: tuple[str, ...] | None
    identity: Identity | None
    stage: StageIdentity | None
    """The suite's, beside the last qualified record."""
    nothing: str
    """Why there is none."""


async def _asked(facts: _Facts, paths: Paths, tell: Progress) -> _Found:
    target = facts.target
    async with BenchServer(target.url, model=facts.asked.model, api_key=target.api_key) as server:
        told = await server.open()
        tell(f"asking {told.model} at {told.url}")
        server.begin()
        memory = await asyncio.to_thread(memory_of, told.url)
        async with Witness(told, target.socket, server.now) as witness:
            argv = witness.known.configuration.argv
            parses = facts.parses_tools
            if parses is None:
                parses = not argv or _PARSER in argv
            seen = await ask(server, facts.wanted, tell, parses_tools=parses, memory=memory)
            cards = witness.known.cards if facts.cards is None else facts.cards
        oracle = await asyncio.to_thread(shelf.latest_qualified, paths.records, facts.profile)
        setting = witness.setting()
        if oracle is None or oracle.record.run is None:
            return _Found(seen, setting, cards, None, None, NOTHING_YET)
        stages = compare(seen.run, same_questions(oracle.record.run, seen.run))
        stages = with_margins(stages, await _margins(server, stages, oracle.record.run, tell))
    return _Found(seen, setting, cards, Identity(oracle.digest, stages), stages[0] if stages else None, "")


def same_questions(old: Run, new: Run) -> dict[str, tuple[int, ...]]:
    """The earlier run's answers, of items that are asked the very same now."""
    before = {item.name: item for item in old.workload.items}
    answers = by_another(old).answers
    same = {item.name for item in new.workload.items if before.get(item.name) == item}
    return {name: tokens for name, tokens in answers.items() if name in same}


async def _margins(
    server: BenchServer, stages: tuple[StageIdentity, ...], old: Run, tell: Progress
) -> dict[Divergence, Margin]:
    prompts = {item.name: item.prompt for item in suite_items()}
    answers = by_another(old).answers
    found: dict[Divergence, Margin] = {}
    for one in open_questions(stages):
        if one.oracle_token is not None and one.token is not None:
            tell(f"asking for the margin of {one.item} at token {one.position}")
            shared = answers[one.item][: one.position]
            found[one] = await server.margin(prompts[one.item], shared, one.oracle_token, one.token)
    return found


async def _kept(facts: _Facts, found: _Found, start: Gate, environment: Environment | None, began: float) -> Stored:
    """All gates, and the record of them."""
    seen, setting = found.seen, found.setting
    digest = _digest(environment)
    known = None if environment is None else digest
    configuration = replace(setting.configuration, environment_digest=known)
    setting = replace(setting, configuration=configuration)
    found = replace(found, setting=setting)
    unjudged = _record(facts.asked, began, Qualification(facts.profile, digest, ()), environment, found)
    passed = (
        start,
        gates.chat(facts.wanted.question, seen.chat),
        gates.tools(seen.tools, named=seen.named),
        gates.long_request(seen.long),
        gates.identity(found.stage, _unanswered(seen.run), nothing=found.nothing, accepted=facts.wanted.accepted),
        gates.image(seen.image),
        gates.soak(seen.soak, setting),
        gates.memory(setting, found.cards, facts.wanted.headroom),
        gates.undisturbed(judge(unjudged), seen.first, seen.last),
    )
    given = Qualification(facts.profile, digest, passed)
    record = _record(facts.asked, began, given, environment, found)
    return await asyncio.to_thread(shelf.write, facts.asked.place, record)


def _unanswered(run: Run) -> int:
    return sum(bool(one.problem) or one.ended is None for stage in run.stages for one in stage.requests)


def _record(
    asked: Asked,
    began: float,
    given: Qualification,
    environment: Environment | None,
    found: _Found | None,
) -> Record:
    return Record(
        arcops_record=FORMAT,
        kind="qualification",
        arcops=__version__,
        began=began,
        ended=max(began, time.time()),
        command=asked.command,
        note=asked.note,
        run=None if found is None else found.seen.run,
        setting=None if found is None else found.setting,
        identity=None if found is None else found.identity,
        soak=None if found is None else found.seen.soak,
        environment=environment,
        qualification=given,
    )


async def _environment(paths: Paths, launch_id: str, launch: Launch) -> Environment | None:
    """Of this launch, as the daemon recorded it: so both have the same digest. Else as it is read here; None where it
    cannot be."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _RECORDING
    while loop.time() < until:
        try:
            with_daemon = await asyncio.to_thread(_of_daemon, paths.socket, launch_id)
        except ArcopsError:
            break
        if with_daemon is not None:
            return with_daemon
        await asyncio.sleep(fresh.LOOK_EVERY)
    try:
        return await asyncio.to_thread(gather, launch, paths)
    except ArcopsError:
        return None


def _of_daemon(socket: Path, launch_id: str) -> Environment | None:
    """None while it is being recorded. Raises ArcopsError: it cannot be, or something else runs."""
    with Client(socket) as client:
        page = client.environment()
    info = page.info
    if info is None or info.launch_id != launch_id:
        raise ArcopsError("another launch runs")
    if info.digest is None and info.unread:
        raise ArcopsError("the daemon could not record the environment")
    found = page.read()
    return found if found is not None and digest_of(found) == info.digest else None


def _digest(environment: Environment | None) -> str:
    return UNKNOWN_ENVIRONMENT if environment is None else digest_of(environment)


def _diagnosis(socket: Path) -> str:
    """What the daemon has to say of the order that failed last."""
    try:
        with Client(socket) as client:
            settled = client.status().settled
    except ArcopsError:
        return ""
    failed = [one for one in settled if one.exit_code in _FAILED_STARTS]
    return max(failed, key=lambda one: one.order_id).evidence if failed else ""


def _launch(profile: str, paths: Paths) -> Launch:
    """Raises ArcopsError: no such profile, or one that is no good."""
    return Config.load(instance=paths.instance).launch(profile)


def _wanted(asked: Asked, launch: Launch | None) -> Wanted:
    own = None if launch is None or launch.qualification.image is None else Path(launch.qualification.image)
    path = asked.image or own
    return wanted_of(
        launch,
        question=asked.question,
        long_tokens=asked.long_tokens,
        headroom=asked.headroom,
        soak=asked.soak,
        image=None if path is None else picture(path),
        accepted=asked.accepted,
    )
