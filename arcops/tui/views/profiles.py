"""All profiles: which can be used, how their last starts went, and what the selected one does differently."""

import asyncio
import shlex
from collections.abc import Callable, Sequence

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, VerticalScroll
from textual.widgets import OptionList
from textual.widgets.option_list import Option
from textual.worker import Worker

from arcops import wire, words
from arcops.core.errors import ArcopsError
from arcops.tui.ink import Lines, content, plain, rule
from arcops.tui.panels import profiles as panel
from arcops.tui.panels.base import Panel, Room
from arcops.tui.panels.plan import Answer
from arcops.tui.profiles import ProfileChoice
from arcops.tui.snapshot import Link, Snapshot
from arcops.tui.source import Source
from arcops.tui.views.base import SwitchWanted, View

Load = Callable[[], Sequence[ProfileChoice]]

RESTS = 0.25
"""Seconds that a profile is selected before its plan is read: that is a process of its own."""


class _Head(Panel):
    """The heading, and the columns' titles or what is in their place."""

    def __init__(self) -> None:
        super().__init__()
        self.remark = ""
        self.names = 0

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        del snapshot
        heading = rule("Profiles", room.width)
        if self.remark:
            return (heading, *((plain(text),) for text in words.wrapped(self.remark, room.width, most=6)))
        return (heading, panel.header(self.names, room.width))


class _Details(Panel):
    """The selected profile."""

    def __init__(self) -> None:
        super().__init__()
        self.choice: ProfileChoice | None = None
        self.known = panel.Known(0.0)
        self.memory: Answer | None = None

    def lines(self, snapshot: Snapshot, room: Room) -> Lines:
        del snapshot
        if self.choice is None:
            return ()
        story = panel.details(self.choice, self.known, room.width, self.memory)
        return (rule(words.clean(self.choice.name), room.width), *story)


class _List(OptionList):
    """Rows of words; enter is an order, which the application asks about first."""

    BINDINGS = [  # noqa: RUF012 - as in Widget
        Binding(
            "enter",
            "select",
            "switch to it",
            key_display="enter",
            tooltip="switch to the selected profile: says what will happen first",
        ),
        Binding("k", "cursor_up", "up", show=False),
        Binding("j", "cursor_down", "down", show=False),
        Binding("g", "first", "first", show=False),
        Binding("G", "last", "last", show=False),
    ]

    def on_click(self, event: events.Click) -> None:
        """The first click on a row selects it: only one on what is selected is an order."""
        clicked: object = event.style.meta.get("option")
        if isinstance(clicked, int) and clicked != self.highlighted:
            self.highlighted = clicked
            event.prevent_default()


class Profiles(View):
    """The list, and the selected one's story beside or below it."""

    NAME = "profiles"
    BINDINGS = [  # noqa: RUF012 - as in Widget
        Binding("u", "update", "read anew", tooltip="read the profiles' files anew"),
        Binding("left_square_bracket", "scroll(-1)", "details up", show=False, key_display="["),
        Binding("right_square_bracket", "scroll(1)", "details down", show=False, key_display="]"),
    ]

    def __init__(self, source: Source, load: Load) -> None:
        super().__init__(id=self.NAME)
        self._source, self._load = source, load
        self._choices: tuple[ProfileChoice, ...] = ()
        self._known = panel.Known(0.0)
        self._shown: Snapshot | None = None
        self._asked_about: object = None
        self._reading: Worker[None] | None = None
        self._asking: Worker[None] | None = None
        self._planning: Worker[None] | None = None
        self._planned: str | None = None
        """The profile whose plan is read."""
        self._plans: dict[str, Answer] = {}
        self._head, self._details, self._list = _Head(), _Details(), _List(markup=False)

    def compose(self) -> ComposeResult:
        with Container(classes="body"):
            with Container(classes="list"):
                yield self._head
                yield self._list
            with VerticalScroll(classes="details", can_focus=False):
                yield self._details

    def opened(self) -> None:
        super().opened()
        self._remark(self._head.remark)
        self.action_update()

    def closed(self) -> None:
        for worker in (self._reading, self._asking, self._planning):
            if worker is not None:
                worker.cancel()
        self._planned = None

    def show(self, snapshot: Snapshot) -> None:
        self._shown = snapshot
        status = snapshot.status
        about = None if status is None or snapshot.link is not Link.LIVE else _about(status)
        if about != self._asked_about:
            self._asked_about = about
            self._asking = self.run_worker(self._ask, exclusive=True, group="ask")
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def action_update(self) -> None:
        """Read the files anew; what they take is looked at anew as well."""
        self._plans.clear()
        self._planned = None
        self._reading = self.run_worker(self._read, exclusive=True, group="read")
        self._asking = self.run_worker(self._ask, exclusive=True, group="ask")

    def action_scroll(self, pages: int) -> None:
        """The selected profile's story, half a page on or back."""
        room = self.query_one(VerticalScroll)
        room.scroll_relative(y=pages * max(1, room.size.height // 2), animate=False)

    async def _read(self) -> None:
        self._remark("reading the profiles…" if not self._choices else "")
        selected = self._selected()
        try:
            self._choices = tuple(await asyncio.to_thread(self._load))
        except ArcopsError as error:
            self._choices = ()
            self._remark("; ".join(filter(None, (error.message, error.hint))))
        else:
            self._remark("" if self._choices else "there are no profiles: see `arcops init`")
        self._fill(selected)

    async def _ask(self) -> None:
        """The daemon's word, where there is a daemon."""
        try:
            told, silence = await self._source.on_demand.profiles(), ""
        except ArcopsError as error:
            told, silence = None, error.message
        self._known = _known(self._shown, told, silence)
        self._draw()

    def _plan(self, choice: ProfileChoice | None) -> Answer | None:
        """What is known of the selected profile's memory; asks for it where that is nothing yet."""
        if choice is None or choice.planned is None:
            return None
        if choice.name not in self._plans and self._planned != choice.name:
            self._planned = choice.name
            self._planning = self.run_worker(self._read_plan(choice.name), exclusive=True, group="plan")
        return self._plans.get(choice.name, Answer())

    async def _read_plan(self, name: str) -> None:
        await asyncio.sleep(RESTS)
        try:
            answer = Answer(await self._source.on_demand.plan(name))
        except ArcopsError as error:
            answer = Answer(problem="; ".join(filter(None, (error.message, error.hint))))
        if self._planned == name:
            self._plans[name], self._planned = answer, None
            self._draw()

    def _remark(self, text: str) -> None:
        self._head.remark = text
        # What is not shown has no focus; the view itself has its keys all the same.
        focused = self.has_focus or self._list.has_focus
        self._list.display = not text
        if focused:
            (self if text else self._list).focus()
        if self._shown is not None:
            self._head.show(self._shown)

    def _fill(self, selected: ProfileChoice | None) -> None:
        """The list anew, with the profile selected that was."""
        self._list.clear_options()
        self._list.add_options([Option("", id=f"p{number}") for number in range(len(self._choices))])
        names = [choice.name for choice in self._choices]
        wanted = selected.name if selected is not None else self._known.running or self._known.ordered
        self._list.highlighted = names.index(wanted) if wanted in names else (0 if names else None)
        self._draw()

    def _selected(self) -> ProfileChoice | None:
        at = self._list.highlighted
        return None if at is None or at >= len(self._choices) else self._choices[at]

    def _draw(self) -> None:
        """Everything that may look different now."""
        if self._shown is None or not self.is_mounted:
            return
        self._known = _known(self._shown, self._known.told, self._known.silence)
        width = self._list.scrollable_content_region.width or self._head.content_size.width
        self._head.names = panel.name_column(self._choices, width)
        for number, choice in enumerate(self._choices if self._list.option_count == len(self._choices) else ()):
            line = content((panel.row(choice, self._known, self._head.names, width),))
            if self._list.get_option_at_index(number).prompt != line:
                self._list.replace_option_prompt_at_index(number, line)
        self._details.choice, self._details.known = self._selected(), self._known
        self._details.memory = self._plan(self._details.choice)
        self._head.show(self._shown)
        self._details.show(self._shown)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._draw()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        choice = self._selected()
        if choice is not None:
            self.post_message(SwitchWanted(choice.name))

    def copyable(self) -> Sequence[tuple[str, str]]:
        choice = self._selected()
        if choice is None:
            return ()
        command = () if choice.planned is None else (("command", shlex.join(choice.planned.argv)),)
        return (("profile", choice.name), *((("problem", choice.problem),) if choice.problem else ()), *command)


def _about(status: wire.Status) -> object:
    """What the daemon's word of the profiles depends on."""
    return (status.phase, status.order.id, None if status.backend is None else status.backend.launch_id)


def _known(snapshot: Snapshot | None, told: wire.Profiles | None, silence: str) -> panel.Known:
    status = None if snapshot is None or snapshot.link is not Link.LIVE else snapshot.status
    if snapshot is None or status is None:
        # What the daemon said before it went is not how things stand.
        return panel.Known(0.0, silence=silence or "the daemon does not answer")
    running = None if status.backend is None else status.backend.profile
    ordered = status.order.profile if status.order.goal == "run" else None
    return panel.Known(snapshot.now, running, ordered, told, silence)
