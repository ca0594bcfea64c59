"""What ran before comes back, whoever else orders what meanwhile."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from arcops import wire
from arcops.core.errors import ArcopsError, ExitCode
from arcops.evidence.qualify import before
from arcops.evidence.qualify.before import Before, before_in, bring_back

SOCKET = Path("/nowhere")
RAN = Before(3, "working", serving=True)
OURS = 4


def status(
    order_id: int,
    profile: str | None,
    *,
    phase: str = "serving",
    standing_in: str | None = None,
    committed: bool = True,
    running: str | None = None,
) -> wire.Status:
    goal = "stop" if profile is None else "run"
    order = wire.OrderInfo(id=order_id, goal=goal, profile=profile, committed=committed, standing_in=standing_in)
    backend = None if running is None else SimpleNamespace(profile=running)
    return cast("wire.Status", SimpleNamespace(order=order, phase=phase, reason="out of memory", backend=backend))


@dataclass
class Daemon:
    """Says one status after another, the last one for ever, and hears orders."""

    says: list[wire.Status]
    ordered: list[str] = field(default_factory=list[str])
    refuses: str = ""

    def status(self, _socket: Path) -> wire.Status:
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]

    def stop(self, _socket: Path) -> int:
        self.ordered.append("stop")
        return OURS + 1

    async def change(self, _socket: Path, profile: str, *, replace: bool) -> None:
        assert replace, "it has to come through whatever is under way"
        self.ordered.append(profile)
        if self.refuses:
            raise ArcopsError(self.refuses)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Daemon]:
    def made(*says: wire.Status) -> Daemon:
        one = Daemon(list(says))
        monkeypatch.setattr(before, "status_of", one.status)
        monkeypatch.setattr(before, "_stop", one.stop)
        monkeypatch.setattr(before.fresh, "change", one.change)
        monkeypatch.setattr(before.fresh, "LOOK_EVERY", 0.0)
        return one

    return made


def brought_back(what: Before, ours: int | None = OURS) -> list[str]:
    told: list[str] = []

    def tell(words: str) -> None:
        told.append(words)

    asyncio.run(bring_back(SOCKET, what, ours, "candidate", tell))
    return told


def test_what_stands_in_for_the_ordered_profile_is_what_ran() -> None:
    now = before_in(status(3, "dflash2", standing_in="working", running="working"))
    assert now == Before(3, "working", serving=True)
    assert before_in(status(3, None, phase="stopped")) == Before(3, None, serving=False)
    with pytest.raises(ArcopsError) as refused:
        before_in(status(3, "working", committed=False))
    assert refused.value.exit_code is ExitCode.BUSY


def test_our_own_order_is_taken_back(daemon: Callable[..., Daemon]) -> None:
    one = daemon(status(OURS, "candidate"))
    brought_back(RAN)
    assert one.ordered == ["working"]
    one = daemon(status(OURS, "candidate"), status(OURS + 1, None, phase="draining"), status(5, None, phase="stopped"))
    brought_back(Before(3, None, serving=False))
    assert one.ordered == ["stop"]


@pytest.mark.parametrize("profile", ["candidate", "working", "third", None])
@pytest.mark.parametrize("ours", [OURS, None])
def test_an_order_of_somebody_else_stands_whatever_it_is_to(
    daemon: Callable[..., Daemon], profile: str | None, ours: int | None
) -> None:
    one = daemon(status(OURS + 1, profile))
    told = brought_back(RAN, ours)
    assert one.ordered == []
    assert "somebody has ordered" in told[0]


def test_a_daemon_that_has_turned_back_by_itself_is_waited_for(daemon: Callable[..., Daemon]) -> None:
    one = daemon(status(3, "working", phase="starting"), status(3, "working", phase="starting"), status(3, "working"))
    brought_back(RAN)
    assert (one.ordered, len(one.says)) == ([], 1)
    daemon(status(3, "working", phase="starting"), status(3, "working", phase="failed"))
    with pytest.raises(ArcopsError, match="does not come back: working: failed") as failed:
        brought_back(RAN)
    assert failed.value.exit_code is ExitCode.BACKEND_FAILED


def test_a_return_that_fails_says_so_with_a_code_of_its_own(daemon: Callable[..., Daemon]) -> None:
    daemon(status(OURS, "candidate")).refuses = "the card is held"
    with pytest.raises(ArcopsError, match="working: the card is held") as failed:
        brought_back(RAN)
    assert failed.value.exit_code is ExitCode.BACKEND_FAILED
