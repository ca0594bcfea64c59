"""The reader of recordings, on damaged ones: they come by mail, from machines that broke."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import cast

import msgspec
import pytest

from arcops import recording
from arcops.core.errors import ArcopsError
from arcops.tui.replaying.replay import Replay
from tests.fuzz import mutate
from tests.fuzz.harness import fuzz
from tests.test_recording import ENTRIES, HEADER

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(900)]

LINES = tuple(msgspec.json.encode(one).decode() for one in (HEADER, *ENTRIES))
WHOLE = "".join(f"{line}\n" for line in LINES)


def _file(random: Random) -> bytes:
    """Lines changed as trees, or the whole text changed; now and then packed, and then cut or changed again."""
    if random.random() < 0.6:
        lines = list(LINES)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(lines))
            tree = mutate.tree(random, cast("mutate.Tree", json.loads(LINES[at])))
            lines[at] = json.dumps(tree, ensure_ascii=False)
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    else:
        content = mutate.octets(random, WHOLE, LINES)
    if random.random() < 0.4:
        content = gzip.compress(content, 1)
        if random.random() < 0.5:
            at = random.randrange(len(content))
            content = content[:at] + bytes([random.randrange(256)]) * random.randint(0, 3) + content[at + 1 :]
        if random.random() < 0.3:
            content = content[: random.randrange(len(content))]
    return content


def test_recordings(memory: Path) -> None:
    path = memory / "it.rec"
    read = 0

    def feed(content: bytes) -> None:
        nonlocal read
        path.write_bytes(content)
        found = recording.read(path)
        read += 1
        now = 0.0
        replay = Replay(found, clock=lambda: now)
        for now in (0.0, 0.35, 2.0, 1e9):  # noqa: B007 - the clock reads it
            snapshot = replay.snapshot()
            assert snapshot.playback is not None
            assert snapshot.playback.at <= found.length

    fuzz("recordings", _file, feed, declared=(ArcopsError,))
    assert read > 100, "hardly one was good enough to be played"
