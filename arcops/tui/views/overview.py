"""The numbers of the backend that runs, plots of them where there is room, and the last lines of its log."""

from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Vertical

from arcops.tui.panels import plots
from arcops.tui.panels.base import Panel
from arcops.tui.panels.card_line import CardsPanel
from arcops.tui.panels.latency import LatencyPanel
from arcops.tui.panels.log import LogPanel
from arcops.tui.panels.plots import PlotPanel
from arcops.tui.panels.rates import RatesPanel
from arcops.tui.panels.requests import RequestsPanel
from arcops.tui.panels.speculation import SpeculationPanel
from arcops.tui.snapshot import Snapshot
from arcops.tui.views.base import View

WIDE = 118
"""Cells from which on the numbers stand in two columns."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What there is room for."""

    plots: bool
    """The rates have plots with axes, in place of a row each."""
    gauges: bool
    """So have requests and KV cache."""
    more: bool
    """And what finishes, and the tokens per step."""
    cards: bool
    """A line for each card of what runs."""
    card_plots: bool
    """And plots of their memory and power."""


def layout_for(width: int, rows: int) -> Layout:
    """For a view of this size, in cells."""
    wide = width >= WIDE
    plots, gauges, more = (24, 24, 46) if wide else (32, 44, 64)
    return Layout(
        plots=rows >= plots,
        gauges=rows >= gauges,
        more=rows >= more,
        cards=rows >= 18,
        card_plots=rows >= (52 if wide else 84),
    )


class Overview(View):
    """What an operator looks at all day."""

    NAME = "overview"
    SHOWS_LOG = True
    BINDINGS = [Binding("l", "log", "log")]  # noqa: RUF012 - as in Widget

    def __init__(self) -> None:
        super().__init__(id=self.NAME)
        self._log_panel = LogPanel()
        self._rates = RatesPanel()
        self._rate_plots = (PlotPanel(plots.PREFILL), PlotPanel(plots.DECODE))
        self._gauge_plots = (PlotPanel(plots.CONCURRENCY), PlotPanel(plots.KV_CACHE))
        self._more_plots = (PlotPanel(plots.FINISHED), PlotPanel(plots.STEPS))
        self._card_plots = (PlotPanel(plots.CARD_MEMORY), PlotPanel(plots.CARD_POWER))
        self._cards = CardsPanel()
        self._cards.wanted = False
        finished, steps = self._more_plots
        memory, power = self._card_plots
        requests = RequestsPanel()
        self._left: tuple[Panel, ...] = (requests, self._cards, self._rates, *self._rate_plots, finished, memory)
        self._right: tuple[Panel, ...] = (LatencyPanel(), SpeculationPanel(), *self._gauge_plots, steps, power)
        self._shown: Snapshot | None = None
        self._layout = Layout(plots=False, gauges=False, more=False, cards=False, card_plots=False)

    def compose(self) -> ComposeResult:
        with Container(id="numbers", classes="numbers"):
            yield Vertical(*self._left, classes="column")
            yield Vertical(*self._right, classes="column")
        yield self._log_panel

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "-two-columns")
        wanted = layout_for(event.size.width, event.size.height)
        if wanted == self._layout:
            return
        self._layout = wanted
        self._rates.wanted = not wanted.plots
        self._cards.wanted = wanted.cards
        for panels, there in (
            (self._rate_plots, wanted.plots),
            (self._gauge_plots, wanted.gauges),
            (self._more_plots, wanted.more),
            (self._card_plots, wanted.card_plots),
        ):
            for panel in panels:
                panel.wanted = there
        if self._shown is not None:
            self._show_numbers(self._shown)

    def show(self, snapshot: Snapshot) -> None:
        before, self._shown = self._shown, snapshot
        self._log_panel.show(snapshot)
        if before is None or not snapshot.adds_only_log(before):
            self._show_numbers(snapshot)

    def _show_numbers(self, snapshot: Snapshot) -> None:
        self.set_class(self._layout.plots and snapshot.serves, "-plots")
        for panel in (*self._left, *self._right):
            panel.show(snapshot)

    def action_log(self) -> None:
        """Large or small log."""
        self.set_class(not self._log_panel.large, "-large-log")
        self._log_panel.enlarge(not self._log_panel.large)
