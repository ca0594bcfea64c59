"""The whole screen before a source that says what a test wants, and the moments that it is looked at."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
from textual.pilot import Pilot
from textual.widgets import OptionList

from arcops import wire, words
from arcops.core.errors import ArcopsError, NoDaemonError
from arcops.tui.app import OperatorScreen
from arcops.tui.profiles import ProfileChoice
from arcops.tui.snapshot import Link, LogTail, Snapshot
from tests.tui import scenes
from tests.tui.on_demand import Prepared

SIZES = [(80, 24), (160, 48)]
PROFILES = (
    ProfileChoice("broken", "", "profiles/broken.yaml:3: model.pth: unknown key; did you mean model.path?"),
    ProfileChoice("dflash2", "The 35B with a DFlash2 draft."),
    ProfileChoice("target-only", "The 35B alone. [b]No markup[/b]."),
)


def snapshot_of(status: wire.Status | None = None, **changes: object) -> Snapshot:
    made = Snapshot(
        socket="/run/user/1000/arcops/main.sock",
        instance="main",
        window=60.0,
        now=scenes.NOW,
        link=Link.LIVE,
        status=status,
        history=scenes.history(600),
        log=LogTail(scenes.LAUNCH, tuple(words.clean(line) for line in scenes.LOG)),
    )
    return replace(made, **changes)


def no_daemon(**changes: object) -> Snapshot:
    error = NoDaemonError(
        "no daemon answers on /run/user/1000/arcops/main.sock",
        hint="start one with `arcopsd`, or `arcops service start`",
    )
    gone = {"link": Link.BROKEN, "problem": error.message, "hint": error.hint, "retry_in": 2.2}
    return replace(snapshot_of(history=(), log=LogTail()), **{**gone, **changes})


class Canned:
    """A source of one snapshot at a time, that keeps what it is asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = snapshot
        self.asked: list[object] = []
        self.on_demand = Prepared()
        self.refusal: ArcopsError | None = None
        self.post: Callable[[Snapshot], None] | None = None

    async def run(self, post: Callable[[Snapshot], None]) -> None:
        self.post = post
        post(self.now)
        await asyncio.Event().wait()

    def show(self, snapshot: Snapshot) -> None:
        self.now = snapshot
        assert self.post is not None
        self.post(snapshot)

    def snapshot(self) -> Snapshot:
        return self.now

    def look_through(self, window: float) -> None:
        self.asked.append(window)
        self.now = replace(self.now, window=window)

    async def switch(self, request: wire.SwitchRequest) -> wire.Accepted:
        plan = ("3 running requests get 60 s to finish", "then target-only is launched") if request.dry_run else ()
        return self._answer(request, plan)

    async def stop(self, request: wire.StopRequest) -> wire.Accepted:
        return self._answer(request)

    async def restart(self, request: wire.RestartRequest) -> wire.Accepted:
        return self._answer(request)

    def _answer(self, request: object, plan: tuple[str, ...] = ()) -> wire.Accepted:
        self.asked.append(request)
        if self.refusal is not None:
            raise self.refusal
        return wire.Accepted(order_id=None if plan else 41, plan=plan)


class Heard(OperatorScreen):
    """Keeps what it says in passing."""

    def __init__(
        self,
        source: Canned,
        load: Callable[[], Sequence[ProfileChoice]] = lambda: PROFILES,
        remembered: Path | None = None,
    ) -> None:
        super().__init__(source, load, remembered=remembered)
        self.said: list[str] = []
        self.copied: list[str] = []

    def notify(self, message: str, **_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - only recorded
        self.said.append(message)

    def copy_to_clipboard(self, text: str) -> None:
        self.copied.append(text)


@asynccontextmanager
async def shown(
    source: Canned,
    size: tuple[int, int] = (80, 24),
    load: Callable[[], Sequence[ProfileChoice]] = lambda: PROFILES,
    remembered: Path | None = None,
) -> AsyncGenerator[tuple[Heard, Pilot[None]]]:
    app = Heard(source, load, remembered)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


MOMENTS: dict[str, Callable[[], Snapshot]] = {
    **{name: (lambda scene=scene: snapshot_of(scene())) for name, scene in scenes.SCENES.items()},
    "no-daemon": no_daemon,
    "daemon-gone": lambda: no_daemon(status=scenes.busy(), silent=14.0, now=scenes.NOW + 14, log=LogTail("x", ("l",))),
    "daemon-silent": lambda: snapshot_of(scenes.busy(), silent=9.0, now=scenes.NOW + 9),
    "connecting": lambda: no_daemon(link=Link.CONNECTING, problem="", hint="", retry_in=None),
    "numbers-old": lambda: snapshot_of(msgspec.structs.replace(scenes.busy(), rates_age=12.0)),
    "rolled-back": lambda: snapshot_of(rolled_back()),
    "stood-in": lambda: snapshot_of(stood_in()),
}


def stood_in() -> wire.Status:
    because = "the draft model's path does not exist; the same launch would fail again"
    return msgspec.structs.replace(
        scenes.busy(),
        reason=f"serving demo, in place of dflash2 ({because})",
        order=wire.OrderInfo(
            id=7,
            goal="run",
            profile="dflash2",
            committed=True,
            standing_in="target-only",
            standing_in_because=because,
        ),
        backend=scenes.backend(profile="target-only", speculates=False),
        trouble=(f"target-only stands in for dflash2 until `arcops restart` or a reboot: {because}",),
    )


def rolled_back() -> wire.Status:
    outcome = wire.OutcomeInfo(
        order_id=6,
        exit_code=7,
        summary="dflash2: the draft model's path does not exist",
        hint="correct speculation.model",
        evidence="",
        superseded=False,
        returned_to="target-only",
    )
    return msgspec.structs.replace(scenes.busy(), settled=(outcome,), backend=scenes.backend(profile="target-only"))


async def choose(pilot: Pilot[None], name: str) -> None:
    """Open the switch dialog and take the profile of this name."""
    await pilot.press("s")
    options = await options_of(pilot)
    options.highlighted = options.get_option_index(name)
    await pilot.press("enter")
    await pilot.pause()


async def options_of(pilot: Pilot[None]) -> OptionList:
    await until(pilot, lambda: any(options.option_count for options in pilot.app.screen.query(OptionList)))
    await pilot.pause()
    return pilot.app.screen.query_one(OptionList)


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the application work until it is so; TimeoutError after ten seconds."""
    async with asyncio.timeout(10):
        while not condition():
            await pilot.pause()
