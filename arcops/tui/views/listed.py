"""A list, and all about the selected one: what the views made so have in common."""

from typing import ClassVar

from textual.binding import Binding, BindingType

from arcops.tui.sheet import Pane, Rows
from arcops.tui.views.base import View


class Listed(View):
    """Keys move in the list, and in the details where they are longer than their room."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "detail(-1)", "details up", show=False, key_display="["),
        Binding("right_square_bracket", "detail(1)", "details down", show=False, key_display="]"),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "end(False)", "first", show=False),
        Binding("end,G", "end(True)", "last", show=False),
    ]

    def __init__(self, rows: str, pane: str) -> None:
        """`rows`, `pane`: the ids of the list and of what is told of the selected one."""
        super().__init__(id=self.NAME)
        self._rows, self._pane = Rows(id=rows), Pane(id=pane)

    def action_move(self, rows: int) -> None:
        self._rows.move(rows)

    def action_page(self, pages: int) -> None:
        self._rows.move(pages * self._rows.page)

    def action_end(self, last: bool) -> None:
        self._rows.to_end(last=last)

    def action_detail(self, rows: int) -> None:
        """Scroll the details."""
        self._pane.scroll_rows(rows)
