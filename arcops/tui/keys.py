"""The keys that do something now, taken from the bindings themselves: for the last line, the help and the palette."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from arcops.tui.views.base import View

VIEW_ACTION = "view("
"""How the actions begin that show a view."""
NEVER_LEFT_OUT = ("help", "quit")
"""Actions that stand at the end of the last line, however short it is: what names all the others, and the way out."""


@dataclass(frozen=True, slots=True)
class Key:
    """What one action's keys are, and what it does."""

    keys: tuple[str, ...]
    """As a person knows them: `s`, `?`, `ctrl+c`."""
    press: str
    """The first of them, as Textual calls it."""
    label: str
    """A word or two, for the footer."""
    sentence: str
    """What it does, for the help."""
    in_footer: bool
    action: str
    of: DOMNode
    """Whose action it is."""
    moves: bool
    """Within a list and the like: nothing that has to be told at length."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Those of the view that is shown, and those that work everywhere."""

    own: tuple[Key, ...] = ()
    everywhere: tuple[Key, ...] = ()

    @property
    def footer(self) -> "Keys":
        """Those that the footer shows; the last ones are never left out."""
        own, everywhere = (tuple(key for key in part if key.in_footer) for part in (self.own, self.everywhere))
        return Keys(own, tuple(sorted(everywhere, key=lambda key: key.action in NEVER_LEFT_OUT)))

    @property
    def views(self) -> tuple[Key, ...]:
        """Those that show a view."""
        return tuple(key for key in self.everywhere if key.action.startswith(VIEW_ACTION))


def keys_of(app: App[None], screen: Screen[object]) -> Keys:
    """The keys that work on this screen as it is. Textual's own for its screens (tab and the like) are left out."""
    own: list[tuple[DOMNode, Binding]] = []
    everywhere: list[tuple[DOMNode, Binding]] = []
    for active in screen.active_bindings.values():
        if not active.enabled or not active.binding.description or isinstance(active.node, Screen):
            continue
        node: DOMNode = active.node  # pyright: ignore[reportUnknownMemberType] - an application's result type is open there
        (own, everywhere)[isinstance(node, App)].append((node, active.binding))  # pyright: ignore[reportUnknownArgumentType] - the same
    return Keys(tuple(_joined(own, app)), tuple(_joined(everywhere, app)))


def _joined(bindings: Sequence[tuple[DOMNode, Binding]], app: App[None]) -> Iterator[Key]:
    """One for each action, however many keys it has, where the one stands that the last line shows."""
    by_action: dict[tuple[DOMNode, str], list[Binding]] = {}
    for node, binding in bindings:
        by_action.setdefault((node, binding.action), []).append(binding)
    for node, binding in bindings:
        found = by_action[node, binding.action]
        first = next((binding for binding in found if binding.show), found[0])
        if binding is not first:
            continue
        yield Key(
            keys=tuple(dict.fromkeys(shown(one, app) for one in (first, *found))),
            press=first.key,
            label=first.description,
            sentence=first.tooltip or first.description.lower(),
            in_footer=first.show,
            action=first.action,
            of=node,
            moves=not first.show and not isinstance(node, App | View),
        )


def shown(binding: Binding, app: App[None]) -> str:
    """A key as a person knows it."""
    return binding.key_display or app.get_key_display(binding).replace("^", "ctrl+")
