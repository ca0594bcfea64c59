"""What the daemon keeps on the file system: looked after, and made anew where somebody has taken it away.

A cleaner of temporary files, an operator's `rm -r`, a file system that was mounted over: the backend goes on, and the
supervisor stays reachable, alone, and able to find its backend again.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError
from arcops.daemon.act import Actor
from arcops.daemon.aside import READ_WITHIN, Aside
from arcops.daemon.leavings import sweep
from arcops.daemon.server import ControlServer
from arcops.machine.lock import DaemonLock
from arcops.machine.store import Store

TENDED_EVERY = 0.5
"""Seconds between two rounds: eight `stat` calls each, on a thread, for a disk may hang."""
SWEPT_EVERY = 20
"""Rounds between two looks for what launches have left that are gone; the first round takes one."""

_log = structlog.get_logger(__name__)


class Premises:
    """Looks after directories, sockets, locks, the launch record and the database."""

    def __init__(self, paths: Paths, store: Store, actor: Actor, server: ControlServer) -> None:
        self._paths = paths
        self._store = store
        self._actor = actor
        self._server = server
        self._guarded: list[tuple[DaemonLock, Path]] = []
        self._troubles: dict[str, str] = {}
        self._rounds = 0
        self._aside = Aside[list[str]](READ_WITHIN, at_once=1)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is missing and cannot be put back, in words."""
        return tuple(self._troubles.values())

    def guard(self, lock: DaemonLock, path: Path) -> None:
        """A lock that keeps a second daemon out, for as long as its file is there."""
        self._guarded.append((lock, path))

    async def run(self, tell: Callable[[str], None]) -> None:
        """Tend until cancelled; `tell` hears what was put back."""
        while True:
            for news in await self.tend():
                _log.warning("premises", news=news)
                tell(news)
            await asyncio.sleep(TENDED_EVERY)

    async def tend(self) -> tuple[str, ...]:
        """One round; what was put back, in words."""
        news = await self._tend_files()
        for what, mend in (
            ("control socket", self._mend_socket),
            ("backend's lock", self._mend_backend_lock),
            ("backend's files", self._mend_backend_files),
        ):
            self._try(what, mend, news)
        return tuple(news)

    async def _tend_files(self) -> list[str]:
        try:
            news = await self._aside.run(self._tend_on_a_thread)
        except TimeoutError as error:
            self._note_trouble("files", f"what the supervisor keeps on disk cannot be looked at: {error}")
            return []
        self._troubles.pop("files", None)
        return news

    def _tend_on_a_thread(self) -> list[str]:
        news: list[str] = []
        self._try("directories", self._mend_directories, news)
        for lock, path in self._guarded:
            self._try(f"lock {path}", lambda lock=lock, path=path: _mend_lock(lock, path), news)
        self._try("database", self._store.tend, news)
        if self._rounds % SWEPT_EVERY == 0:
            self._try("folders of launches", self._sweep, news)
        self._rounds += 1
        return news

    def _try(self, what: str, mend: Callable[[], str | None], news: list[str]) -> None:
        """Whatever cannot be mended is trouble, and no reason to leave the rest."""
        try:
            done = mend()
        except (OSError, ArcopsError) as error:
            words = error.message if isinstance(error, ArcopsError) else error
            self._note_trouble(what, f"the {what} cannot be kept up: {words}")
            return
        self._troubles.pop(what, None)
        if done is not None:
            news.append(done)

    def _note_trouble(self, what: str, trouble: str) -> None:
        if self._troubles.get(what) != trouble:
            _log.warning("trouble", trouble=trouble)
        self._troubles[what] = trouble

    def _sweep(self) -> str | None:
        return "; ".join(sweep(str(self._paths.keeper_dir), self._current)) or None

    def _current(self) -> str | None:
        live = self._actor.live  # read once: this is a thread, and the loop may forget the launch at any moment
        return None if live is None else live.record.launch_id

    def _mend_directories(self) -> str | None:
        missing = [
            str(path)
            for path in (
                self._paths.runtime_dir,
                self._paths.keeper_dir,
                self._paths.state_dir,
                self._paths.log_dir,
            )
            if not path.is_dir()
        ]
        if not missing:
            return None
        self._paths.make()
        return f"removed by somebody, and made anew: {', '.join(missing)}"

    def _mend_socket(self) -> str | None:
        return "the control socket was removed by somebody, and is there again" if self._server.renew() else None

    def _mend_backend_lock(self) -> str | None:
        renewed = self._actor.locks.renew()
        return f"the lock file {', '.join(renewed)} was removed by somebody, and is locked anew" if renewed else None

    def _mend_backend_files(self) -> str | None:
        return None if self._actor.live is None else self._actor.live.keep_files()


def _mend_lock(lock: DaemonLock, path: Path) -> str | None:
    return f"the daemon's lock {path} was removed by somebody, and is taken anew" if lock.renew(str(path)) else None
