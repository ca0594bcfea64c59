"""Waits for an order and shows what goes on: one line that rewrites itself on a terminal, a line a change elsewhere."""

import sys
import time
from contextlib import suppress
from typing import NoReturn

from arcops import wire, words
from arcops.cli import output
from arcops.cli.describe import loading
from arcops.client import Client
from arcops.core.errors import ArcopsError, ExitCode, NoDaemonError

RECONNECT_WITHIN = 30.0
"""Seconds for which a daemon that went away is waited for: it may be restarting, and the order is written down."""
_ENDS = frozenset({"failed", "blocked", "stuck", "wedged", "backoff"})
"""Phases that nobody need wait in: they last, and are not what was ordered."""
_LASTING = _ENDS | {"serving", "stopped"}


class Progress:
    """What is shown while an order is carried out."""

    def __init__(self) -> None:
        self._last = ""
        self._rewrites = sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison] - `2>&-`
        self._before: tuple[str, str] | None = None

    def show(self, status: wire.Status) -> None:
        """Show how far it is; not what was the case before the order, which the daemon has not turned to yet."""
        now = (status.phase, status.reason)
        if self._before is None:
            self._before = now if status.phase in _LASTING else ("", "")
        if now == self._before:
            return
        self._before = ("", "")
        if status.start is not None and status.phase == "starting":
            text = f"starting: {loading(status.start) if self._rewrites else status.start.stage}"
        else:
            text = words.sentence(status) if self._rewrites else f"{status.phase}: {words.clean(status.reason)}"
        if text == self._last:
            return
        self._last = text
        if self._rewrites:
            output.rewrite(text)
        else:
            output.note(text)

    def end(self) -> None:
        """Clear the line, for what is said after it."""
        if self._rewrites:
            output.rewrite("")


def see_through(client: Client, accepted: wire.Accepted, *, wait: bool) -> None:
    """Go with an order that was taken to its end, or only say that it was taken."""
    if accepted.order_id is None:
        output.note(accepted.done or "nothing to do")
    elif wait:
        wait_for(client, accepted.order_id)
    else:
        output.note(f"order {accepted.order_id} was taken; `arcops status --watch` shows it")


def wait_for(client: Client, order_id: int) -> NoReturn:
    """Follow an order to its end, and leave with its exit code."""
    progress = Progress()
    try:
        outcome = _outcome(client, order_id, progress)
        returned = _wait_for_return(client, outcome, progress)
    except (KeyboardInterrupt, ArcopsError) as cut:
        progress.end()
        if isinstance(cut, KeyboardInterrupt):
            output.note(f"order {order_id} goes on: `arcops status --watch` shows it, `arcops stop` ends it")
        raise
    progress.end()
    if outcome.exit_code == ExitCode.DONE:
        output.note(words.clean(outcome.summary))
        output.leave(ExitCode.DONE)
    if outcome.evidence:
        output.note(f"log: {words.clean(outcome.evidence)}")
    if returned:
        output.note(returned)
    code = ExitCode.of(outcome.exit_code)
    output.fail(ArcopsError(words.clean(outcome.summary), hint=words.clean(outcome.hint), exit_code=code))


def _outcome(client: Client, order_id: int, progress: Progress) -> wire.OutcomeInfo:
    """The order's outcome; the daemon may be restarted meanwhile."""
    gone_since: float | None = None
    daemon: wire.DaemonInfo | None = None
    while True:
        try:
            for status in client.follow_status():
                gone_since = None
                daemon = daemon or status.daemon
                progress.show(status)
                settled = outcome_in(status, order_id, restarted=status.daemon != daemon)
                if settled is not None:
                    return settled
        except NoDaemonError:
            gone_since = gone_since or time.monotonic()
            if time.monotonic() - gone_since > RECONNECT_WITHIN:
                raise
            time.sleep(0.5)


def outcome_in(status: wire.Status, order_id: int, *, restarted: bool) -> wire.OutcomeInfo | None:
    """What became of the order, if the status tells; a daemon that was restarted since knows no outcome any more."""
    settled = next((one for one in status.settled if one.order_id == order_id), None)
    if settled is not None:
        return settled
    if status.order.id == order_id:
        wanted = "serving" if status.order.goal == "run" else "stopped"
        over = status.order.committed and (status.phase == wanted or status.phase in _ENDS)
        return _without_outcome(order_id, status.phase == wanted, words.sentence(status)) if over else None
    if restarted:
        why = f"order {order_id} is not in force any more, and what became of it is not known; {words.sentence(status)}"
        return _without_outcome(order_id, False, why, hint="`arcops events` has the history")
    return None


def _without_outcome(order_id: int, done: bool, summary: str, hint: str = "") -> wire.OutcomeInfo:
    """Settled by a daemon that has been restarted since: the status is all there is to go by."""
    return wire.OutcomeInfo(
        order_id=order_id,
        exit_code=int(ExitCode.DONE if done else ExitCode.FAILED),
        summary=summary,
        hint=hint,
        evidence="",
        superseded=False,
        returned_to=None,
    )


def _wait_for_return(client: Client, outcome: wire.OutcomeInfo, progress: Progress) -> str | None:
    """After a switch that failed: until the previous profile serves again, or cannot."""
    if outcome.returned_to is None or outcome.returned_to == "stopped":
        return None
    with suppress(NoDaemonError):  # the failure is what has to be told, whatever becomes of the daemon
        for status in client.follow_status():
            progress.show(status)
            if status.phase in _LASTING:
                return f"back to {outcome.returned_to}: {words.sentence(status)}"
    return None
