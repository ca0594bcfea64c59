"""`arcops gpu`: the cards, who holds them, and whether they are well; with a daemon or without."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Annotated, Final

import typer

from arcops import wire
from arcops.cli import output
from arcops.cli.connect import client_of
from arcops.cli.describe_cards import card_lines, watching_line
from arcops.cli.main import instance_of
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode, NoDaemonError

AGAIN_AFTER: Final = 1.0
"""Seconds between two pictures."""
EVERYBODY_EVERY: Final = 5
"""Pictures of which one is made with a look at every process: that costs most."""
PIPED_WIDTH: Final = 100
NARROWEST: Final = 60
"""Columns."""

Look = Callable[[bool], wire.Cards]
"""Gives the cards; whether every process is to be looked into."""


def gpu(
    ctx: typer.Context,
    card: Annotated[
        str | None, typer.Argument(metavar="[CARD]", help="Only this one: its PCI address, or the end of it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON document (with --watch: one a line).")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again each second, until Ctrl-C.")] = False,
) -> None:
    """Show the cards: memory and who holds it, clocks, temperatures, power, resets, lock, and their numbers.

    Without a daemon they are read here, with the rights of whoever asks.
    """
    look = Looker(ctx)
    if not watch:
        _show(chosen(look(everybody=True), card), as_json)
        return
    pictures = 0
    while True:
        began = time.monotonic()
        cards = chosen(look(everybody=pictures % EVERYBODY_EVERY == 0), card)
        _show(cards, as_json, again=True)
        pictures += 1
        time.sleep(max(0.0, began + AGAIN_AFTER - time.monotonic()))


class Looker:
    """Asks the daemon; where none answers, looks itself, and says so once."""

    def __init__(self, ctx: typer.Context) -> None:
        self._ctx = ctx
        self._said = ""
        self._own: Callable[[], wire.Cards] | None = None

    def __call__(self, *, everybody: bool) -> wire.Cards:
        try:
            with client_of(self._ctx) as client:
                return client.cards(everybody=everybody)
        except NoDaemonError:
            self._say("no daemon answers: this is what can be seen from here, by this user")
        except ArcopsError as error:
            self._say(f"the daemon does not tell of its cards ({error.message}): this is what can be seen from here")
        return self._look()

    def _look(self) -> wire.Cards:
        if self._own is None:
            # Here, not above: where a daemon answers nothing of it is needed.
            from arcops.cards.own import OwnLook

            self._own = OwnLook(Paths.of(instance_of(self._ctx))).look
        return self._own()

    def _say(self, words: str) -> None:
        if words != self._said:
            self._said = words
            output.note(output.printable(words))


def chosen(cards: wire.Cards, name: str | None) -> wire.Cards:
    """The cards, or the one that `name` means: an address, or the end of one. Raises ArcopsError (usage)."""
    if name is None:
        return cards
    found = tuple(one for one in cards.cards if one.address == name.lower())
    found = found or tuple(one for one in cards.cards if one.address.endswith(name.lower()))
    if len(found) == 1 and name:
        return wire.Cards(at=cards.at, cards=found, watching=cards.watching)
    there = ", ".join(one.address for one in cards.cards)
    problem = f"{name!r} may be more than one card" if found else f"there is no card {name!r} in this machine"
    raise ArcopsError(
        problem, hint=f"there are: {there}" if there else "there is no card at all", exit_code=ExitCode.USAGE
    )


def _show(cards: wire.Cards, as_json: bool, *, again: bool = False) -> None:
    if as_json:
        output.data(wire.encode(cards).decode())
        return
    if not cards.cards:
        output.note("there is no card in this machine: no PCI device is a display controller")
    text = "\n".join(lines_of(cards, _width()))
    if again:
        output.redraw(text)
    elif text:
        output.data(text)


def lines_of(cards: wire.Cards, width: int) -> list[str]:
    """The cards for people, an empty line between two."""
    lines: list[str] = []
    for card in cards.cards:
        lines += [*card_lines(card, cards.at, width), ""]
    return lines + watching_line(cards, width) if lines else []


def _width() -> int:
    """Of the terminal; where there is none, one that reads well."""
    terminal = sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison] - `>&-`
    return max(NARROWEST, shutil.get_terminal_size((PIPED_WIDTH, 24)).columns) if terminal else PIPED_WIDTH
