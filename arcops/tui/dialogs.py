"""The dialogs: choose a profile, say yes or no, read about the keys."""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from arcops import words
from arcops.core.errors import ArcopsError
from arcops.tui.ink import Ink, Lines, content, cut, plain, quiet, strong
from arcops.tui.keys import Key, Keys
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
        Binding("up", "read(-1)", show=False),
        Binding("down", "read(1)", show=False),
    ]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.assemble((self._question.title, Ink.TITLE.value)), classes="words", markup=False)
            text = "\n".join(f"· {words.clean(sentence)}" for sentence in self._question.sentences)
            with VerticalScroll(classes="sentences", can_focus=False):
                yield Static(text, markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (n)", id="no")
                yield Button(Content(f"{self._question.yes} (y)"), id="yes", variant="warning")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_read(self, lines: int) -> None:
        """What will happen, where it does not fit."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


_READING = """\
p50  0.25–0.5 s  means: half of the requests took at most something
between the two. The server counts in steps, and no more is known.
A gap in a plot, and `unknown`, mean what they say: not zero.
Dimmed means old, and the line at the top says how old.
Leaving changes nothing: the backend goes on, this screen only looks."""


class Help(ModalScreen[None]):
    """What the keys do, and how to read the numbers."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,question_mark,q", "close", "close", show=False)]

    def __init__(self, keys: Keys, view: str, cells: int) -> None:
        """`cells`: how wide the screen is."""
        super().__init__()
        self._keys, self._view, self._cells = keys, view, cells

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog"):
            yield Static(
                content(help_lines(self._keys, self._view, min(68, self._cells - 12))), classes="words", markup=False
            )
            yield Static(_READING, classes="words", markup=False)
            yield Static(Content.assemble(("esc close · ↑ ↓ read on", Ink.QUIET.value)), classes="words", markup=False)

    def action_close(self) -> None:
        self.dismiss(None)


def help_lines(keys: Keys, view: str, width: int) -> Lines:
    """Every key that works now: those of the view that is shown, then those that work everywhere."""
    own = tuple(key for key in keys.own if not key.moves)
    others = tuple(key for key in keys.everywhere if key not in keys.views)
    column = max((len(_names(key)) for key in (*own, *others)), default=0) + 2
    moves = " ".join(name for key in keys.own if key.moves for name in key.keys)
    shown = "   ".join(f"{key.keys[0]} {key.label}" for key in keys.views)
    return (
        *_section(f"In {view}", own, column, width),
        *_row("move", moves, 6, width),
        *(((),) if own or moves else ()),
        *_section("Everywhere", others, column, width),
        *_row("views", shown, 7, width),
    )


def _section(title: str, keys: Sequence[Key], column: int, width: int) -> Lines:
    if not keys:
        return ()
    rows = (line for key in keys for line in _row(_names(key), key.sentence, column, width))
    return (((title, Ink.TITLE),), *rows)


def _row(name: str, text: str, column: int, width: int) -> Lines:
    first, *more = words.wrapped(text, max(20, width - column), most=4) or ("",)
    if not first:
        return ()
    return ((strong(name.ljust(column)), plain(first)), *((plain(" " * column + rest),) for rest in more))


_MOST_KEYS = 2
"""That are named for one thing: more are the same thing once more."""


def _names(key: Key) -> str:
    return " ".join(key.keys[:_MOST_KEYS])


class ChooseCopy(ModalScreen[str | None]):
    """Gives the value that is to be copied, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [_CLOSE]

    def __init__(self, found: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._found = tuple(found)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.assemble(("Copy what?", Ink.TITLE.value)), classes="words")
            yield OptionList(*(_copy_option(label, value) for label, value in self._found), markup=False)
            yield Static(Content.assemble(("enter copy · esc close", Ink.QUIET.value)), classes="words")

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._found[event.option_index][1])

    def action_close(self) -> None:
        self.dismiss(None)


def _copy_option(label: str, value: str) -> Option:
    text = words.clean(value.replace("\n", " "))
    return Option(content(((quiet(f"{label:<12} "), plain(cut(text, 55))),)))


class SaveAs(ModalScreen[str | None]):
    """Gives the path that was typed, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [_CLOSE]

    def __init__(self, what: str, proposed: str) -> None:
        super().__init__()
        self._what, self._proposed = what, proposed

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.assemble((self._what, Ink.TITLE.value)), classes="words")
            yield Input(self._proposed, select_on_focus=False)
            yield Static(Content.assemble(("enter write · esc close", Ink.QUIET.value)), classes="words")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)

    def action_close(self) -> None:
        self.dismiss(None)
