"""`arcops record`: what the daemon says, into a file that `arcops tui --replay` plays."""

import asyncio
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from arcops import __version__, recording, wire, words
from arcops.cli import output
from arcops.cli.connect import client_of
from arcops.cli.durations import seconds
from arcops.cli.main import instance_of
from arcops.client import LiveClient
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, NoDaemonError
from arcops.recording import Entry, Gone, Header, Writer

SECOND, MINUTE = 1.0, 60.0
"""Steps of the numbers' history."""
PAST = 600.0
"""Seconds before the beginning of which it has a number each second."""
DISTANT_PAST = 86_400.0
"""Seconds before the beginning of which it has a number a minute."""
LOG_LINES = 300
"""Lines that were in the log before the beginning."""
EVENTS = 200
"""Events that had happened before the beginning."""
CARDS_EVERY = 5.0
"""Seconds between two words about the cards, where there are any."""
RETRY = 1.0
"""Seconds between two tries to reach a daemon that has gone."""
CLOCKS_DIFFER = 2.0
"""Seconds that are asked for beyond those that must have passed, so that none is missing."""
TOLD_EVERY = 1.0


def record(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; packed if it ends in .gz.")],
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long, 10m for example; else until Ctrl-C.")
    ] = None,
    window: Annotated[
        str, typer.Option("--window", metavar="TIME", help="What rates and latencies are taken over.")
    ] = "60s",
    no_logs: Annotated[bool, typer.Option("--no-logs", help="Leave out what the backend writes.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
) -> None:
    """Record what the daemon says, for `arcops tui --replay FILE`: statuses, numbers, events, and the backend's log.

    Ctrl-C ends it in good order. A daemon that is restarted meanwhile is waited for. A profile's secrets are not in it;
    lines of log may hold what people asked the model, and --no-logs leaves them out.
    """
    limit = None if duration is None else seconds(duration, least=1.0)
    over = seconds(window, least=1.0)
    if not force:
        recording.refuse_to_overwrite(file)
    with client_of(ctx) as client:
        instance = client.ping().instance  # no file where there is nobody to listen to
    header = Header(
        arcops_recording=recording.FORMAT,
        arcops=__version__,
        instance=instance,
        at=time.time(),
        window=over,
        logs=not no_logs,
    )
    with recording.writing(file, header, force=force) as writer:
        recorder = Recorder(LiveClient(Paths.of(instance_of(ctx)).socket), writer, header)
        why = asyncio.run(recorder.run(limit))
    output.data(f"{file}: {recorder.summary()}, {_size(file.stat().st_size)}")
    if why is not None:
        raise why
    output.note(f"`arcops tui --replay {file}` plays it")


class Recorder:
    """Listens to the daemon's streams and writes down what they say, each with its time."""

    def __init__(self, client: LiveClient, writer: Writer, header: Header) -> None:
        self._client, self._writer, self._header = client, writer, header
        self._began = time.monotonic()
        self._newest: float | None = None
        """`at` of the newest second of the history that was written."""
        self._last_event = -EVENTS
        self.seen: Counter[str] = Counter()
        """How much of each kind was written."""
        self._present = asyncio.Event()
        """The daemon answers, as the stream of statuses tells."""
        self._launch: str | None = ""
        self._another_launch = asyncio.Event()
        self._over = asyncio.Event()
        self._failure: ArcopsError | None = None

    async def run(self, limit: float | None) -> ArcopsError | None:
        """Record for `limit` seconds, or until SIGINT or SIGTERM; what kept it from that, if anything did."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.end)
        work = [self._statuses(), self._samples(SECOND, PAST), self._samples(MINUTE, DISTANT_PAST)]
        work += [self._events(), self._profiles(), self._cards(), self._tell()]
        if self._header.logs:
            work += [self._logs(supervisor=False), self._logs(supervisor=True)]
        tasks = [asyncio.ensure_future(one) for one in work]
        end = asyncio.ensure_future(self._over.wait())
        try:
            # None of the tasks ends by itself: one that does has a fault, which is raised below.
            await asyncio.wait([*tasks, end], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, end):
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            await self._client.close()
        if _on_a_terminal():
            output.rewrite("")
        for one in ends:
            if isinstance(one, Exception):
                raise one
        return self._failure

    def end(self) -> None:
        """Record no more."""
        self._over.set()

    def summary(self) -> str:
        """`10 min 02 s, 601 statuses, 14 events, 1,204 lines of log, the daemon was away twice`."""
        told = [words.duration(time.monotonic() - self._began)]
        kinds = ("statuses", "events", "lines of log") if self._header.logs else ("statuses", "events")
        told += [f"{self.seen[kind]:,} {kind}" for kind in kinds]
        away = self.seen["away"]
        if away:
            told.append(f"the daemon was away {'once' if away == 1 else f'{away} times'}")
        return ", ".join(told)

    async def _statuses(self) -> None:
        while True:
            gone = Gone(problem="the daemon has ended", hint="is it being restarted?")
            try:
                async for status in self._client.follow_status(self._header.window):
                    self._write(Entry(at=self._now(), status=status), "statuses")
                    self._present.set()
                    launch = None if status.backend is None else status.backend.launch_id
                    if launch != self._launch:
                        self._launch = launch
                        self._another_launch.set()
            except ArcopsError as error:
                gone = Gone(problem=error.message, hint=error.hint)
            if self._present.is_set():
                self._present.clear()
                self._write(Entry(at=self._now(), gone=gone), "away")
            await asyncio.sleep(RETRY)

    async def _profiles(self) -> None:
        while True:
            await self._another_launch.wait()
            self._another_launch.clear()
            with suppress(ArcopsError):
                self._write(Entry(at=self._now(), profiles=await self._client.profiles()))

    async def _cards(self) -> None:
        """What stays the same is not written again: of a machine without cards once."""
        told: wire.Cards | None = None
        while True:
            await self._present.wait()
            with suppress(ArcopsError):  # an earlier daemon tells of no cards; the stream of statuses says what else is
                new = await self._client.cards()
                if told is None or new.cards or told.cards:
                    self._write(Entry(at=self._now(), cards=new), "cards")
                    told = new
            await asyncio.sleep(CARDS_EVERY)

    async def _events(self) -> None:
        while True:
            await self._present.wait()
            with suppress(ArcopsError):
                async for event in self._client.follow_events(self._last_event):
                    self._last_event = event.id
                    self._write(Entry(at=self._now(), event=event), "events")
            await asyncio.sleep(RETRY)

    async def _samples(self, step: float, past: float) -> None:
        """The numbers' history, a page whenever `step` seconds have passed."""
        since = time.time() - past
        while True:
            await self._present.wait()
            try:
                page = await self._client.samples(since, None, step)
            except NoDaemonError:
                page = None  # the stream of statuses says so
            except ArcopsError:
                page = None
                if step == SECOND:
                    await self._short_history()  # an earlier daemon, which tells no more
            if page is not None:
                if page.points:
                    self._write(Entry(at=self._now(), samples=page), "seconds", len(page.points))
                if page.next is not None and page.next > since:
                    since = page.next
                    continue
                if page.points:  # the last minute may not be over: it is told again
                    since = page.points[-1].at + (step / 2 if step == SECOND else 0.0)
            await asyncio.sleep(step)

    async def _short_history(self) -> None:
        since = PAST if self._newest is None else time.time() - self._newest + CLOCKS_DIFFER
        with suppress(ArcopsError):
            points = (await self._client.history(min(PAST, max(CLOCKS_DIFFER, since)))).points
            new = tuple(point for point in points if self._newest is None or point.at > self._newest)
            if new:
                self._newest = new[-1].at
                self._write(Entry(at=self._now(), history=new), "seconds", len(new))

    async def _logs(self, *, supervisor: bool) -> None:
        while True:
            await self._present.wait()
            anew = True
            with suppress(ArcopsError):
                async for page in self._client.follow_logs(LOG_LINES, supervisor=supervisor):
                    if supervisor and page.of != "supervisor":
                        await self._over.wait()  # an earlier daemon, which does not tell its own log
                    # Nothing wider is ever shown but that it was wider, and one line may not fill the file.
                    lines = tuple(line[: words.MAX_LINE + 1] for line in page.lines)
                    self._write_lines(page.launch_id, lines, supervisor=supervisor, anew=anew)
                    anew = False
            await asyncio.sleep(RETRY)

    def _write_lines(self, launch: str | None, lines: tuple[str, ...], *, supervisor: bool, anew: bool) -> None:
        if supervisor:
            self._write(Entry(at=self._now(), supervisor=lines, anew=anew))
            return
        log = wire.LogLines(launch_id=launch, lines=lines)
        self._write(Entry(at=self._now(), log=log, anew=anew), "lines of log", len(lines))

    async def _tell(self) -> None:
        """How far it is, on a terminal."""
        while _on_a_terminal():
            state = "recording" if self._present.is_set() else "the daemon is away; recording goes on when it is back"
            size = _size(self._writer.bytes)
            output.rewrite(f"{state}: {words.duration(self._now())}, {size}; Ctrl-C ends it")
            await asyncio.sleep(TOLD_EVERY)
        await self._over.wait()

    def _now(self) -> float:
        """Seconds since the beginning, to the millisecond."""
        return round(time.monotonic() - self._began, 3)

    def _write(self, entry: Entry, kind: str = "", many: int = 1) -> None:
        """Write it down; a file that takes no more ends the recording."""
        if self._failure is not None:
            return
        try:
            self._writer.add(entry)
            if entry.status is not None or entry.gone is not None:
                self._writer.flush()
        except ArcopsError as error:
            self._failure = error
            self._over.set()
            return
        self.seen[kind] += many


def _on_a_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison] - `2>&-`


def _size(size: int) -> str:
    return f"{size / 1024:.0f} KiB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MiB"
