"""Every key of the screen does what its help says, and no key goes untested."""

import ast
import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.command import CommandPalette
from textual.dom import DOMNode
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import OptionList

import arcops.tui.views
from arcops import wire
from arcops.tui import dialogs
from arcops.tui.app import OperatorScreen
from arcops.tui.dialogs import ChooseCopy, ChooseProfile, Confirm, Help, SaveAs
from arcops.tui.keys import keys_of
from arcops.tui.ordering import Ordering
from arcops.tui.questions import Question
from arcops.tui.views import views
from arcops.tui.views.base import View
from tests.tui.screen_text import text_of
from tests.tui.screens import MOMENTS, Canned, Heard, shown, until

Pressed = Callable[[Heard, Pilot[None], Canned], Awaitable[None]]


def opens(kind: type[object]) -> Pressed:
    """The key opens a dialog (or the palette), and escape leaves it again, with nothing ordered."""

    async def check(app: Heard, pilot: Pilot[None], source: Canned) -> None:
        await until(pilot, lambda: isinstance(app.screen, kind))
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert source.asked == []

    return check


async def _takes_another_window(_: Heard, __: Pilot[None], source: Canned) -> None:
    assert source.asked == [300.0]


async def _takes_another_theme(app: Heard, _: Pilot[None], __: Canned) -> None:
    assert app.theme == "textual-light"


async def _leaves(app: Heard, pilot: Pilot[None], source: Canned) -> None:
    await until(pilot, lambda: not app.is_running)
    assert source.asked == []


SHELL: dict[str, Pressed] = {
    "s": opens(ChooseProfile),
    "x": opens(Confirm),
    "r": opens(Confirm),
    "w": _takes_another_window,
    "c": opens(ChooseCopy),
    "y": opens(ChooseCopy),
    "S": opens(SaveAs),
    "H": opens(SaveAs),
    "t": _takes_another_theme,
    "ctrl+p": opens(CommandPalette),
    "question_mark": opens(Help),
    "q": _leaves,
    "ctrl+c": _leaves,
    "ctrl+q": _leaves,
}
"""What each key of the application does, wherever it is pressed."""

VIEWS = {entry.name: str(number) for number, entry in enumerate(views(Canned(MOMENTS["busy"]()), tuple), start=1)}


def bound(*owners: type[DOMNode]) -> set[str]:
    """The keys in these classes' own BINDINGS."""
    return {key for owner in owners for key, _ in BindingsMap(owner.__dict__.get("BINDINGS", ()))}


@pytest.mark.asyncio
@pytest.mark.parametrize("key", SHELL)
async def test_each_key_of_the_shell(key: str):
    source = Canned(MOMENTS["busy"]())
    source.on_demand.numbers = wire.Samples(step=60.0, points=(scene_point(),), next=None)
    async with shown(source) as (app, pilot):
        await pilot.press(key)
        await pilot.pause()
        await SHELL[key](app, pilot, source)


def scene_point() -> wire.SamplePoint:
    from tests.tui import scenes

    return scenes.samples(1, until=60.0)[0]


def test_no_key_of_the_shell_goes_untested():
    assert bound(Ordering, OperatorScreen) == set(SHELL)


@pytest.mark.asyncio
async def test_each_view_has_its_number_and_the_tabs_mark_it():
    async with shown(Canned(MOMENTS["busy"]())) as (app, pilot):
        for name, key in reversed(VIEWS.items()):
            await pilot.press(key)
            await until(pilot, lambda name=name, key=key: f"[{key} {name}]" in text_of(app))
            assert isinstance(app.screen.focused, Widget)
        await pilot.press(str(len(VIEWS) + 1))
        await pilot.pause()
        assert "[1 overview]" in text_of(app)


def shipped() -> Iterator[tuple[str, type[Widget]]]:
    """Every widget with keys of its own that a view's module defines, with the module's name."""
    for found in pkgutil.iter_modules(arcops.tui.views.__path__):
        module = importlib.import_module(f"{arcops.tui.views.__name__}.{found.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Widget) and value.__module__ == module.__name__:
                yield found.name, value


def pressed_in(*files: Path) -> set[str]:
    """The words that tests have: a key that none of them names is pressed by none."""
    trees = (ast.walk(ast.parse(file.read_text())) for file in files)
    return {
        node.value for tree in trees for node in tree if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.parametrize("view", VIEWS)
def test_no_key_of_a_view_goes_untested(view: str):
    widgets = (widget for name, widget in shipped() if name == view)
    keys = bound(*(kind for widget in widgets for kind in widget.__mro__ if kind.__module__.startswith("arcops.")))
    tests = pressed_in(*(Path(__file__).parent / "views").glob("test_*.py"), Path(__file__).parent / "test_app.py")
    assert keys - tests == set(), "no test in tests/tui/views presses these"


def test_no_key_of_a_dialog_goes_untested():
    found = (kind for kind in vars(dialogs).values() if isinstance(kind, type) and issubclass(kind, Widget))
    kinds = [kind for kind in found if kind.__module__ == dialogs.__name__]
    here = pressed_in(*Path(__file__).parent.glob("test_*.py"))
    assert bound(*kinds) - here == set()


def test_no_view_takes_a_key_of_the_shell_away():
    taken = {(name, key) for name, widget in shipped() for key in bound(widget) & set(SHELL)}
    assert taken == set()


@pytest.mark.asyncio
@pytest.mark.parametrize("key", ["enter", "question_mark", "q", "escape"])
async def test_help_is_left_by_each_of_these(key: str):
    async with shown(Canned(MOMENTS["busy"]())) as (app, pilot):
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, Help))
        await pilot.press(key)
        await until(pilot, lambda: len(app.screen_stack) == 1)


@pytest.mark.asyncio
async def test_in_a_question_the_arrows_move_between_the_answers():
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (app, pilot):
        for arrow in ("left", "right"):
            await pilot.press("x")
            await until(pilot, lambda: isinstance(app.screen, Confirm))
            await pilot.press(arrow, "enter")
            await until(pilot, lambda: len(app.screen_stack) == 1)
        assert source.asked == [wire.StopRequest(), wire.StopRequest()]


@pytest.mark.asyncio
async def test_a_question_that_is_too_long_keeps_its_title_and_its_answers_and_can_be_read_to_its_end():
    sentences = tuple(f"sentence {number} of what will happen, which takes more than one line" for number in range(12))
    async with shown(Canned(MOMENTS["busy"]()), (60, 20)) as (app, pilot):
        app.push_screen(Confirm(Question("Switch to dflash2?", sentences, "Switch")))
        await until(pilot, lambda: "sentence 0 " in text_of(app))
        for key, wanted in (("down", "sentence 11 "), ("up", "sentence 0 ")):
            await pilot.press(*[key] * 20)
            await until(pilot, lambda wanted=wanted: wanted in text_of(app))
            text = text_of(app)
            assert "Switch to dflash2?" in text
            assert "Cancel (n)" in text
            assert "Switch (y)" in text


@pytest.mark.asyncio
@pytest.mark.parametrize("view", VIEWS)
async def test_the_help_names_every_key_that_works(view: str):
    async with shown(Canned(MOMENTS["busy"]()), (120, 90)) as (app, pilot):
        await pilot.press(VIEWS[view])
        await pilot.pause()
        keys = keys_of(app, app.screen)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, Help))
        await pilot.pause()
        text = text_of(app)
        assert f"In {view}" in text
        for key in (*keys.own, *keys.everywhere):
            assert key.keys[0] in text, key
        assert "half of the requests took at most something" in text


def test_every_key_that_is_not_a_move_says_what_it_does():
    for owner in (Ordering, OperatorScreen, *(widget for _, widget in shipped() if issubclass(widget, View))):
        bindings: list[object] = list(owner.__dict__.get("BINDINGS", ()))
        assert all(isinstance(binding, Binding) and binding.description for binding in bindings), owner


@pytest.mark.asyncio
@pytest.mark.parametrize("width", [40, 60, 80, 160])
async def test_the_last_line_has_the_views_keys_to_the_left_and_the_way_out_in_its_place(width: int):
    async with shown(Canned(MOMENTS["busy"]()), (width, 24)) as (app, pilot):
        for key in VIEWS.values():
            await pilot.press(key)
            await pilot.pause()
            last = text_of(app).splitlines()[-1]
            assert last.endswith("? help  q quit")
            assert len(last) == width - 1
            own = keys_of(app, app.screen).footer.own
            assert not own or last.strip().startswith((f"{own[0].keys[0]} {own[0].label}", "? help"))


@pytest.mark.asyncio
async def test_a_click_on_a_key_is_a_press_and_a_click_on_a_tab_shows_its_view():
    async with shown(Canned(MOMENTS["busy"]()), (100, 30)) as (app, pilot):
        last = text_of(app).splitlines()[-1]
        await pilot.click("KeysPanel", offset=(last.index("? help") - 1, 0))
        await until(pilot, lambda: isinstance(app.screen, Help))
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        row = next(line for line in text_of(app).splitlines() if "[1 overview]" in line)
        await pilot.click("TabsPanel", offset=(row.index("profiles"), 0))
        await until(pilot, lambda: "[2 profiles]" in text_of(app))


@pytest.mark.asyncio
@pytest.mark.parametrize(("width", "named"), [(80, True), (60, True), (40, False)])
async def test_the_tabs_can_be_clicked_however_narrow_they_are(width: int, named: bool):
    async with shown(Canned(MOMENTS["busy"]()), (width, 20)) as (app, pilot):
        for name, key in VIEWS.items():
            row = next(line for line in text_of(app).splitlines() if "[1 overview]" in line)
            assert (f"{key} {name}" in row) is (named or name == "overview")
            await pilot.click("TabsPanel", offset=(row.index(key) - 1, 0))
            await until(pilot, lambda name=name, key=key: f"[{key} {name}]" in text_of(app))
            await pilot.press("1")
            await until(pilot, lambda: "[1 overview]" in text_of(app))


@pytest.mark.asyncio
async def test_the_palette_has_arcops_commands_and_nothing_of_textuals_own():
    async with shown(Canned(MOMENTS["busy"]()), (100, 120)) as (app, pilot):
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "switch to target-only" in text_of(app))
        options = app.screen.query_one(OptionList)
        titles = {str(option.prompt).split("\n")[0].strip() for option in options.options}
        assert {f"show {view}" for view in VIEWS} <= titles
        assert {"switch", "stop", "restart", "help", "quit", "copy", "export screen", "export history"} <= titles
        assert {"window: last 5 min", "window: last 60 min", "theme: light", "theme: terminal"} <= titles
        assert not {"Theme", "Keys", "Screenshot", "Maximize", "Quit"} & titles
        assert not any("broken" in title for title in titles), "a profile that cannot be used"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("switch to target-only", [wire.SwitchRequest(profile="target-only", dry_run=True)]),
        ("window: last 60", [3600.0]),
    ],
)
async def test_the_palette_does_what_it_says(words: str, asked: list[object]):
    source = Canned(MOMENTS["busy"]())
    async with shown(source) as (app, pilot):
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        await pilot.press(*words)
        await until(pilot, lambda: words in text_of(app).split("▁▁")[0].split("▔▔")[-1].replace(words, "", 1))
        await pilot.press("enter")
        await until(pilot, lambda: source.asked == asked)


@pytest.mark.asyncio
async def test_the_palette_shows_a_view_and_takes_a_theme():
    async with shown(Canned(MOMENTS["busy"]())) as (app, pilot):
        for words, done in (("show logs", "[3 logs]"), ("theme: light", "[3 logs]")):
            await pilot.press("ctrl+p")
            await until(pilot, lambda: isinstance(app.screen, CommandPalette))
            await pilot.press(*words)
            await until(pilot, lambda words=words: app.screen.query_one(OptionList).option_count == 1)
            await pilot.press("enter")
            await until(pilot, lambda done=done: len(app.screen_stack) == 1 and done in text_of(app))
        await until(pilot, lambda: app.theme == "textual-light")


def test_the_application_is_textuals_own_in_nothing_but_what_is_named_here():
    assert bound(App) <= {"ctrl+q", "ctrl+c"}


def test_the_manual_names_every_key_of_the_shell_and_every_view():
    text = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    section = text.partition("## The screen\n")[2].partition("\n## ")[0]
    keys = {"?" if key == "question_mark" else key for key in SHELL}
    assert {key for key in keys if f"`{key}`" not in section} == set()
    assert {name for name, key in VIEWS.items() if f"| `{key}` | {name} |" not in section} == set()
