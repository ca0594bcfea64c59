"""The orders that can be given from the screen: asked about, given, and followed to their end."""

import os
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import work
from textual.app import App
from textual.binding import Binding, BindingType

from arcops import wire, words
from arcops.core.errors import ArcopsError
from arcops.tui import questions, themes
from arcops.tui.dialogs import ChooseProfile, Confirm
from arcops.tui.profiles import ProfileChoice
from arcops.tui.snapshot import Link, Snapshot
from arcops.tui.source import Source


class Ordering(App[None]):
    """An application that knows a source, and hands it orders."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "switch", "switch", tooltip="switch to another profile: choose, read what will happen, say yes"),
        Binding("x", "stop", "stop", tooltip="stop the backend; nothing runs until the next switch"),
        Binding("r", "restart", "restart", tooltip="restart the ordered profile, as its file says now"),
    ]

    def __init__(self, source: Source, load_profiles: Callable[[], Sequence[ProfileChoice]]) -> None:
        super().__init__(ansi_color=True if themes.without_colour(os.environ) else None)
        self._source, self.load_profiles = source, load_profiles
        self._orders: set[int] = set()
        """Given here, and not settled yet."""

    @property
    @abstractmethod
    def seen(self) -> Snapshot:
        """What is shown."""

    def tell_outcomes(self, snapshot: Snapshot) -> None:
        """What became of the orders that were given here."""
        if not self._orders or snapshot.status is None:
            return
        for outcome in snapshot.status.settled:
            if outcome.order_id in self._orders:
                self._orders.discard(outcome.order_id)
                self._say(outcome.summary, outcome.hint, bad=outcome.exit_code != 0)

    def _say(self, text: str, hint: str = "", *, bad: bool = False) -> None:
        hint = f"\nhint: {words.clean(hint)}" if hint else ""
        severity = "error" if bad else "information"
        self.notify(words.clean(text) + hint, severity=severity, markup=False, timeout=15 if bad else 5)

    @work(exclusive=True, group="order")
    async def action_switch(self) -> None:
        if not self._reachable():
            return
        status = self.seen.status
        current = None if status is None or status.backend is None else status.backend.profile
        profile = await self.push_screen_wait(ChooseProfile(self.load_profiles, current))
        if profile is not None:
            await self._switch(profile)

    @work(exclusive=True, group="order")
    async def switch_to(self, profile: str) -> None:
        """Switch to this profile, after a yes."""
        if self._reachable():
            await self._switch(profile)

    async def _switch(self, profile: str) -> None:
        dry = wire.SwitchRequest(profile=profile, dry_run=True)
        plan = await self._accepted(self._source.switch(dry))
        if plan is None:
            return
        usual = await self._usual(profile)
        if await self._agreed(questions.of_switch(profile, self.seen, plan, usual)):
            await self._order(self._source.switch(wire.SwitchRequest(profile=profile)))

    async def _usual(self, profile: str) -> float | None:
        """Seconds that the profile's load usually takes; None where nobody knows."""
        try:
            told = await self._source.on_demand.profiles()
        except ArcopsError:
            return None
        return next((past.usual for past in told.past if past.name == profile), None)

    @work(exclusive=True, group="order")
    async def action_stop(self) -> None:
        if self._reachable() and await self._agreed(questions.of_stop(self.seen)):
            await self._order(self._source.stop(wire.StopRequest()))

    @work(exclusive=True, group="order")
    async def action_restart(self) -> None:
        if self._reachable() and await self._agreed(questions.of_restart(self.seen)):
            await self._order(self._source.restart(wire.RestartRequest()))

    def _reachable(self) -> bool:
        if self.seen.link is Link.LIVE:
            return True
        self._say(self.seen.problem or "still connecting to the daemon", self.seen.hint, bad=True)
        return False

    async def _agreed(self, question: questions.Question) -> bool:
        return await self.push_screen_wait(Confirm(question))

    async def _accepted(self, answer: Awaitable[wire.Accepted]) -> wire.Accepted | None:
        """The daemon's answer; a refusal is shown, and gives None."""
        try:
            return await answer
        except ArcopsError as error:
            self._say(error.message, error.hint, bad=True)
            return None

    async def _order(self, answer: Awaitable[wire.Accepted]) -> None:
        accepted = await self._accepted(answer)
        if accepted is None:
            return
        if accepted.order_id is not None:
            self._orders.add(accepted.order_id)
        self._say(accepted.done or f"accepted as order {accepted.order_id}")
