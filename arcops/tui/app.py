"""The application: wires the feed to the panels, and the keys to what they do. The panels and the feed do the work."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from arcops import words
from arcops.core.errors import ArcopsError
from arcops.tui import copying, exporting, profiles, themes, tidying
from arcops.tui.dialogs import ChooseCopy, Help, SaveAs
from arcops.tui.keys import VIEW_ACTION, keys_of
from arcops.tui.live.feed import Feed
from arcops.tui.ordering import Ordering
from arcops.tui.panels.base import Panel
from arcops.tui.panels.keys import KeysPanel
from arcops.tui.panels.notice import NoticePanel
from arcops.tui.panels.start import StartPanel
from arcops.tui.panels.status import StatusPanel, TitlePanel
from arcops.tui.panels.tabs import TabsPanel
from arcops.tui.snapshot import Snapshot
from arcops.tui.source import Source
from arcops.tui.tidying import Tidying
from arcops.tui.views import views
from arcops.tui.views.base import SwitchWanted, View

if TYPE_CHECKING:
    from textual.command import Provider

WINDOWS = (60.0, 300.0, 3600.0)
"""Seconds that rates and latencies may be taken over."""


class Fresh(Message):
    """There is a new snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot


def _key_commands() -> "type[Provider]":
    from arcops.tui.palette import KeyCommands

    return KeyCommands


def _switch_commands() -> "type[Provider]":
    from arcops.tui.palette import SwitchCommands

    return SwitchCommands


class OperatorScreen(Ordering):
    """One screen, fed by snapshots."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMMANDS = {_key_commands, _switch_commands}  # noqa: RUF012 - as in App
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-tiny"), (64, "-narrow"), (120, "-wide")]  # noqa: RUF012 - as in App
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "window", "window", tooltip="take rates and latencies over the last 1, 5 or 60 minutes"),
        Binding("c,y", "copy", "copy", show=False, tooltip="copy a value that is on the screen"),
        Binding("S", "export_screen", "export screen", show=False, tooltip="write the screen to a file, as SVG"),
        Binding("H", "export_history", "export history", show=False, tooltip="write the numbers' history, as CSV"),
        Binding("t", "theme", "theme", show=False, tooltip="dark, light, or the terminal's own colours"),
        Binding("ctrl+p", "command_palette", "commands", show=False, tooltip="find a command by its name"),
        Binding("question_mark", "help", "help", key_display="?", tooltip="this help"),
        Binding("q", "quit", "quit", tooltip="leave; the backend goes on"),
        Binding("ctrl+c,ctrl+q", "quit", "quit", show=False, priority=True),
    ]
    windows = WINDOWS

    def __init__(
        self,
        source: Source,
        load_profiles: Callable[[], Sequence[profiles.ProfileChoice]],
        *,
        remembered: Path | None = None,
    ) -> None:
        """`remembered`: the file that keeps the theme; None keeps nothing."""
        super().__init__(source, load_profiles)
        self.animation_level = "none"
        self._choice = themes.Choice(remembered)
        self._theme_name = themes.first_theme(self, self._choice.read())
        self.theme = themes.THEMES[self._theme_name]
        self._seen = source.snapshot()
        self._tidying: Tidying | None = None
        self._views = views(source, load_profiles)
        self._open: dict[str, View] = {}
        """The views that were shown so far, by name."""
        self._current = self._views[0].name
        self._tabs = TabsPanel([entry.name for entry in self._views], self._current)
        self._standing = (StatusPanel(), NoticePanel())
        self._head: tuple[Panel, ...] = (TitlePanel(), *self._standing, StartPanel(), self._tabs)
        self._keys = KeysPanel()
        for number, entry in enumerate(self._views, start=1):
            self.bind(str(number), f"{VIEW_ACTION}{number})", description=entry.name, show=False)

    def tidy(self, by: Tidying) -> None:
        """Have garbage collected while nobody waits. Only for a process that is this screen alone."""
        self._tidying = by
        by.begin()

    def compose(self) -> ComposeResult:
        yield from self._head
        first = self._open[self._current] = self._views[0].make()
        with ContentSwitcher(initial=first.id):
            yield first
        yield self._keys

    def on_mount(self) -> None:
        main = self.screen_stack[0]
        main.bindings_updated_signal.subscribe(self._keys, self._bindings_changed)  # pyright: ignore[reportUnknownMemberType] - a screen's result type is open there
        self._show(self._seen)
        self._open[self._current].opened()
        self.run_worker(self._source.run(self._post))
        if self._tidying is not None:
            self.set_interval(tidying.EVERY, self._tidying.look)

    async def on_event(self, event: events.Event) -> None:
        if self._tidying is not None and isinstance(event, events.InputEvent):
            self._tidying.pressed()
        await super().on_event(event)

    def _bindings_changed(self, screen: Screen[object]) -> None:
        self._keys.tell(keys_of(self, screen))

    def on_keys_panel_pressed(self, message: KeysPanel.Pressed) -> None:
        self.simulate_key(message.key)

    def _post(self, snapshot: Snapshot) -> None:
        self.post_message(Fresh(snapshot))

    def on_fresh(self, message: Fresh) -> None:
        before, self._seen = self._seen, message.snapshot
        if self._seen.adds_only_log(before):
            if self._open[self._current].SHOWS_LOG:
                self._open[self._current].show(self._seen)
        else:
            self._show(self._seen)

    @property
    def seen(self) -> Snapshot:
        return self._seen

    def _show(self, snapshot: Snapshot) -> None:
        main = self.screen_stack[0]
        main.set_class(snapshot.stale, "-stale")
        main.set_class(snapshot.numbers_old, "-old-numbers")
        for panel in (*self._head, self._keys):
            panel.show(snapshot)
        self._open[self._current].show(snapshot)
        self.tell_outcomes(snapshot)

    # -- views --------------------------------------------------------------------------------------------------------
    async def action_view(self, key: int) -> None:
        """Show the view with this key."""
        await self._show_view(key - 1)

    async def on_tabs_panel_chosen(self, message: TabsPanel.Chosen) -> None:
        await self._show_view([entry.name for entry in self._views].index(message.name))

    async def _show_view(self, number: int) -> None:
        entry = self._views[number]
        if entry.name == self._current:
            return
        self._open[self._current].closed()
        switcher = self.screen_stack[0].query_one(ContentSwitcher)
        if entry.name not in self._open:
            self._open[entry.name] = entry.make()
            await switcher.add_content(self._open[entry.name])
            if self._tidying is not None:
                self._tidying.grown()
        self._current = switcher.current = entry.name
        self._tabs.mark(entry.name)
        for panel in self._standing:
            panel.brief = entry is not self._views[0]
            panel.show(self._seen)
        self._open[entry.name].show(self._seen)
        self._open[entry.name].opened()

    def on_switch_wanted(self, message: SwitchWanted) -> None:
        self.switch_to(message.profile)

    # -- how it looks -------------------------------------------------------------------------------------------------
    def action_window(self) -> None:
        """The next window."""
        now = self._source.snapshot().window
        self.look_through(WINDOWS[(WINDOWS.index(now) + 1) % len(WINDOWS)] if now in WINDOWS else WINDOWS[0])

    def look_through(self, window: float) -> None:
        """Take rates and latencies over the last `window` seconds."""
        self._source.look_through(window)

    def action_theme(self) -> None:
        """The next theme."""
        self.use_theme(themes.next_theme(self._theme_name))

    def use_theme(self, name: str) -> None:
        """Show this one of our themes from now on, and the next time."""
        why_not = themes.only_terminal(self)
        if why_not:
            self._say(why_not)
            return
        self._theme_name = name
        self.theme = themes.THEMES[name]
        self._choice.write(name)
        self._say(f"theme: {name}")

    def action_help(self) -> None:
        self.push_screen(Help(keys_of(self, self.screen), self._current, self.size.width))

    # -- what is taken away -------------------------------------------------------------------------------------------
    @work(exclusive=True, group="take")
    async def action_copy(self) -> None:
        """Choose a value that is on the screen, and hand it to the terminal's clipboard (OSC 52)."""
        found = (*self._open[self._current].copyable(), *copying.of_snapshot(self._seen))
        value = await self.push_screen_wait(ChooseCopy(found))
        if value is not None:
            self.copy_to_clipboard(value)
            self._say(f"copied: {value}")

    @work(exclusive=True, group="take")
    async def action_export_screen(self) -> None:
        """Write the screen as it is now."""
        picture = exporting.self_contained(self.export_screenshot(title=f"arcops {self._seen.instance}"))
        await self._write("Write the screen, as SVG", "screen", "svg", picture)

    @work(exclusive=True, group="take")
    async def action_export_history(self) -> None:
        """Write all the numbers that the daemon has kept."""
        try:
            table = await exporting.history(self._source.on_demand, self._seen.now)
        except ArcopsError as error:
            self._say(error.message, error.hint, bad=True)
            return
        await self._write("Write the numbers' history, as CSV", "history", "csv", table)

    async def _write(self, title: str, what: str, suffix: str, text: str) -> None:
        """Ask where to, and write."""
        name = exporting.proposed(self._seen.instance, what, suffix, time.time())
        typed = await self.push_screen_wait(SaveAs(title, name))
        if typed is None:
            return
        try:
            path = exporting.place(typed)
            await exporting.write(path, text)
        except ArcopsError as error:
            self._say(error.message, error.hint, bad=True)
        else:
            self._say(f"written: {path} ({words.count(len(text.encode()))} bytes)")


def run(socket: Path, instance: str) -> int:
    """Show the screen until the operator leaves; the exit code."""
    from arcops.config.paths import Paths

    themes.heed_no_color()
    remembered = Paths.of(instance).screen
    app = OperatorScreen(Feed(socket, instance), partial(profiles.configured, instance), remembered=remembered)
    app.tidy(Tidying())
    app.run()
    return app.return_code or 0
