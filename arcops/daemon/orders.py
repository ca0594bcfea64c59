"""From what a client asks to an order: all that can be checked is checked before the running backend is touched."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from arcops.config import Config
from arcops.core.admit import Refusal, Request, Verb, to_restart
from arcops.core.decide.sight import CLEAR, Sight, obstacle, remarks
from arcops.core.errors import ArcopsError, BlockedError, ExitCode, InvalidProfileError
from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading
from arcops.core.state import Order
from arcops.core.world import Card, Holder
from arcops.daemon.act import Actor
from arcops.daemon.aside import for_a_client
from arcops.daemon.environment_words import admitted
from arcops.daemon.environments import Environments
from arcops.daemon.journal import Journal
from arcops.daemon.looks import Looks
from arcops.daemon.loop import Loop
from arcops.daemon.plans import Planned, Plans, forced, judged
from arcops.machine import launch_folder, lock
from arcops.wire import RestartRequest, StopRequest, SwitchRequest

GLANCE_AGAIN = 0.5
"""Seconds between two looks at what may be gone in a moment."""
LONGEST_DRAIN = 86_400.0
"""Seconds; whoever asks for more has made a typing error."""

_log = structlog.get_logger(__name__)


async def _stays() -> bool:
    return False


class Orders:
    """Resolves, checks and submits. It changes nothing by itself."""

    def __init__(
        self,
        instance: str,
        loop: Loop,
        actor: Actor,
        looks: Looks,
        env: Mapping[str, str],
        plans: Plans,
        journal: Journal,
        environments: Environments,
    ) -> None:
        self._instance = instance
        self._loop = loop
        self._actor = actor
        self._looks = looks
        self._env = env
        self._plans = plans
        self._journal = journal
        self._environments = environments

    async def switch(
        self, request: SwitchRequest, gone: Callable[[], Awaitable[bool]] = _stays
    ) -> tuple[Order | str, tuple[str, ...]]:
        """Raises ArcopsError: 6 for a bad profile, 5 where card or port are taken, or it does not fit, or is to be
        qualified and is not, 9 for a wedged card, 4 when busy. `gone`: whether whoever asked has hung up."""
        check_drain(request.drain)
        launch, fallback = await self.resolve(request.profile)
        # First, for it may take minutes: what else is checked is then as it is when the order is taken.
        qualified = await self._qualified(launch, gone) if request.qualified else ()
        notes = await self._check_room(launch)
        planned = await self._planned(launch)
        memory = () if planned is None else judged(launch, planned, force=request.force)
        steps = self.plan(launch, fallback, request)
        plan = (*steps, *qualified, *memory, *(f"note: {note}" for note in notes))
        if request.dry_run:
            return "dry run: nothing was done", plan
        order = await self._loop.submit(
            Request(Verb.SWITCH, launch, request.drain, request.replace, request.rollback, fallback)
        )
        self._tell_forced(order, launch, planned)
        return order, plan

    async def stop(self, request: StopRequest) -> Order | str:
        check_drain(request.drain)
        return await self._loop.submit(Request(Verb.STOP, drain=request.drain))

    async def restart(self, request: RestartRequest) -> tuple[Order | str, tuple[str, ...]]:
        """The ordered profile anew, as its file says now; the order that is under way does not count."""
        check_drain(request.drain)
        profile = to_restart(self._loop.state)
        if isinstance(profile, Refusal):
            raise ArcopsError(profile.reason, hint=profile.hint, exit_code=profile.exit_code)
        launch, fallback = await self.resolve(profile)
        await self._check_room(launch)
        planned = await self._planned(launch)
        if planned is not None:
            judged(launch, planned, force=request.force)
        asked = Request(
            Verb.RESTART, launch, request.drain, request.replace, fallback=fallback, fresh_caches=request.fresh_caches
        )
        order = await self._loop.submit(asked)
        self._tell_forced(order, launch, planned)
        return order, fresh_caches(launch) if request.fresh_caches else ()

    async def _qualified(self, launch: Launch, gone: Callable[[], Awaitable[bool]]) -> tuple[str, ...]:
        """What is to be said of a launch that has passed its gates in the environment that it would run in.

        Raises ArcopsError where it has not, or that cannot be told.
        """
        told = admitted(launch.profile, await self._environments.standing_of(launch))
        if await gone():
            raise ArcopsError("whoever gave the order has gone meanwhile", hint="give it again, and wait")
        return told

    async def resolve(self, profile: str) -> tuple[Launch, Launch | None]:
        """The launch of a profile as its file says now, with its setup script run, and that of its `on_failure`.

        Raises ArcopsError.
        """
        launch = await self._launch(profile)
        await self._actor.setups.run(launch)
        if launch.on_failure is None:
            return launch, None
        try:
            return launch, await self._launch(launch.on_failure)
        except ArcopsError as error:
            raise InvalidProfileError(f"profile {profile}: on_failure: {error.message}", hint=error.hint) from None

    async def _launch(self, profile: str) -> Launch:
        return await for_a_client(lambda: Config.load(self._env, instance=self._instance).launch(profile))

    async def restored(self, order: Order) -> Order:
        """The standing order with its profiles as they are now; with its problem where what is to run cannot be read.

        Of the two profiles, what is ordered and what stands in for it, one may be broken while the other runs.
        """
        launch = await self._read(order.profile or "")
        if isinstance(launch, str):
            read = replace(order, resolving=False, problem=launch)
        else:
            read = replace(order, resolving=False, launch=launch)
        name = order.stand_in.profile if order.stand_in is not None else None
        if name is None and read.launch is not None:
            name = read.launch.on_failure
        if name is None:
            return read
        fallback = await self._read(name)
        if isinstance(fallback, Launch):
            return replace(read, fallback=fallback)
        _log.warning("on_failure", profile=order.profile, problem=fallback)
        if order.stand_in is None:
            return replace(read, unguarded=f"on_failure of {order.profile} cannot stand in: {fallback}")
        return replace(read, problem=fallback)

    async def _read(self, profile: str) -> Launch | str:
        """A profile's launch, or in words why there is none now."""
        try:
            return await self._launch(profile)
        except ArcopsError as error:
            return error.message
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a file, the supervisor has a backend to watch
            _log.exception("profile", profile=profile)
            return f"profile {profile} cannot be read: {error}"

    async def _check_room(self, launch: Launch) -> tuple[str, ...]:
        """Lock, port and cards, as far as our own backend does not hold them itself. Raises ArcopsError.

        Returns what could not be seen and is not in the way all the same, a sentence each.
        """
        ours = self._actor.ours
        held = set(self._actor.locks.held)
        foreign = await for_a_client(_foreign_holders, [path for path in launch.locks if path not in held], ours)
        if foreign:
            raise BlockedError("; ".join(map(str, foreign)), hint="stop that one first, then try again")
        clock = asyncio.get_running_loop().time
        began = clock()
        found, card = await self._glance(launch)
        while found.words and clock() - began < found.grace:
            # Memory of somebody who has just ended, perhaps: it comes back in a moment.
            await asyncio.sleep(GLANCE_AGAIN)
            found, card = await self._glance(launch)
        if found.words:
            raise ArcopsError(found.words, hint=f"{found.todo}, or choose another port or card", exit_code=found.code)
        return remarks(card)

    async def _glance(self, launch: Launch) -> tuple[Sight, Reading[Card]]:
        """What is in the way of a launch now, and the look at its cards."""
        live = self._actor.live
        port, card = await self._looks.glance(launch, self._actor.ours)
        if isinstance(port, Known) and live is not None and live.record.launch.port == launch.port:
            # Bound by our own backend, whether that shows yet or not; what it leaves behind is judged after its end.
            port = replace(port, value=replace(port.value, bindable=True))
        return obstacle(launch, port, card, min(port.at, card.at)) or CLEAR, card

    async def _planned(self, launch: Launch) -> Planned | str | None:
        """The plan of its memory, or why there is none; None where nothing is to be planned."""
        live = self._actor.live
        if not launch.cards or (live is not None and live.record.proven and live.record.launch == launch):
            # The machine's own memory is not planned; and what serves now is known to fit.
            return None
        return await self._plans.plan(launch)

    def _tell_forced(self, order: Order | str, launch: Launch, planned: Planned | str | None) -> None:
        words = forced(launch, planned)
        if words is not None and isinstance(order, Order):
            self._journal.event("plan", self._loop.state, f"order {order.id}: {words}")

    def plan(self, launch: Launch, fallback: Launch | None, request: SwitchRequest) -> tuple[str, ...]:
        """What a switch would do, a sentence a step."""
        live = self._actor.live
        steps: list[str] = []
        if live is not None:
            limit = live.record.launch.limits.drain if request.drain is None else request.drain
            steps.append(f"let open requests of {live.record.launch.profile} go on for up to {limit:.0f} s")
            steps.append(f"stop {live.record.launch.profile} (launch {live.record.launch_id}), wait for port and card")
        steps.append(f"start {launch.profile}: {Path(launch.argv[0]).name} on {launch.host}:{launch.port}")
        steps.append(f"check that it serves {launch.served_name}" + (" and answers" * launch.checks.asks_first))
        if live is not None and request.rollback:
            steps.append(f"go back to {live.record.launch.profile} if that fails")
        if fallback is not None:
            steps.append(f"start {fallback.profile} in its place if it fails for good later on (on_failure)")
        return tuple(steps)


def fresh_caches(launch: Launch) -> tuple[str, ...]:
    """What is to be said of a launch with fresh compile caches, in sentences: where it overrides its profile."""
    own = [name for name, _ in launch.environment if name in launch_folder.CACHES]
    words = f"{launch.profile} is started with empty compile caches, which go with that launch"
    if not own:
        return (words,)
    return (f"{words}; what the profile itself sets for {', '.join(own)} does not count then",)


def _foreign_holders(paths: Sequence[str], ours: Callable[[], frozenset[int]]) -> list[Holder]:
    """Who has these locks, our own processes excepted. Raises BlockedError when it cannot be known.

    Ours are asked for after the scan: a child that our backend forks meanwhile has inherited the lock.
    """
    try:
        holders = [holder for path in paths for holder in lock.holders_of(path)]
        mine = ours() if holders else frozenset[int]()
    except OSError as error:
        raise BlockedError(f"who holds {', '.join(paths)} cannot be read: {error.strerror}") from error
    return [one for one in holders if one.pid is None or (one.pid not in mine and one.pid != os.getpid())]


def check_drain(drain: float | None) -> None:
    """Raise ArcopsError unless this many seconds can be waited for open requests."""
    if drain is not None and not 0 <= drain <= LONGEST_DRAIN:
        raise ArcopsError(f"drain={drain:g} is not from 0 to {LONGEST_DRAIN:g} seconds", exit_code=ExitCode.USAGE)
