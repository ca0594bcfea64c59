"""The environment of each launch: recorded once it serves, and held against those in which its profile has qualified.

Everything that takes long, or memory, is done by a child process (`evidence/standing`) that nobody waits for; what it
cannot read is an absence, and harms nothing. A launch that a new supervisor takes up is not recorded again.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import structlog

from arcops import wire
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, BlockedError, BusyError
from arcops.core.launch import Launch
from arcops.core.phase import Phase
from arcops.daemon.act import Actor
from arcops.daemon.aside import Aside, for_a_client
from arcops.daemon.backend import LiveBackend
from arcops.daemon.environment_words import UNRECORDED, info_of, news, unknown
from arcops.daemon.journal import Journal
from arcops.daemon.loop import Loop
from arcops.evidence.standing.child import LARGEST_ANSWER, Question, Standing, asked, command, understood
from arcops.evidence.standing.kept import Marks, content_of, marks
from arcops.machine.child import Child, ChildError
from arcops.machine.record import LaunchRecord

KEPT_AS: Final = "environments"
MOST_LAUNCHES: Final = 32
"""Launches whose environments are remembered; the files of these stay."""
_SPARE: Final = 15.0
"""Seconds that a thread is given beyond its child's own time, to end it."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds."""

    after: float = 10.0
    """From a launch's serving to the reading of its environment: its first requests have the machine to themselves."""
    within: float = 900.0
    """For a reading at the lowest priority: gigabytes from a slow disk, beside a busy server."""
    hurried: float = 300.0
    """For one that an order waits for."""
    look: float = 10.0
    """Between two looks whether there are other records."""
    turn: float = 1.0
    """Between two looks whether the launch still lives."""
    answered: float = 20.0
    """That a client waits for a reading which is under way."""


class Ran(msgspec.Struct, frozen=True):
    """A launch, and the environment that it ran in."""

    launch_id: str
    profile: str
    digest: str


class UnreadError(Exception):
    """It could not be read; the words say why."""


class OverError(Exception):
    """The launch has ended, and nobody wants to know any more."""


class Environments:
    """Belongs to the loop; what it reads is read by child processes and on threads."""

    def __init__(
        self,
        paths: Paths,
        journal: Journal,
        loop: Loop,
        actor: Actor,
        pace: Pace | None = None,
        reader: Callable[[], Sequence[str]] = command,
    ) -> None:
        self._paths, self._journal, self._loop, self._actor = paths, journal, loop, actor
        self._pace = pace or Pace()
        self._reader = reader
        self._ran = _recalled(journal.kept(KEPT_AS))
        self._task: asyncio.Task[None] | None = None
        self._child, self._for_orders = Child(), Child()
        self._aside = Aside[Standing](self._pace.within + _SPARE, at_once=2)
        self._hurried = Aside[Standing](self._pace.hurried + _SPARE, at_once=1)
        self._disk = Aside[Marks](self._pace.within, at_once=1)
        self._found: wire.EnvironmentInfo | None = None
        self._wanted, self._news = asyncio.Event(), asyncio.Event()

    # -- from outside -------------------------------------------------------------------------------------------------
    def served(self, live: LiveBackend) -> None:
        """It serves for the first time."""
        self._let_go()
        self._wanted.clear()
        self._task = asyncio.create_task(self._follow(live.record))

    def begin(self) -> None:
        """A backend that an earlier supervisor saw serve is followed as well."""
        live = self._actor.live
        if live is not None and live.record.proven:
            self.served(live)

    def close(self) -> None:
        """What was begun tells nobody any more."""
        self._let_go()
        self._for_orders.end()

    def _let_go(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._child.end()

    def info(self) -> wire.EnvironmentInfo | None:
        """Of what runs; None where nothing does."""
        live = self._actor.live
        if live is None:
            return None
        launch_id = live.record.launch_id
        return self._found if self._found is not None and self._found.launch_id == launch_id else unknown(launch_id)

    async def page(self) -> wire.EnvironmentPage:
        """All of it; where it is about to be recorded, that is done now, and waited for. Raises ArcopsError."""
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pace.answered):
                while self._is_coming():
                    self._news.clear()
                    await self._news.wait()
        info = self.info()
        if info is None or info.digest is None:
            return wire.EnvironmentPage(info=info)
        content = await for_a_client(content_of, self._paths.environments, info.digest)
        return wire.EnvironmentPage(info=info, environment=msgspec.Raw(content))

    async def standing_of(self, launch: Launch) -> Standing:
        """How the environment stands that a launch would run in, read now. Raises ArcopsError."""
        question = Question(instance=self._paths.instance, profile=launch.profile, launch=launch, hurry=True)
        within = self._pace.hurried
        try:
            return await self._hurried.run(partial(self._ask, self._for_orders, question, within))
        except TimeoutError as error:
            raise BusyError(f"the environment of {launch.profile} cannot be read now: {error}") from error
        except (ChildError, ArcopsError, OSError) as error:
            why = error.message if isinstance(error, ArcopsError) else str(error)
            raise BlockedError(f"the environment of {launch.profile} cannot be read: {why}") from error

    # -- the course of a launch ---------------------------------------------------------------------------------------
    async def _follow(self, record: LaunchRecord) -> None:
        """Record it, then hold it against the records whenever they are others, as long as the launch lives."""
        try:
            standing = await self._first(record)
            seen = await self._records()
            while True:
                await asyncio.sleep(self._pace.look)
                self._check(record)
                now = await self._records()
                if now != seen:
                    seen = now
                    standing = await self._again(record, standing)
        except OverError:
            return
        except UnreadError as error:
            self._give_up(record, str(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours costs what is known of it, and nothing else
            _log.exception("environment", launch=record.launch_id)
            self._give_up(record, f"{type(error).__name__} {error}")

    async def _first(self, record: LaunchRecord) -> Standing:
        """What its environment is: by what is kept of it, else by the machine. Raises OverError, UnreadError."""
        profile, launch_id = record.launch.profile, record.launch_id
        known = next((ran for ran in self._ran if ran.launch_id == launch_id), None)
        if known is not None:
            with suppress(UnreadError):
                return self._take(launch_id, await self._heard(record, self._of_kept(known)))
        await self._quiet(record)
        before = next((ran for ran in reversed(self._ran) if ran.profile == profile and ran != known), None)
        standing = await self._heard(
            record,
            Question(
                instance=self._paths.instance,
                profile=profile,
                launch=record.launch,
                previous=None if before is None else before.digest,
                keep=True,
                named=tuple(ran.digest for ran in self._ran),
            ),
        )
        if known is None:
            self._remember(Ran(launch_id, profile, standing.digest))
            for words in news(profile, standing, None if before is None else (before.launch_id, before.digest)):
                self._tell(record, words)
        return self._take(launch_id, standing)

    async def _again(self, record: LaunchRecord, standing: Standing) -> Standing:
        """There are other records: its profile may have qualified, or not count as that any more."""
        profile = record.launch.profile
        try:
            now = await self._heard(record, self._of_kept(Ran(record.launch_id, profile, standing.digest)))
        except UnreadError as error:
            _log.warning("environment", launch=record.launch_id, unjudged=str(error))
            return standing
        if now.qualified is True and standing.qualified is False:
            self._tell(record, f"{profile} has qualified in the environment that it runs in")
        if now.qualified is False and standing.qualified is True:
            self._tell(record, f"{profile} does not count as qualified any more in the environment that it runs in")
        return self._take(record.launch_id, now)

    async def _quiet(self, record: LaunchRecord) -> None:
        """Until it has served for a while, or somebody wants to know. Raises OverError."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pace.after):
                await self._wanted.wait()
        self._check(record)
        while self._loop.state.phase is not Phase.SERVING:
            await asyncio.sleep(self._pace.turn)
            self._check(record)

    async def _heard(self, record: LaunchRecord, question: Question) -> Standing:
        """The answer, unless the launch ends before. Raises OverError, UnreadError."""
        asking = asyncio.ensure_future(self._aside.run(partial(self._ask, self._child, question, self._pace.within)))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=self._pace.turn)
                self._check(record)
            return asking.result()
        except (ChildError, ArcopsError, TimeoutError, OSError) as error:
            raise UnreadError(error.message if isinstance(error, ArcopsError) else str(error)) from error
        finally:
            if not asking.done():
                self._child.end()
                asking.cancel()

    def _ask(self, child: Child, question: Question, within: float) -> Standing:
        """On a thread, which the child dies with. Raises ChildError, ArcopsError, OSError."""
        return understood(child.ask(self._reader(), asked(question), within=within, most=LARGEST_ANSWER))

    def _of_kept(self, ran: Ran) -> Question:
        return Question(instance=self._paths.instance, profile=ran.profile, digest=ran.digest)

    def _check(self, record: LaunchRecord) -> None:
        live = self._actor.live
        if live is None or live.record.launch_id != record.launch_id:
            raise OverError

    # -- what is known ------------------------------------------------------------------------------------------------
    def _take(self, launch_id: str, standing: Standing) -> Standing:
        self._found = info_of(launch_id, standing)
        self._news.set()
        return standing

    def _give_up(self, record: LaunchRecord, why: str) -> None:
        words = f"{UNRECORDED}: {why}"
        self._found = unknown(record.launch_id, words)
        self._tell(record, words)
        self._news.set()

    def _tell(self, record: LaunchRecord, words: str) -> None:
        _log.info("environment", launch=record.launch_id, words=words)
        self._journal.event("environment", self._loop.state, words, record.launch_id)

    def _is_coming(self) -> bool:
        """Whether what runs is about to be known."""
        live = self._actor.live
        known = self._found is not None and live is not None and self._found.launch_id == live.record.launch_id
        return live is not None and live.record.proven and not known and self._task is not None

    def _remember(self, ran: Ran) -> None:
        self._ran = (*self._ran, ran)[-MOST_LAUNCHES:]
        self._journal.keep(KEPT_AS, msgspec.json.encode(self._ran).decode())

    async def _records(self) -> Marks | None:
        """What tells whether the folder of records is another than before; None where it cannot be read."""
        try:
            return await self._disk.run(partial(marks, self._paths.records))
        except (OSError, TimeoutError):
            return None


def _recalled(text: str | None) -> tuple[Ran, ...]:
    """What was kept; nothing where it was written by another version, or is damaged."""
    try:
        return () if text is None else msgspec.json.decode(text, type=tuple[Ran, ...])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
