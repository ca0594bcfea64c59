"""Orders, and what is answered to them."""

from arcops.core.errors import ArcopsError, ExitCode
from arcops.wire.message import Message


class SwitchRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run this profile instead of what runs now."""

    profile: str
    drain: float | None = None
    """Seconds that open requests are given; null for the running profile's own limit, 0 for now."""
    replace: bool = False
    """Overtake an order that is under way."""
    rollback: bool = True
    """Return to the previous profile if this one fails."""
    dry_run: bool = False
    force: bool = False
    """Even if it does not fit its cards, by the plan of its memory."""
    qualified: bool = False
    """Only if the profile has passed `arcops qualify` in the very environment that it would run in."""


class StopRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop the backend, and run none until told otherwise."""

    drain: float | None = None


class RestartRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run the ordered profile anew, as its file says now; forgives a latched failure."""

    drain: float | None = None
    replace: bool = False
    force: bool = False
    """Even if it does not fit its cards, by the plan of its memory."""
    fresh_caches: bool = False
    """With compile caches of its own, empty, that go with the launch: nothing of an earlier launch is reused."""


class Accepted(Message, frozen=True, kw_only=True):
    """The order was taken (or there is nothing to do: then `done` says so)."""

    order_id: int | None
    done: str | None = None
    plan: tuple[str, ...] = ()
    """What will happen, a sentence each; all there is in a dry run."""


class ReloadRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Read the configuration anew."""


class Reloaded(Message, frozen=True, kw_only=True):
    """The configuration was read anew, and is valid."""

    profile: str | None
    """The ordered profile; null where nothing is ordered to run."""
    changes: tuple[str, ...]
    """What differs from what was ordered, a line each."""
    summary: str


class KeepRequest(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leave the backend running at the daemon's next end."""


class Kept(Message, frozen=True, kw_only=True):
    """The daemon's end leaves the backend running, if it comes soon enough."""

    seconds: float
    """For how long from now that is so."""
    launch_id: str | None
    """The backend that there is; null where there is none."""


class ErrorInfo(Message, frozen=True, kw_only=True):
    """What went wrong, and what the client's exit code should be."""

    message: str
    hint: str = ""
    exit_code: int = int(ExitCode.FAILED)

    def raised(self) -> ArcopsError:
        """The error as the client raises it."""
        return ArcopsError(self.message, hint=self.hint, exit_code=ExitCode.of(self.exit_code))
