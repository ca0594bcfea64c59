"""What is wrong with this machine, and what helps: the doctor's findings."""

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from arcops import words
from arcops.tui.checks.examination import Examination
from arcops.tui.ink import Ink, Line, Lines, Piece, plain, quiet, rule
from arcops.tui.panels import check_list
from arcops.tui.sheet import Rows
from arcops.tui.snapshot import Snapshot
from arcops.tui.source import OnDemand
from arcops.tui.views.listed import Listed

if TYPE_CHECKING:
    from arcops.doctor.finding import Finding


class Checks(Listed):
    """A list with the worst first, and all about the selected one. The screen goes on while checks take their time."""

    NAME = "checks"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "look", "look again", tooltip="run all checks again"),
    ]

    def __init__(self, source: OnDemand, clock: Callable[[], float] = monotonic) -> None:
        super().__init__("check-list", "check")
        self._examination = Examination(source, clock=clock)
        self._findings: tuple[Finding, ...] = ()
        self._name: str | None = None
        """Of the check that is selected."""
        self._rows.put_above(self._head)

    def compose(self) -> ComposeResult:
        with Container(classes="parts"):
            yield self._rows
            yield self._pane

    def show(self, snapshot: Snapshot) -> None:
        """Only the age of the findings changes with it: the doctor looks by itself, with or without a daemon."""
        del snapshot
        self._rows.redraw()

    def opened(self) -> None:
        super().opened()
        self._list()
        if not self._examination.findings and not self._examination.running:
            self.action_look()

    def copyable(self) -> tuple[tuple[str, str], ...]:
        """What there is to copy of the selected check."""
        finding = self._selected
        if finding is None:
            return ()
        found = (
            ("what to do", words.clean(finding.remedy)),
            ("answer", words.clean(finding.summary)),
            ("what was seen", "\n".join(words.clean(text) for text in finding.evidence)),
        )
        return tuple((label, value) for label, value in found if value)

    def _head(self, width: int) -> Lines:
        examination = self._examination
        line: list[Piece] = [plain(examination.told)]
        if examination.problem:
            line = [("! ", Ink.WARN), plain(examination.problem)]
        elif self._findings and not examination.running:
            line = [plain(check_list.summary(self._findings)), quiet(f" · {examination.told}")]
        return (rule("Checks of this machine", width), tuple(line))

    @property
    def _selected(self) -> "Finding | None":
        selected = self._rows.selected
        return self._findings[selected] if selected < len(self._findings) else None

    def action_look(self) -> None:
        """Run all checks; nothing where they run already."""
        if not self._examination.running:
            self._look()

    @work(exclusive=True, group="checks")
    async def _look(self) -> None:
        timer = self.set_interval(1.0, self._rows.redraw)
        try:
            await self._examination.run(self._list)
        finally:
            timer.stop()

    def _list(self) -> None:
        """Show the findings anew, with the same check selected; the worst until one was chosen."""
        self._findings = check_list.sorted_findings(self._examination.findings)
        names = [finding.name for finding in self._findings]
        selected = names.index(self._name) if self._name in names else 0
        nothing = "nothing was found out" if self._examination.problem else "looking…"
        self._rows.tell(len(names), self._row, selected, nothing)
        self._pane.tell(self._detail)

    def _row(self, number: int, width: int) -> Line:
        return check_list.row(self._findings[number], width)

    def _detail(self, width: int, height: int) -> Lines:
        del height
        finding = self._selected
        return () if finding is None else check_list.detail(finding, width)

    def on_rows_selected(self, message: Rows.Selected) -> None:
        message.stop()
        finding = self._selected
        self._name = None if finding is None else finding.name
        self._pane.tell(self._detail, from_top=True)
