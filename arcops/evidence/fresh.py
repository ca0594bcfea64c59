"""Other backends for a measurement, through the daemon: fresh ones with empty compile caches, or another profile's."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from arcops import wire
from arcops.client import Client
from arcops.core.errors import ArcopsError, ExitCode, NoDaemonError

T = TypeVar("T")

LOOK_EVERY: Final = 0.5
"""Seconds between two looks at an order that is being carried out."""
RECONNECT_WITHIN: Final = 30.0
"""Seconds for which a daemon that went away is waited for: it may be restarting, and orders outlive it."""
_LASTING: Final = frozenset({"serving", "stopped", "failed", "blocked", "stuck", "wedged", "backoff"})


def serving(socket: Path) -> wire.BackendInfo:
    """The daemon's backend, which has to serve. Blocking. Raises ArcopsError: no daemon (8), nothing serves (3)."""
    with Client(socket) as client:
        status = client.status()
    if status.backend is None or status.phase != "serving":
        raise ArcopsError(
            f"nothing serves: the backend is {status.phase}",
            hint="`arcops switch PROFILE` starts one, or give --url",
            exit_code=ExitCode.NOT_RUNNING,
        )
    return status.backend


async def renew(socket: Path) -> bool:
    """Run the same profile anew with empty compile caches of its own, until it serves. Raises ArcopsError.

    False: it serves, and its caches were not empty (an older daemon knows nothing of them).
    """
    await _carry_out(socket, lambda client: client.restart(wire.RestartRequest(fresh_caches=True)))
    return (await asyncio.to_thread(serving, socket)).fresh_caches


async def change(
    socket: Path, profile: str, *, replace: bool = False, taken: Callable[[int], None] = lambda _: None
) -> None:
    """Run another profile, until it serves. Raises ArcopsError: refused, or it failed.

    `replace`: even while another order is under way. `taken` hears the order's id as soon as the daemon has it, on a
    thread of its own; also where this is cancelled meanwhile.
    """
    request = wire.SwitchRequest(profile=profile, replace=replace)

    def order(client: Client) -> wire.Accepted:
        accepted = client.switch(request)
        if accepted.order_id is not None:
            taken(accepted.order_id)
        return accepted

    await _carry_out(socket, order)


async def _carry_out(socket: Path, order: Callable[[Client], wire.Accepted]) -> None:
    accepted = await _given(socket, order)
    if accepted.order_id is None:
        return
    settled = await _settled(socket, accepted.order_id)
    if settled.exit_code != ExitCode.DONE:
        code = ExitCode.of(settled.exit_code)
        raise ArcopsError(settled.summary, hint=settled.hint, exit_code=code)


async def _given(socket: Path, order: Callable[[Client], wire.Accepted]) -> wire.Accepted:
    """Give it. Cancelled, this ends only when the daemon has it: it cannot be called back, and one that is given then
    has to come after it."""
    giving = asyncio.ensure_future(asyncio.to_thread(_with_client, socket, order))
    try:
        return await asyncio.shield(giving)
    except asyncio.CancelledError:
        # Whether it was refused is of no matter any more, and nobody has to be told.
        giving.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait((giving,))
        raise


async def _settled(socket: Path, order_id: int) -> wire.OutcomeInfo:
    """What became of the order; the daemon may be restarted meanwhile. Raises ArcopsError where nobody can tell."""
    gone_since: float | None = None
    loop = asyncio.get_running_loop()
    while True:
        try:
            status = await asyncio.to_thread(_with_client, socket, Client.status)
        except NoDaemonError:
            gone_since = loop.time() if gone_since is None else gone_since
            if loop.time() - gone_since > RECONNECT_WITHIN:
                raise
        else:
            gone_since = None
            found = outcome_in(status, order_id)
            if found is not None:
                return found
        await asyncio.sleep(LOOK_EVERY)


def outcome_in(status: wire.Status, order_id: int) -> wire.OutcomeInfo | None:
    """What became of an order to run; None while it is under way. Raises ArcopsError where another one came."""
    settled = next((one for one in status.settled if one.order_id == order_id), None)
    if settled is not None:
        return settled
    if status.order.id > order_id:
        raise ArcopsError(
            f"the order to run {status.order.profile or 'nothing'} came in between", hint="measure again, undisturbed"
        )
    # Settled by a daemon that was restarted since: what is the case is all there is to go by.
    if status.order.id == order_id and status.order.committed and status.phase in _LASTING:
        code = ExitCode.DONE if status.phase == "serving" else ExitCode.FAILED
        return wire.OutcomeInfo(
            order_id=order_id,
            exit_code=int(code),
            summary=f"{status.phase}: {status.reason}",
            hint="",
            evidence="",
            superseded=False,
            returned_to=None,
        )
    return None


def _with_client(socket: Path, ask: Callable[[Client], T]) -> T:
    with Client(socket) as client:
        return ask(client)
