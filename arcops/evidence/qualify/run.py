"""Qualifies a profile: starts it, has it asked, keeps the record, and brings back what ran before."""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from arcops.bench.drive import Progress
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.environment import Environment
from arcops.core.evidence.qualification import Gate, Verdict
from arcops.core.launch import Launch
from arcops.evidence import fresh, shelf
from arcops.evidence.environment.gather import gather
from arcops.evidence.qualify import daemon
from arcops.evidence.qualify.before import Before, bring_back, look
from arcops.evidence.qualify.hold import Facts, hold
from arcops.evidence.qualify.keep import Started, kept, kept_failure
from arcops.evidence.qualify.seen import Mark, Wanted
from arcops.evidence.qualify.wanted import Asked, wanted_by
from arcops.evidence.shelf import Stored
from arcops.evidence.target import read_key, target_of

_REFUSED: Final = (ExitCode.BUSY, ExitCode.INVALID, ExitCode.USAGE)
"""The daemon has not touched anything."""
_NOT_ITS_FAULT: Final = (ExitCode.USAGE, ExitCode.NO_DAEMON)
"""What a profile cannot be blamed for: nothing is recorded, and a qualification of it stands."""


@dataclass(frozen=True, slots=True)
class Qualified:
    """What came of it."""

    stored: Stored
    unreturned: ArcopsError | None = None
    """Why what ran before does not run again; None where it does, or was not to."""


@dataclass(slots=True)
class _Order:
    """Ours, as soon as the daemon has it."""

    id: int | None = None
    given: float = field(default_factory=time.time)
    """Seconds since the epoch."""

    def taken(self, order_id: int) -> None:
        self.id = order_id


async def qualify(asked: Asked, paths: Paths, tell: Progress) -> Qualified:
    """Do it. Raises ArcopsError where it cannot even begin (an order is refused, say); what the profile does wrong is
    in the record, and what ran before is brought back after everything, this task's cancellation included."""
    shelf.prepare(asked.place)
    if asked.api_key_file is not None:
        await asyncio.to_thread(read_key, asked.api_key_file)
    if asked.url is not None:
        return Qualified(_told(await _bare(asked, paths, tell), tell))
    launch = await asyncio.to_thread(daemon.launch_of, asked.profile, paths)
    wanted = wanted_by(asked, launch)
    before = await asyncio.to_thread(look, paths.socket)
    if before.serving and before.profile == asked.profile:
        tell(f"{asked.profile} serves already, and is asked as it runs")
        return Qualified(_told(await _held(asked, wanted, launch, paths, tell, None), tell))
    return await _switched(asked, wanted, launch, before, paths, tell)


async def _switched(
    asked: Asked, wanted: Wanted, launch: Launch, before: Before, paths: Paths, tell: Progress
) -> Qualified:
    order = _Order()
    stays = before.profile == asked.profile
    try:
        stored = _told(await _started(asked, wanted, launch, order, paths, tell), tell)
    except BaseException as error:
        # After Ctrl-C as well: the order goes on without whoever gave it, and must not be what stays.
        if not stays and not (isinstance(error, ArcopsError) and error.exit_code in _REFUSED and order.id is None):
            unreturned = await _returned(paths.socket, before, order, asked.profile, tell)
            if unreturned is not None:
                raise _both(error, unreturned) from error
        raise
    given = stored.record.qualification
    if stays or (asked.keep and given is not None and given.qualified):
        return Qualified(stored)
    return Qualified(stored, await _returned(paths.socket, before, order, asked.profile, tell))


async def _returned(socket: Path, before: Before, order: _Order, profile: str, tell: Progress) -> ArcopsError | None:
    """Bring it back; why it does not come, where it does not. Being told once more to end does not keep it from that:
    only the second time it is not waited for any longer."""
    returning = asyncio.ensure_future(bring_back(socket, before, order.id, profile, tell))
    try:
        await _in_any_case(returning, tell)
    except ArcopsError as error:
        return error
    return None


async def _in_any_case(work: "asyncio.Future[None]", tell: Progress) -> None:
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        if not work.done():
            tell("what ran before is being brought back; Ctrl-C once more gives that up")
        try:
            await work
        except asyncio.CancelledError:
            tell("not waited for: `arcops status` shows what runs")
            raise
        raise


def _both(error: BaseException, unreturned: ArcopsError) -> ArcopsError:
    """The return that failed is what somebody has to see to; the reason for it is said with it."""
    why = f"; before that: {error.message}" if isinstance(error, ArcopsError) else ""
    return ArcopsError(f"{unreturned.message}{why}", hint=unreturned.hint, exit_code=unreturned.exit_code)


def _told(stored: Stored, tell: Progress) -> Stored:
    """Where the evidence is, before anything else can go wrong."""
    tell(f"record: {stored.path}")
    return stored


async def _started(asked: Asked, wanted: Wanted, launch: Launch, order: _Order, paths: Paths, tell: Progress) -> Stored:
    tell(f"switching to {asked.profile}")
    try:
        await fresh.change(paths.socket, asked.profile, taken=order.taken)
    except ArcopsError as error:
        if error.exit_code not in daemon.FAILED_STARTS:
            raise
        return await _failed(asked, launch, error, order.given, paths)
    return await _held(asked, wanted, launch, paths, tell, order)


async def _failed(asked: Asked, launch: Launch, error: ArcopsError, began: float, paths: Paths) -> Stored:
    """The record of a start that failed. No daemon has recorded its environment, so that it is read here."""
    evidence = await asyncio.to_thread(daemon.diagnosis, paths.socket)
    lines = tuple(line for line in (error.hint, *evidence.splitlines()) if line)
    start = Gate("start", Verdict.FAILED, error.message, lines, max(0.0, time.time() - began))
    environment: Environment | None
    try:
        environment = await asyncio.to_thread(gather, launch, paths)
    except ArcopsError:
        environment = None
    return await kept_failure(asked, Started(start, environment, began))


async def _held(
    asked: Asked, wanted: Wanted, launch: Launch, paths: Paths, tell: Progress, order: _Order | None
) -> Stored:
    """What serves, held to its gates. `order`: by which it was started; None where it ran already."""
    began = time.time() if order is None else order.given
    begun, ready_at = await asyncio.to_thread(_ours, paths.socket, asked.profile, order)
    try:
        target = await asyncio.to_thread(target_of, None, asked.api_key_file, paths)
        facts = Facts(asked, wanted, target, asked.profile, launch.argv, launch.cards, begun)
        found = await hold(facts, paths, tell)
    except ArcopsError as error:
        if error.exit_code in _NOT_ITS_FAULT:
            raise
        gone = ArcopsError(f"it came up, and could not be asked: {error.message}", hint=error.hint)
        return await _failed(asked, launch, gone, began, paths)
    tell("environment")
    environment = await daemon.environment_of(paths.socket, begun.launch_id or "", tell)
    return await kept(facts, found, Started(_start(ready_at, order), environment, began))


def _ours(socket: Path, profile: str, order: _Order | None) -> tuple[Mark, float | None]:
    """What runs is what was ordered, and nobody else has ordered anything since. Raises ArcopsError (4) where not: of
    what somebody else started in between nothing is to be said."""
    status = daemon.status_of(socket)
    begun = daemon.mark_in(status)
    backend = status.backend
    another = order is not None and order.id is not None and begun.order_id != order.id
    if another or (backend is not None and backend.profile != profile):
        ordered = status.order.standing_in or status.order.profile or "a stop"
        raise ArcopsError(
            f"another order came in between: {ordered}", hint="qualify again, undisturbed", exit_code=ExitCode.BUSY
        )
    return begun, None if backend is None else backend.ready_at


def _start(ready_at: float | None, order: _Order | None) -> Gate:
    since = "a time that is not known" if ready_at is None else f"{datetime.fromtimestamp(ready_at, UTC):%FT%TZ}"
    if order is None:
        words = f"serves since {since}: it ran already, and was not started anew for this"
        return Gate("start", Verdict.PASSED, words)
    took = max(0.0, (time.time() if ready_at is None else ready_at) - order.given)
    return Gate("start", Verdict.PASSED, f"serves since {since}, {took:.1f} s after the order", seconds=took)


async def _bare(asked: Asked, paths: Paths, tell: Progress) -> Stored:
    """A server at a URL: whose environment nobody knows."""
    try:
        launch = await asyncio.to_thread(daemon.launch_of, asked.profile, paths)
    except ArcopsError:
        launch = None
    wanted = wanted_by(asked, launch)
    target = await asyncio.to_thread(target_of, asked.url, asked.api_key_file, paths)
    began = time.time()
    # Not the profile's own name: nothing that is held to the profile may go by a server that arcops did not launch.
    facts = Facts(asked, wanted, target, f"{asked.profile} at {target.url}")
    found = await hold(facts, paths, tell)
    start = Gate("start", Verdict.PASSED, f"it serves at {target.url}; who started it how is not arcops's knowledge")
    return await kept(facts, found, Started(start, None, began))
