"""Plans of launches, made beside the loop: before an order is taken, and after a launch serves.

Whatever hangs or goes wrong with one is an absence, and refuses nothing: vLLM itself is the last judge of what fits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from arcops.core.budget.plan import Basis, Fit, Plan, plan_of
from arcops.core.errors import BlockedError
from arcops.core.launch import Launch
from arcops.daemon.aside import Aside
from arcops.machine.gpu.base import MACHINE, Roots
from arcops.planning import PlanError, Subjects, place_of, recall

PLAN_WITHIN: Final = 8.0
"""Seconds for a plan: some tenths for the headers and the cards, and more from a disk that has to wake up."""
FORCE: Final = "--force starts it all the same"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what it goes by."""

    plan: Plan
    fixed: int | None
    """Bytes that the launch fixes for the KV cache; None where a share of the card decides."""
    absent: str
    """Why the room is not known; empty where it is."""

    @property
    def estimated(self) -> bool:
        """The cache is the rest of something that is only estimated."""
        return any(item.basis is Basis.ESTIMATED for item in self.plan.items) and self.fixed is None


class Plans:
    """Makes them, and reads each checkpoint once."""

    def __init__(
        self,
        folder: str,
        ours: Callable[[], frozenset[int]],
        roots: Roots = MACHINE,
        within: float = PLAN_WITHIN,
        subjects: Subjects | None = None,
    ) -> None:
        """`folder` has the footprints; `ours` gives the pids of our backend: what they hold is given back before."""
        self._folder = folder
        self._ours = ours
        self._roots = roots
        self._subjects = subjects or Subjects()
        self._aside = Aside[Planned](within)

    async def plan(self, launch: Launch) -> Planned | str:
        """The plan of a launch as things are now, or in words why there is none."""
        try:
            return await self._aside.run(lambda: self._make(launch))
        except PlanError as error:
            return error.words
        except TimeoutError as error:
            return str(error)
        except OSError as error:
            return f"the cards cannot be looked at: {error.strerror or error}"
        except Exception as error:  # noqa: BLE001 - a fault in a forecast must not keep a good launch from its card
            _log.exception("plan", profile=launch.profile)
            return f"{type(error).__name__} {error}"

    def _make(self, launch: Launch) -> Planned:
        """Raises PlanError, OSError."""
        subject = self._subjects.of(launch)
        place = place_of(launch, self._ours, self._roots)
        plan = plan_of(subject.demand(launch, place.room, recall(self._folder, launch)), place.room)
        return Planned(plan, subject.wants.pool, place.absent)


def judged(launch: Launch, found: Planned | str, *, force: bool) -> tuple[str, ...]:
    """What a plan has to say of a launch that is asked for, in sentences. Raises BlockedError where it cannot fit."""
    if isinstance(found, str):
        return (f"memory: not planned: {found}",)
    plan = found.plan
    if plan.fit is Fit.DOES_NOT and not force:
        raise BlockedError(f"{launch.profile} does not fit: {plan.reason}", hint="; ".join((*plan.advice[:1], FORCE)))
    forced = ", and is forced" if plan.fit is Fit.DOES_NOT else ""
    why = f" ({found.absent})" if found.absent else ""
    return (f"memory: {plan.fit.value}{forced}: {plan.reason}{why}",)


def forced(launch: Launch, found: Planned | str | None) -> str | None:
    """What the history is told of an order that was forced; None where nothing stood in its way."""
    if not isinstance(found, Planned) or found.plan.fit is not Fit.DOES_NOT:
        return None
    return f"{launch.profile} is started all the same (--force): it does not fit, {found.plan.reason}"
