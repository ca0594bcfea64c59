"""What all views have in common: each fills the screen below the status, and is fed while it is shown."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from textual.containers import Vertical
from textual.message import Message

from arcops.tui.snapshot import Snapshot


class SwitchWanted(Message):
    """The operator chose a profile to switch to."""

    def __init__(self, profile: str) -> None:
        super().__init__()
        self.profile = profile


class View(Vertical, can_focus=True):
    """One subject that fills the screen. Its keys are bindings of its own: it has the focus while it is shown."""

    DEFAULT_CSS = "View { height: 1fr; width: 100%; }"
    NAME: ClassVar[str]
    """One word, lower case: its id, and its name in the command palette."""
    SHOWS_LOG: ClassVar[bool] = False
    """It shows the snapshots' lines of log: of a snapshot that brings nothing else the other views are not told."""

    @abstractmethod
    def show(self, snapshot: Snapshot) -> None:
        """Take the newest snapshot; called whenever there is one while this view is shown, and when it comes to be."""

    def opened(self) -> None:
        """It is shown from now on: begin to ask for what only this view needs."""
        self.focus()

    def closed(self) -> None:
        """Another view is shown: ask for nothing any more."""

    def copyable(self) -> Sequence[tuple[str, str]]:
        """What of this view is worth a place in the clipboard: a label and the value, the best first."""
        return ()
