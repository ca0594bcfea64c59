"""Has the cards of a launch compute something, beside the loop: it takes some seconds, or minutes in a hung driver."""

import asyncio
from collections.abc import Callable, Mapping

from arcops.core.cards.health import Health, Verdict
from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.state import State
from arcops.core.world import NOT_TRIED, Cause
from arcops.daemon.aside import Aside
from arcops.daemon.clock import Clock
from arcops.daemon.journal import Journal
from arcops.machine.gpu import find_cards
from arcops.machine.gpu.health import Examiner, Subject

TRIED_WITHIN = 900.0
"""Seconds that a trial may take: its own deadlines are shorter, and what hangs before them is the finding of cards."""


def subject_of(launch: Launch, environment: Mapping[str, str]) -> Subject:
    """What is tried for a launch. Raises OSError."""
    drivers = {card.address: card.driver for card in find_cards()} if launch.cards else {}
    return Subject(launch.argv[0], launch.cards, tuple(drivers.get(card) for card in launch.cards), environment)


class Trials:
    """The last trial of a launch's cards; `begin` makes a new one, `seen` gives what it came to. An event tells it."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        wake: Callable[[], None],
        examiner: Examiner | None = None,
        subject: Callable[[Launch, Mapping[str, str]], Subject] = subject_of,
    ) -> None:
        self._clock, self._journal, self._wake = clock, journal, wake
        self._examiner = examiner or Examiner()
        self._find = subject
        self._aside = Aside[Health](TRIED_WITHIN, at_once=1)
        self._task: asyncio.Task[None] | None = None
        self._cards: tuple[str, ...] = ()
        self._found: Reading[Health] = NOT_TRIED

    @property
    def pids(self) -> frozenset[int]:
        """Of the child that is at work: it is no stranger on the card. From any thread."""
        return self._examiner.pids

    def seen(self, launch: Launch | None) -> Reading[Health]:
        """What the last trial came to; "not tried yet" where it was of other cards. Dated by its beginning."""
        return self._found if launch is not None and launch.cards == self._cards else NOT_TRIED

    def begin(self, launch: Launch, environment: Mapping[str, str], state: State) -> None:
        """Begin one, unless one is under way; the loop is woken when it is done."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._try(launch, environment, state))

    async def _try(self, launch: Launch, environment: Mapping[str, str], state: State) -> None:
        at = self._clock.monotonic()
        found: Reading[Health]
        try:
            health = await self._aside.run(lambda: self._examiner.examine(self._find(launch, environment)))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with it, the loop must not wait for ever
            found = Unknown(f"{type(error).__name__} {error}", at)
        else:
            found = Known(health, at)
        self._cards, self._found = launch.cards, found
        wedged = isinstance(found, Known) and found.value.verdict is Verdict.WEDGED
        self._journal.event("card", state, words_of(found), cause=Cause.GPU_WEDGED.value if wedged else None)
        self._wake()

    def close(self) -> None:
        """Nobody waits for it any more: its child is ended, if it can be."""
        if self._task is not None:
            self._task.cancel()
        self._examiner.close()


def words_of(found: Reading[Health]) -> str:
    """For the history: the verdict first."""
    match found:
        case Unknown(reason=reason):
            return f"the card could not be tried: {reason}"
        case Known(Health(Verdict.WEDGED, words, hint)):
            return f"tried: wedged: {words}; {hint}"
        case Known(health):
            return f"tried: {health.verdict.value}: {health.words}"
