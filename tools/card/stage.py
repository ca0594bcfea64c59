"""What the scenes share: two instances of arcops on one card, their profiles, and what is kept of what is seen."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from arcops import wire
from arcops.client import Client
from arcops.machine.gpu import CardIdentity, nvml
from arcops.machine.gpu.nvidia import NvidiaReader
from tools.card import card, compare
from tools.card.instance import Instance, child_of, until
from tools.card.record import Records
from tools.card.tape import Recorder

START = 400.0
"""Seconds that a model of 9B may take to serve: 40 with warm compile caches, 180 without."""

TRIES = 3

NOT_RUNNING = 3
"""Exit code of `arcops status` where nothing serves."""

Seen = Mapping[str, object]


class FailedError(Exception):
    """arcops did not do what it promises."""


def check(held: bool, otherwise: str) -> None:
    if not held:
        raise FailedError(otherwise)


@dataclass(frozen=True, slots=True)
class Stage:
    """Two instances of arcops on one card, and their profiles."""

    identity: CardIdentity
    first: Instance
    second: Instance
    url: str
    target: str
    """The profile that most scenes run, and what it calls its model (the same name)."""
    other: str
    """The profile that is switched to, and raced for: two of it fit on the card together."""
    baseline: int
    """MiB in use on the idle card."""
    records: Records

    @property
    def both(self) -> tuple[Instance, Instance]:
        return self.first, self.second

    def serve(self, profile: str) -> float:
        """Switch, wait until it serves; seconds."""
        began = time.monotonic()
        said = self.first.arcops("switch", profile, "--now", within=START)
        check(said.code == 0, f"switch {profile}: exit {said.code}: {said.err}")
        return time.monotonic() - began

    def serving(self) -> str:
        """The profile that serves; the target is made to where none does."""
        status = self.first.status()
        if status.phase == "serving" and status.backend is not None:
            return status.backend.profile
        self.serve(self.target)
        return self.target

    def have_target(self) -> None:
        """Let the target serve, if it does not."""
        if self.serving() != self.target:
            self.serve(self.target)

    def server(self) -> int:
        """The pid that the daemon gives for the API server."""
        backend = self.first.status().backend
        check(backend is not None and backend.pid is not None, "there is no backend")
        assert backend is not None
        assert backend.pid is not None
        return backend.pid

    def engine(self) -> int:
        """The pid of EngineCore."""
        server = self.server()
        return until(lambda: child_of(server, "Engine"), 10, "the engine's process")[0]

    def told(self) -> wire.CardInfo:
        """The card as the first daemon tells it, everybody on it looked for anew."""
        with Client(self.first.socket, within=30) as client:
            cards = client.cards(everybody=True).cards
        found = [one for one in cards if one.address == self.identity.address]
        check(len(found) == 1, f"the daemon tells of {[one.address for one in cards]}")
        return found[0]

    def holders(self) -> dict[int, wire.CardHolding]:
        """Who holds memory, by pid, as the first daemon tells it."""
        info = self.told()
        check(info.census is not None, f"nobody was looked for: {info.census_absent}")
        assert info.census is not None
        return {user.pid: one for one in info.census.holdings for user in one.users}

    def compared(self, name: str) -> Seen:
        """arcops' reader against nvidia-smi, every measure; all raw answers are kept under `name`.

        What a clock or a reason was between two looks can differ from both: looked at again, at most TRIES times.
        """
        rows, tries = self._compared(name), 1
        while tries < TRIES and not all(one.agree for one in rows):
            rows, tries = self._compared(name), tries + 1
        self.records.keep(f"{name}-nvidia-smi-q.txt", card.everything())
        check(all(one.agree for one in rows), f"not as nvidia-smi says: {[one for one in rows if not one.agree]}")
        return {"tries": tries, **compare.as_figures(rows)}

    def _compared(self, name: str) -> Sequence[compare.Row]:
        recorder = Recorder(nvml.load())
        reader = NvidiaReader(recorder.library)
        before = reader.read(self.identity, time.monotonic())
        said = card.figures()
        after = reader.read(self.identity, time.monotonic())
        rows = compare.compare(before, said, after)
        self.records.keep(f"{name}-nvml.json", recorder.tape)
        self.records.keep(f"{name}-nvidia-smi.json", said)
        self.records.keep(f"{name}-compared.json", compare.as_figures(rows))
        return rows

    def keep_views(self, name: str) -> None:
        """What each of arcops' own views shows now, under `name`."""
        for command, codes in (("status", (0, NOT_RUNNING)), ("gpu", (0,))):
            said = self.first.arcops(command, "--json", within=60)
            check(said.code in codes, f"{command} --json: exit {said.code}: {said.err}")
            self.records.keep(f"{name}-{command}.json", said.out)
        self.records.keep(f"{name}-gpu.txt", self.first.arcops("gpu", within=60).out)
        with Client(self.first.socket) as client:
            self.records.keep(f"{name}-metrics.txt", client.metrics())

    def keep_events(self, name: str) -> list[Mapping[str, object]]:
        """The first instance's events, kept under `name`."""
        said = self.first.json("events")
        found = cast("Mapping[str, object]", said)["events"] if isinstance(said, dict) else said
        events = cast("list[Mapping[str, object]]", found)
        self.records.keep(f"{name}-events.json", events)
        return events
