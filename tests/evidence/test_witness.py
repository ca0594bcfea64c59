"""Who watches while something is measured: cards on a made-up machine, and what the kernel says of them."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops import wire
from arcops.cards.look import Sight
from arcops.core.evidence.setting import CardSample, Configuration, ServerFacts
from arcops.evidence import witness
from arcops.evidence.setting import Server
from arcops.evidence.witness import Witness, thinned
from arcops.machine.gpu.base import Roots
from tests.daemon.waiting import until
from tests.trees import sysfs

BARE = ServerFacts(url="http://127.0.0.1:8000")


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return sysfs.lay(tmp_path / "machine", sysfs.b70("0000:03:00.0"), sysfs.b70("0000:04:00.0", minor=1))


@pytest.fixture(autouse=True)
def listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vLLM of this machine, launched by nobody that we know."""
    found = Server(Configuration("process", argv=("vllm", "serve", "/m")), None, by_daemon=False)

    def answer(_server: ServerFacts, _socket: Path | None) -> Server:
        return found

    monkeypatch.setattr(witness, "known", answer)


def clock() -> Callable[[], float]:
    began = time.monotonic()
    return lambda: time.monotonic() - began


def line(text: str) -> str:
    """A record of the kernel's, of this moment."""
    return f"3,1,{int(time.monotonic() * 1e6)},-;{text}\n"


@pytest.mark.asyncio
async def test_the_cards_are_sampled_for_as_long_as_it_watches(roots: Roots, tmp_path: Path) -> None:
    (tmp_path / "kmsg").touch()
    async with Witness(BARE, None, clock(), roots=roots, kmsg=str(tmp_path / "kmsg"), every=0.3) as watching:
        await until(lambda: any(one.power is not None for one in watching.samples))
    setting = watching.setting()
    assert [card.address for card in setting.cards] == ["0000:03:00.0", "0000:04:00.0"]
    assert setting.cards[0].bandwidth == 608e9
    assert {one.address for one in setting.samples} == {"0000:03:00.0", "0000:04:00.0"}
    assert [one.at for one in setting.samples] == sorted(one.at for one in setting.samples)
    assert (setting.watched_by, setting.befallen) == ("client", ())


@pytest.mark.asyncio
async def test_a_reset_in_the_kernels_log_during_the_run_spoils_it(roots: Roots, tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    now = clock()
    async with Witness(BARE, None, now, roots=roots, kmsg=str(log), every=0.01) as watching:
        log.write_text(line("xe 0000:03:00.0: [drm] Tile0: GT0: Engine reset: engine_class=ccs, guc_id=3"))
    befallen = watching.setting().befallen
    assert [(one.kind, one.spoils) for one in befallen] == [("reset", True)]
    assert 0 <= befallen[0].at <= now()
    assert "guc_id=3" in befallen[0].text


@pytest.mark.asyncio
async def test_a_reset_before_the_run_is_not_held_against_it(roots: Roots, tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text("3,1,1000,-;xe 0000:03:00.0: [drm] Tile0: GT0: Engine reset: engine_class=ccs\n")
    async with Witness(BARE, None, clock(), roots=roots, kmsg=str(log), every=0.01) as watching:
        pass
    assert (watching.setting().befallen, watching.setting().watched_by) == ((), "client")


@pytest.mark.asyncio
async def test_a_log_that_cannot_be_read_leaves_resets_unknown_and_not_absent(roots: Roots, tmp_path: Path) -> None:
    async with Witness(BARE, None, clock(), roots=roots, kmsg=str(tmp_path / "none"), every=0.01) as watching:
        pass
    setting = watching.setting()
    assert setting.watched_by == "nobody"
    assert "resets are not seen: the kernel's log cannot be read" in setting.unwatched


@pytest.mark.asyncio
async def test_a_fault_in_a_look_ends_neither_the_watch_nor_the_measurement(
    roots: Roots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Sight:
        raise ZeroDivisionError("a driver that lies")

    monkeypatch.setattr(witness, "measure", fails)
    (tmp_path / "kmsg").touch()
    async with Witness(BARE, None, clock(), roots=roots, kmsg=str(tmp_path / "kmsg"), every=0.01) as watching:
        pass
    setting = watching.setting()
    assert setting.samples == ()
    assert "card 0000:03:00.0: ZeroDivisionError a driver that lies" in setting.unwatched


@pytest.mark.asyncio
async def test_the_cards_of_this_machine_are_not_those_of_another_ones_server(
    roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Server(Configuration("unknown"), None, by_daemon=False, remark="it is another machine")

    def answer(_server: ServerFacts, _socket: Path | None) -> Server:
        return elsewhere

    monkeypatch.setattr(witness, "known", answer)
    async with Witness(BARE, None, clock(), roots=roots, every=0.01) as watching:
        pass
    setting = watching.setting()
    assert (setting.cards, setting.samples, setting.watched_by) == ((), (), "nobody")
    assert setting.unwatched == "it is another machine; resets of another machine's cards are not seen"


@pytest.mark.asyncio
async def test_what_the_run_itself_ordered_befell_nobody_and_what_it_saw_did(
    roots: Roots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a daemon that tells of a phase while the run orders a restart, of bad news then, and of a phase later on."""
    now = clock()
    began = time.time() - now()
    ordered: list[float] = []

    def event(at: float, kind: str, reason: str) -> wire.Event:
        return wire.Event(id=1, at=began + at, kind=kind, phase="x", profile=None, launch_id=None, reason=reason)

    class Daemon:
        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> "Daemon":
            return self

        def __exit__(self, *_: object) -> None: ...
        def cards(self) -> wire.Cards:
            return wire.Cards(at=0.0, cards=(), watching="")

        def events(self, **_: object) -> wire.Events:
            inside = ordered[0]
            told = (
                event(inside, "phase", "ordered"),
                event(inside, "kernel", "bad sign"),
                event(inside + 60, "phase", "crashed"),
            )
            return wire.Events(events=told)

    by_daemon = Server(Configuration("daemon"), (), by_daemon=True)

    def answer(_server: ServerFacts, _socket: Path | None) -> Server:
        return by_daemon

    monkeypatch.setattr(witness, "known", answer)
    monkeypatch.setattr(witness, "Client", Daemon)
    async with Witness(BARE, tmp_path / "s", now, roots=roots, every=0.01) as watching:
        assert not watching.ordered
        with watching.ordering():
            ordered.append(now())
        watching.note("caches", "they were not empty")
    assert watching.ordered
    found = watching.setting().befallen
    assert {(one.kind, one.text) for one in found} == {
        ("event", "kernel: bad sign"),
        ("event", "phase: crashed"),
        ("caches", "they were not empty"),
    }
    assert [one.at for one in found] == sorted(one.at for one in found)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 10**12)), max_size=60))
def test_thinning_keeps_half_of_the_looks_and_every_cards_peak(looks: list[tuple[str, int | None]]) -> None:
    samples = [CardSample(at=float(at), address=card, memory_used=used) for at, (card, used) in enumerate(looks)]
    kept = thinned(samples)
    assert len(kept) <= len(samples) // 2 + 2
    assert [one.at for one in kept] == sorted(one.at for one in kept)
    for card in "ab":
        peaks = [one.memory_used for one in samples if one.address == card and one.memory_used is not None]
        left = [one.memory_used for one in kept if one.address == card and one.memory_used is not None]
        assert max(peaks, default=None) == max(left, default=None)
