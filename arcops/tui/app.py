"""The application: wires the feed to the panels, and the keys to orders. The panels and the feed do the work."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Protocol

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.widgets import Footer

from arcops import wire, words
from arcops.core.errors import ArcopsError
from arcops.tui import profiles, questions
from arcops.tui.dialogs import ChooseProfile, Confirm, Help
from arcops.tui.feed import Feed
from arcops.tui.panels.base import Panel
from arcops.tui.panels.latency import LatencyPanel
from arcops.tui.panels.log import LogPanel
from arcops.tui.panels.notice import NoticePanel
from arcops.tui.panels.rates import RatesPanel
from arcops.tui.panels.requests import RequestsPanel
from arcops.tui.panels.speculation import SpeculationPanel
from arcops.tui.panels.start import StartPanel
from arcops.tui.panels.status import StatusPanel, TitlePanel
from arcops.tui.snapshot import Link, Snapshot

WINDOWS = (60.0, 300.0, 3600.0)
"""Seconds that rates and latencies may be taken over."""


class Source(Protocol):
    """Where snapshots come from and orders go to: the feed, or a test's own."""

    async def run(self, post: Callable[[Snapshot], None]) -> None: ...
    def look_through(self, window: float) -> None: ...
    def snapshot(self) -> Snapshot: ...
    async def switch(self, request: wire.SwitchRequest) -> wire.Accepted: ...
    async def stop(self, request: wire.StopRequest) -> wire.Accepted: ...
    async def restart(self, request: wire.RestartRequest) -> wire.Accepted: ...


class Fresh(Message):
    """There is a new snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot


class OperatorScreen(App[None]):
    """One screen, fed by snapshots."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-tiny"), (64, "-narrow"), (120, "-wide")]  # noqa: RUF012 - as in App
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "switch", "switch"),
        Binding("x", "stop", "stop"),
        Binding("r", "restart", "restart"),
        Binding("w", "window", "window"),
        Binding("l", "log", "log"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, source: Source, load_profiles: Callable[[], Sequence[profiles.ProfileChoice]]) -> None:
        super().__init__()
        self.animation_level = "none"
        self._source, self._load_profiles = source, load_profiles
        self._seen = source.snapshot()
        self._orders: set[int] = set()
        """Given here, and not settled yet."""
        self._log_panel = LogPanel()
        self._panels: tuple[Panel, ...] = ()

    def compose(self) -> ComposeResult:
        left = (RequestsPanel(), RatesPanel())
        right = (LatencyPanel(), SpeculationPanel())
        above = (TitlePanel(), StatusPanel(), NoticePanel(), StartPanel())
        self._panels = (*above, *left, *right, self._log_panel)
        yield from above
        with Container(id="numbers", classes="numbers"):
            yield Vertical(*left, classes="column")
            yield Vertical(*right, classes="column")
        yield self._log_panel
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self._show(self._seen)
        self.run_worker(self._source.run(self._post))

    def _post(self, snapshot: Snapshot) -> None:
        self.post_message(Fresh(snapshot))

    def on_fresh(self, message: Fresh) -> None:
        before, self._seen = self._seen, message.snapshot
        if self._seen.adds_only_log(before):
            self._log_panel.show(self._seen)
        else:
            self._show(self._seen)

    def _show(self, snapshot: Snapshot) -> None:
        main = self.screen_stack[0]
        main.set_class(snapshot.stale, "-stale")
        main.set_class(snapshot.numbers_old, "-old-numbers")
        for panel in self._panels:
            panel.show(snapshot)
        self._tell_outcomes(snapshot)

    def _tell_outcomes(self, snapshot: Snapshot) -> None:
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

    def action_window(self) -> None:
        """The next window."""
        self._source.look_through(WINDOWS[(WINDOWS.index(self._source.snapshot().window) + 1) % len(WINDOWS)])

    def action_log(self) -> None:
        """Large or small log."""
        self.screen_stack[0].set_class(not self._log_panel.large, "-large-log")
        self._log_panel.enlarge(not self._log_panel.large)

    def action_help(self) -> None:
        self.push_screen(Help())

    @work(exclusive=True, group="order")
    async def action_switch(self) -> None:
        if not self._reachable():
            return
        status = self._seen.status
        current = None if status is None or status.backend is None else status.backend.profile
        profile = await self.push_screen_wait(ChooseProfile(self._load_profiles, current))
        if profile is None:
            return
        dry = wire.SwitchRequest(profile=profile, dry_run=True)
        plan = await self._accepted(self._source.switch(dry))
        if plan is not None and await self._agreed(questions.of_switch(profile, self._seen, plan)):
            await self._order(self._source.switch(wire.SwitchRequest(profile=profile)))

    @work(exclusive=True, group="order")
    async def action_stop(self) -> None:
        if self._reachable() and await self._agreed(questions.of_stop(self._seen)):
            await self._order(self._source.stop(wire.StopRequest()))

    @work(exclusive=True, group="order")
    async def action_restart(self) -> None:
        if self._reachable() and await self._agreed(questions.of_restart(self._seen)):
            await self._order(self._source.restart(wire.RestartRequest()))

    def _reachable(self) -> bool:
        if self._seen.link is Link.LIVE:
            return True
        self._say(self._seen.problem or "still connecting to the daemon", self._seen.hint, bad=True)
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


def run(socket: Path, instance: str) -> int:
    """Show the screen until the operator leaves; the exit code."""
    app = OperatorScreen(Feed(socket, instance), partial(profiles.configured, instance))
    app.run()
    return app.return_code or 0
