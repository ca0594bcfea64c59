"""What is asked before something is done: the words, free of the dialog that shows them."""

from dataclasses import dataclass

from arcops import wire, words
from arcops.tui.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Question:
    """A question with a yes and a no."""

    title: str
    sentences: tuple[str, ...]
    """What will happen."""
    yes: str
    """The button that does it."""


def of_switch(profile: str, snapshot: Snapshot, plan: wire.Accepted, usual: float | None) -> Question:
    """Before a switch: what the daemon says that it would do. `usual`: seconds that loading takes, as a rule."""
    sentences = plan.plan or ((plan.done,) if plan.done else ())
    load = f"Loading {profile} usually takes {words.duration(usual)}." if usual is not None else ""
    unknown = f"How long loading {profile} takes is unknown: it has never become ready here."
    return Question(f"Switch to {profile}?", (_open_now(snapshot), *sentences, load or unknown), "Switch")


def of_stop(snapshot: Snapshot) -> Question:
    """Before a stop."""
    after = "Nothing runs after that, until a switch; also after a reboot."
    return Question(f"Stop {_running(snapshot)}?", (_open_requests(snapshot), after), "Stop")


def of_restart(snapshot: Snapshot) -> Question:
    """Before a restart."""
    anew = "The ordered profile is then launched anew, as its file says now. A latched failure is forgiven."
    return Question(f"Restart {_running(snapshot)}?", (_open_requests(snapshot), anew), "Restart")


def _running(snapshot: Snapshot) -> str:
    status = snapshot.status
    if status is not None and status.backend is not None:
        return status.backend.profile
    if status is not None and status.order.profile:
        return status.order.profile
    return "the backend"


def _open_requests(snapshot: Snapshot) -> str:
    open_now = _open_now(snapshot)
    if snapshot.status is None or snapshot.status.backend is None or not _any_open(snapshot):
        return open_now
    return f"{open_now} They get the profile's drain time to finish."


def _any_open(snapshot: Snapshot) -> bool:
    """Requests are open, or may be."""
    return snapshot.rates.running != 0 or snapshot.rates.waiting != 0


def _open_now(snapshot: Snapshot) -> str:
    if snapshot.status is None or snapshot.status.backend is None:
        return "No backend is there."
    rates = snapshot.rates
    if rates.running is None or rates.waiting is None:
        return "How many requests are open is unknown."
    if not _any_open(snapshot):
        return "No request is open."
    return f"{words.count(rates.running)} running and {words.count(rates.waiting)} waiting requests are open."
