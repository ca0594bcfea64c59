"""The command palette (ctrl+p): whatever a key does, and what has no key of its own. Nothing of Textual's own."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Provider
from textual.content import Content

from arcops import words
from arcops.core.errors import ArcopsError
from arcops.tui import themes
from arcops.tui.keys import Key, keys_of

if TYPE_CHECKING:
    from arcops.tui.app import OperatorScreen

_OPENS_ITSELF = "command_palette"


@dataclass(frozen=True, slots=True)
class Command:
    """A line of the palette."""

    title: str
    help: str
    run: Callable[[], object]


class _Commands(Provider):
    """Commands by their titles: all of them at first, then those that match."""

    def commands(self) -> Iterator[Command]:
        raise NotImplementedError

    @property
    def operator_screen(self) -> "OperatorScreen":
        # The palette is this application's alone.
        return cast("OperatorScreen", self.app)

    async def discover(self) -> AsyncGenerator[DiscoveryHit]:
        for command in self.commands():
            yield DiscoveryHit(Content(command.title), command.run, command.title, command.help)

    async def search(self, query: str) -> AsyncGenerator[Hit]:
        matcher = self.matcher(query)
        for command in self.commands():
            score = matcher.match(command.title)
            if score > 0:
                yield Hit(score, matcher.highlight(command.title), command.run, command.title, command.help)


class KeyCommands(_Commands):
    """What the keys do, then the windows and the themes by name."""

    def commands(self) -> Iterator[Command]:
        app = self.operator_screen
        keys = keys_of(app, self.screen)
        for key in keys.views:
            yield Command(f"show {key.label}", f"key {key.keys[0]}", partial(_do, app, key))
        for key in (*keys.own, *(key for key in keys.everywhere if key not in keys.views)):
            if key.action != _OPENS_ITSELF and not key.moves:
                yield Command(key.label, f"key {key.keys[0]}: {key.sentence}", partial(_do, app, key))
        for seconds in app.windows:
            title = f"window: {words.window(seconds)}"
            yield Command(title, "take rates and latencies over this", partial(app.look_through, seconds))
        for name in themes.THEMES:
            yield Command(f"theme: {name}", "remembered for the next time", partial(app.use_theme, name))


class SwitchCommands(_Commands):
    """`switch to PROFILE`, for each that can be used. The configuration is read when the palette opens."""

    _names: Sequence[str] = ()

    async def startup(self) -> None:
        try:
            choices = await asyncio.to_thread(self.operator_screen.load_profiles)
        except ArcopsError:
            return  # whoever chooses a profile in its view is told why there is none
        self._names = [choice.name for choice in choices if not choice.problem]

    def commands(self) -> Iterator[Command]:
        for name in self._names:
            run = partial(self.operator_screen.switch_to, name)
            yield Command(f"switch to {words.clean(name)}", "says what will happen first", run)


async def _do(app: "OperatorScreen", key: Key) -> None:
    await app.run_action(key.action, key.of)
