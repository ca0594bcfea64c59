"""The one family of errors that arcops shows to people, and the exit codes that go with them."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What `arcops` tells the shell. The numbers are an interface: scripts depend on them."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_RUNNING = 3
    BUSY = 4
    BLOCKED = 5
    INVALID = 6
    BACKEND_FAILED = 7
    NO_DAEMON = 8
    WEDGED = 9
    TIMED_OUT = 124

    @classmethod
    def of(cls, code: int) -> "ExitCode":
        """The code of this number; the plain failure for one that is not known here (of a newer daemon, say)."""
        return cls(code) if code in cls.__members__.values() else cls.FAILED


class ArcopsError(Exception):
    """Something that a person has to know, in one or two lines.

    `message` says what is wrong, `hint` what to do about it, `exit_code` what the shell is told.
    """

    def __init__(self, message: str, *, hint: str = "", exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class InvalidProfileError(ArcopsError):
    """A profile or a configuration file that cannot be used as it stands."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=ExitCode.INVALID)


class BlockedError(ArcopsError):
    """Somebody else holds what a launch needs: the card, its lock or the port."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=ExitCode.BLOCKED)


class BusyError(ArcopsError):
    """Another order is under way, or another daemon owns this instance."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=ExitCode.BUSY)


class NoDaemonError(ArcopsError):
    """Nobody answers on the control socket."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=ExitCode.NO_DAEMON)
