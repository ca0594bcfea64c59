"""The line at the bottom of a view in which something is typed: what to search, what to show."""

from collections.abc import Callable

from textual.events import Key
from textual.widget import Widget
from textual.widgets import Input

OPENS = "slash"
"""The key that asks, as Textual calls it."""


class Ask(Input):
    """Hidden until it is asked for. What is typed counts at once; enter keeps it.

    Whoever types fast is ahead of the screen: what is typed behind the key that asks is on its way to the view when the
    focus moves, and is no key of the view's any more. So the view hands over its keys before they are looked up.
    """

    def __init__(self, placeholder: str, typed: Callable[[str], None]) -> None:
        super().__init__(placeholder=placeholder, compact=True, select_on_focus=False)
        self._typed = typed

    def ask(self, value: str) -> None:
        """Show it, with what was typed last."""
        self.display = True
        self.value = value
        self.cursor_position = len(value)
        self.screen.set_focus(self)  # at once: focus() would do it some keys later

    def catch(self, event: Key, ask: Callable[[], None]) -> None:
        """A key that came to the view: `ask` by the one that asks; once that was done, what is typed is typed here."""
        if not self.display:
            if event.key == OPENS:
                event.stop()
                ask()
        elif event.character is not None and event.is_printable:
            event.stop()
            self.insert_text_at_cursor(event.character)

    def leave(self) -> None:
        """Hide it, and give the view its keys back."""
        self.display = False
        if isinstance(self.parent, Widget):
            self.screen.set_focus(self.parent)

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        if self.display:
            self._typed(message.value)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.leave()
