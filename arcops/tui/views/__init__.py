"""The views, one file each; `views()` lists them in the order of their keys: 1, 2, and so on.

A view's module is loaded when it is shown for the first time: the first paint waits for the first view alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arcops.tui.profiles import ProfileChoice
from arcops.tui.source import Source
from arcops.tui.views.base import View


@dataclass(frozen=True, slots=True)
class Entry:
    """A view that can be shown; it is made when it is shown for the first time."""

    name: str
    make: Callable[[], View]


def views(source: Source, load_profiles: Callable[[], Sequence[ProfileChoice]]) -> tuple[Entry, ...]:
    """All views. `source` is what they ask on demand."""

    def overview() -> View:
        from arcops.tui.views.overview import Overview

        return Overview()

    def profiles() -> View:
        from arcops.tui.views.profiles import Profiles

        return Profiles(source, load_profiles)

    def logs() -> View:
        from arcops.tui.views.logs import Logs

        return Logs(source.on_demand)

    def events() -> View:
        from arcops.tui.views.events import Events

        return Events(source.on_demand)

    def card() -> View:
        from arcops.tui.views.card import Card

        return Card(source.on_demand)

    def checks() -> View:
        from arcops.tui.views.checks import Checks

        return Checks(source.on_demand)

    return (
        Entry("overview", overview),
        Entry("profiles", profiles),
        Entry("logs", logs),
        Entry("events", events),
        Entry("card", card),
        Entry("checks", checks),
    )
