"""Waits for an order and shows what goes on: one line that rewrites itself on a terminal, a line a change elsewhere."""

import sys
import time
from typing import NoReturn

from arcops import wire
from arcops.cli import output
from arcops.cli.describe import loading, sentence
from arcops.client import Client
from arcops.core.errors import ArcopsError, ExitCode, NoDaemonError

RECONNECT_WITHIN = 30.0
"""Seconds for which a daemon that went away is waited for: it may be restarting, and the order is written down."""
_ENDS_RETURN = frozenset({"serving", "failed", "stopped", "blocked", "stuck", "wedged", "backoff"})


class Progress:
    """What is shown while an order is carried out."""

    def __init__(self) -> None:
        self._last = ""
        self._rewrites = sys.stderr.isatty()

    def show(self, status: wire.Status) -> None:
        text = sentence(status) if status.start is None else f"{status.phase}: {loading(status.start)}"
        key = text if self._rewrites else f"{status.phase}: {status.start.stage if status.start else status.reason}"
        if key == self._last:
            return
        self._last = key
        if self._rewrites:
            output.rewrite(text)
        else:
            output.note(key)

    def end(self) -> None:
        if self._rewrites:
            output.rewrite("")


def wait_for(client: Client, order_id: int) -> NoReturn:
    """Follow an order to its end, and leave with its exit code."""
    progress = Progress()
    outcome = _outcome(client, order_id, progress)
    if outcome.exit_code == ExitCode.DONE:
        progress.end()
        output.note(outcome.summary)
        output.leave(ExitCode.DONE)
    returned = _wait_for_return(client, outcome, progress)
    progress.end()
    if outcome.evidence:
        output.note(f"log: {output.printable(outcome.evidence)}")
    if returned:
        output.note(returned)
    output.fail(ArcopsError(outcome.summary, hint=outcome.hint, exit_code=ExitCode(outcome.exit_code)))


def _outcome(client: Client, order_id: int, progress: Progress) -> wire.OutcomeInfo:
    """The order's outcome; the daemon may be restarted meanwhile."""
    gone_since: float | None = None
    while True:
        try:
            for status in client.follow_status():
                gone_since = None
                progress.show(status)
                settled = next((one for one in status.settled if one.order_id == order_id), None)
                if settled is not None:
                    return settled
                if status.order.committed and status.order.id == order_id:
                    return _carried_out(order_id, status)
        except NoDaemonError:
            gone_since = gone_since or time.monotonic()
            if time.monotonic() - gone_since > RECONNECT_WITHIN:
                raise
            time.sleep(0.5)


def _carried_out(order_id: int, status: wire.Status) -> wire.OutcomeInfo:
    """Settled by a daemon that has been restarted since: the order stands, and the status says how it is."""
    return wire.OutcomeInfo(
        order_id=order_id,
        exit_code=int(ExitCode.DONE if status.phase in ("serving", "stopped") else ExitCode.FAILED),
        summary=sentence(status),
        hint="",
        evidence="",
        superseded=False,
        returned_to=None,
    )


def _wait_for_return(client: Client, outcome: wire.OutcomeInfo, progress: Progress) -> str | None:
    """After a switch that failed: until the previous profile serves again, or cannot."""
    if outcome.returned_to is None or outcome.returned_to == "stopped":
        return None
    for status in client.follow_status():
        progress.show(status)
        if status.phase in _ENDS_RETURN:
            return f"back to {outcome.returned_to}: {sentence(status)}"
    return None
