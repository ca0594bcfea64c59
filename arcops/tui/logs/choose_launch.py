"""The dialog that asks whose log to read."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from arcops.tui.ink import Ink
from arcops.tui.logs.launches import LaunchChoice

NEWEST = ""
"""The answer that means: the newest launch, and those that come after it."""


class ChooseLaunch(ModalScreen[str | None]):
    """Gives a launch's id, `NEWEST`, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close", show=False)]

    def __init__(self, choices: Sequence[LaunchChoice], current: str | None) -> None:
        super().__init__()
        self._choices, self._current = choices, current

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.assemble(("The log of which launch?", Ink.TITLE.value)), classes="words")
            newest = Option("the newest, and those after it", id="newest")
            yield OptionList(newest, *(Option(choice.words) for choice in self._choices), markup=False)
            yield Static(Content.assemble(("enter choose · esc close", Ink.QUIET.value)), classes="words")

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        ids = [choice.launch_id for choice in self._choices]
        options.highlighted = ids.index(self._current) + 1 if self._current in ids else 0
        options.focus()

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        index = message.option_index
        self.dismiss(NEWEST if index == 0 else self._choices[index - 1].launch_id)

    def action_close(self) -> None:
        self.dismiss(None)
