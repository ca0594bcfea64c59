"""`make screenshot`: the README's picture of the screen, from the recording of real vLLM that the tests play."""

import asyncio
import os
import sys
from pathlib import Path

from arcops import recording
from arcops.tui import exporting
from arcops.tui.replaying.player import PlayerScreen
from arcops.tui.replaying.replay import Replay

ROOT = Path(__file__).resolve().parent.parent
RECORDING = ROOT / "tests" / "data" / "recording" / "recording.gz"
PICTURE = ROOT / "docs" / "screen.svg"
SIZE = (120, 40)
MOMENT = 195.0
"""Seconds after the beginning of the recording: a load of three requests a second goes on."""


async def picture(file: Path = RECORDING, moment: float = MOMENT, size: tuple[int, int] = SIZE) -> str:
    """The screen as SVG, at that moment of that recording."""
    replay = Replay(recording.read(file), clock=lambda: 0.0)
    app = PlayerScreen(replay)
    async with app.run_test(size=size) as pilot:
        replay.seek(moment)
        await pilot.pause(0.5)
        return exporting.self_contained(app.export_screenshot(title="arcops tui"))


def main() -> None:
    """Write the picture."""
    os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "TZ": "UTC"}
    os.environ.pop("NO_COLOR", None)
    PICTURE.write_text(asyncio.run(picture()))
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size // 1024} KiB\n")


if __name__ == "__main__":
    main()
