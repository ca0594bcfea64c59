"""The dialogs: choose a profile, say yes or no, read about the keys."""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, OptionList, Static
from textual.widgets.option_list import Option

from arcops import words
from arcops.core.errors import ArcopsError
from arcops.tui.ink import Ink
from arcops.tui.profiles import ProfileChoice
from arcops.tui.questions import Question

_CLOSE = Binding("escape", "close", "Close", show=False)


class ChooseProfile(ModalScreen[str | None]):
    """Gives the chosen profile's name, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [_CLOSE]

    def __init__(self, load: Callable[[], Sequence[ProfileChoice]], current: str | None) -> None:
        super().__init__()
        self._load, self._current = load, current
        self._choices: dict[str, ProfileChoice] = {}

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.assemble(("Switch to which profile?", Ink.TITLE.value)), classes="words")
            yield OptionList(markup=False)
            yield Static("loading the profiles…", id="remark", classes="words", markup=False)
            yield Static(Content.assemble(("enter choose · esc close", Ink.QUIET.value)), classes="words")

    def on_mount(self) -> None:
        self.query_one(OptionList).display = False
        self.run_worker(self._fill(), exclusive=True)

    async def _fill(self) -> None:
        try:
            found = await asyncio.to_thread(self._load)
        except ArcopsError as error:
            self._remark(f"{words.clean(error.message)}\nhint: {words.clean(error.hint)}")
            return
        self._choices = {choice.name: choice for choice in found}
        if not self._choices:
            self._remark("there are no profiles: see `arcops init`")
            return
        options = self.query_one(OptionList)
        options.add_options([Option(self._label(choice), id=choice.name) for choice in found])
        options.display = True
        options.highlighted = options.get_option_index(self._current) if self._current in self._choices else 0
        options.focus()

    def _label(self, choice: ProfileChoice) -> str:
        remarks = ("  (now)" if choice.name == self._current else "", "  cannot be used" if choice.problem else "")
        return choice.name + "".join(remarks)

    def _remark(self, text: str) -> None:
        self.query_one("#remark", Static).update(text)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        choice = self._choices.get(event.option_id or "")
        if choice is not None:
            self._remark(words.clean((choice.problem or choice.description).replace("\n", " ")))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_close(self) -> None:
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """Says what will happen, and gives whether it shall."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "No", show=False),
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.assemble((self._question.title, Ink.TITLE.value)), classes="words", markup=False)
            text = "\n".join(f"· {words.clean(sentence)}" for sentence in self._question.sentences)
            yield Static(text, classes="words", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (n)", id="no")
                yield Button(Content(f"{self._question.yes} (y)"), id="yes", variant="warning")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


_HELP = """\
s  switch to another profile: choose, read what will happen, say yes
x  stop the backend; nothing runs until the next switch
r  restart the ordered profile, as its file says now
w  take rates and latencies over the last 1, 5 or 60 minutes
l  large log: whole lines; again for the numbers
q  leave. The backend goes on: this screen only looks at it

p50  0.25–0.5 s  means: half of the requests took at most something
between the two. The server counts in steps, and no more is known.
A gap in a plot, and `unknown`, mean what they say: not zero.
Dimmed means old, and the line at the top says how old."""


class Help(ModalScreen[None]):
    """What the keys do, and how to read the numbers."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,question_mark,q", "close", "Close", show=False)]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.assemble(("arcops tui", Ink.TITLE.value)), classes="words", markup=False)
            yield Static(_HELP, classes="words", markup=False)
            yield Static(Content.assemble(("esc close", Ink.QUIET.value)), classes="words", markup=False)

    def action_close(self) -> None:
        self.dismiss(None)
