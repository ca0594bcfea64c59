"""What a daemon said, with the times at which it did, in one file: JSON lines, gzipped where the name ends in `.gz`.

The first line is the header, every other one an `Entry`. A file that was cut off (a full disk, a kill) is read as far
as it goes. What the daemon's API does not say is not in it: no secret of a profile, no environment.
"""

import gzip
import os
import stat
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import BinaryIO, Final, cast

import msgspec

from arcops import wire, words
from arcops.core.errors import ArcopsError, ExitCode

FORMAT: Final = 1
"""Raised when an older reader would misread a file. New optional fields do not raise it."""
MOST_BYTES = 256 * 1024 * 1024
"""Of one recording, before it is compressed: a day of a server that writes little, some hours of one that chatters."""
LONGEST_LINE = 16 * 1024 * 1024
"""Bytes. The longest line that is written holds an hour of seconds: half a megabyte."""
_GZIP = b"\x1f\x8b"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What the file is, and when and of what it was made."""

    arcops_recording: int
    """The format."""
    arcops: str
    """The version that recorded."""
    instance: str
    at: float
    """When it began, in seconds since the epoch by the recorder's clock."""
    window: float
    """Seconds that the statuses' rates are taken over."""
    logs: bool
    """Whether lines of log were recorded."""


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon did not answer any more, as a client saw it."""

    problem: str
    hint: str


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was said, `at` seconds after the beginning."""

    at: float
    status: wire.Status | None = None
    history: tuple[wire.HistoryPoint, ...] = ()
    """Seconds that had passed since those before: of a daemon that tells no samples."""
    log: wire.LogLines | None = None
    anew: bool = False
    """The lines are the end of a log as it stood, in place of those before: the stream had to begin again."""
    supervisor: tuple[str, ...] = ()
    """Lines of the supervisor's own log."""
    event: wire.Event | None = None
    samples: wire.Samples | None = None
    """Those that came since the ones before, of the same step."""
    profiles: wire.Profiles | None = None
    """Told at the beginning, and whenever another launch had begun."""
    cards: wire.Cards | None = None
    """The machine's cards and who holds them; the statuses have a glance at them each."""
    gone: Gone | None = None


_ENTRIES = msgspec.json.Decoder(Entry)
_HEADERS = msgspec.json.Decoder(Header)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class FullError(ArcopsError):
    """The recording has reached MOST_BYTES."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} has reached its limit of {MOST_BYTES // 2**20} MiB, and ends here")


class Writer:
    """Writes a recording. What was flushed is readable, whatever happens next."""

    def __init__(self, path: Path, file: BinaryIO, header: Header) -> None:
        self._path, self._file = path, file
        self.bytes = 0
        """Before compression."""
        self._line(msgspec.json.encode(header))
        self.flush()

    def add(self, entry: Entry) -> None:
        """Raises FullError in place of writing more than there may be, and ArcopsError if it cannot be written."""
        self._line(msgspec.json.encode(entry))

    def flush(self) -> None:
        """Hand over to the system what was written so far. Raises ArcopsError."""
        with _as_error(self._path, "write"):
            self._file.flush()

    def _line(self, line: bytes) -> None:
        if self.bytes + len(line) + 1 > MOST_BYTES:
            raise FullError(self._path)
        with _as_error(self._path, "write"):
            self._file.write(line + b"\n")
        self.bytes += len(line) + 1


def refuse_to_overwrite(path: Path) -> None:
    """Raises ArcopsError where something is there already."""
    if os.path.lexists(path):
        raise ArcopsError(f"{path} is there already", hint="--force overwrites it", exit_code=ExitCode.USAGE)


def _replaceable(path: Path) -> None:
    """Raises ArcopsError for what --force must not take away: a link, a device, a folder."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ArcopsError(f"{path} is no plain file, and is not replaced", exit_code=ExitCode.USAGE)


@contextmanager
def writing(path: Path, header: Header, *, force: bool = False) -> Generator[Writer]:
    """A new file, for its owner only. What was there before is replaced where `force` says so, else it is refused."""
    if not force:
        refuse_to_overwrite(path)
    with _as_error(path, "write"):
        if os.path.lexists(path):
            _replaceable(path)
            path.unlink()
        raw = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
    file = cast("BinaryIO", gzip.GzipFile("", "wb", fileobj=raw, mtime=0)) if path.suffix == ".gz" else raw
    try:
        yield Writer(path, file, header)
    except BaseException:
        for one in (file, raw):
            with suppress(OSError):  # a disk that is full was complained about already
                one.close()
        raise
    with _as_error(path, "write"):
        file.close()
        raw.close()


@dataclass(slots=True)
class Recording:
    """A file that was read. Statuses and cards stay as they lie in it until they are asked for: a day has 86,400
    statuses."""

    path: Path
    header: Header
    length: float = 0.0
    """Seconds from the beginning to the last entry."""
    cut: bool = False
    """The file ends in the middle of something."""
    beats: list[tuple[float, bytes]] = field(default_factory=list[tuple[float, bytes]])
    """Entries with a status, and those that say that the daemon had gone, in order."""
    log: list[tuple[float, Entry]] = field(default_factory=list[tuple[float, Entry]])
    """Entries with lines of the backend's log."""
    supervisor: list[tuple[float, Entry]] = field(default_factory=list[tuple[float, Entry]])
    """Entries with lines of the supervisor's."""
    history: list[tuple[float, wire.HistoryPoint]] = field(default_factory=list[tuple[float, wire.HistoryPoint]])
    events: list[tuple[float, wire.Event]] = field(default_factory=list[tuple[float, wire.Event]])
    samples: list[tuple[float, wire.Samples]] = field(default_factory=list[tuple[float, wire.Samples]])
    profiles: list[tuple[float, wire.Profiles]] = field(default_factory=list[tuple[float, wire.Profiles]])
    cards: list[tuple[float, bytes]] = field(default_factory=list[tuple[float, bytes]])
    """Entries that tell of the cards."""

    def beat(self, index: int) -> Entry:
        """The entry of `beats[index]`."""
        return _ENTRIES.decode(self.beats[index][1])

    def cards_told(self, index: int) -> wire.Cards | None:
        """What `cards[index]` says."""
        return _ENTRIES.decode(self.cards[index][1]).cards

    def take(self, entry: Entry, line: bytes) -> None:
        """Put the next entry into its place. A time that goes back counts as the one before it."""
        self.length = at = max(self.length, entry.at)
        if entry.status is not None or entry.gone is not None:
            self.beats.append((at, line))
        if entry.log is not None:
            self.log.append((at, entry))
        if entry.supervisor:
            self.supervisor.append((at, entry))
        if entry.samples is not None:
            self.samples.append((at, entry.samples))
        if entry.profiles is not None:
            self.profiles.append((at, entry.profiles))
        if entry.cards is not None:
            self.cards.append((at, line))
        if entry.event is not None:
            self.events.append((at, entry.event))
        self.history.extend((at, point) for point in entry.history)


def read(path: Path) -> Recording:
    """Read and check the whole file. Raises ArcopsError for one that is no recording, is damaged, or is too new."""
    with _as_error(path, "read"), closing(_opened(path)) as file:
        lines = _lines(path, file)
        first = next(lines, b"")
        recording = Recording(path, _header(path, first))
        for number, line in enumerate(lines, start=2):
            if not line.endswith(b"\n"):
                recording.cut = True
                break
            try:
                entry = _ENTRIES.decode(line)
            except _UNREADABLE as error:
                raise _damaged(path, f"line {number} cannot be read: {error}") from error
            if not isfinite(entry.at):
                raise _damaged(path, f"line {number} has no time")
            recording.take(entry, line)
    if not recording.beats:
        raise _damaged(path, "no status is in it")
    return recording


def _opened(path: Path) -> BinaryIO:
    file = path.open("rb")
    try:
        packed = file.peek(2)[:2] == _GZIP
    except BaseException:
        file.close()
        raise
    return cast("BinaryIO", _Unpacked(file)) if packed else file


class _Unpacked(gzip.GzipFile):
    """Closes the file below as well."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._below = file

    def close(self) -> None:
        super().close()
        self._below.close()


def _lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Line by line; the last one has no newline where the file was cut off."""
    left = MOST_BYTES
    while True:
        try:
            line = file.readline(LONGEST_LINE)
        except EOFError:  # the compressed stream has no end; whole lines before it were given already
            yield b""
            return
        except (gzip.BadGzipFile, zlib.error) as error:
            raise _damaged(path, str(error)) from error
        if not line:
            return
        left -= len(line)
        if left < 0 or (len(line) == LONGEST_LINE and not line.endswith(b"\n")):
            raise _damaged(path, "it is longer than any that arcops writes")
        yield line


def _header(path: Path, line: bytes) -> Header:
    try:
        header = _HEADERS.decode(line)
    except _UNREADABLE as error:
        raise ArcopsError(
            f"{path} is no recording of arcops", hint="`arcops record FILE` makes one of a running daemon"
        ) from error
    if header.arcops_recording > FORMAT:
        raise ArcopsError(
            f"{path} was recorded by arcops {words.clean(header.arcops)} in a newer format than this one reads",
            hint=f"play it with arcops {words.clean(header.arcops)} or later",
        )
    if not (isfinite(header.at) and isfinite(header.window) and 0 <= header.at < 1e11 and header.window > 0):
        raise _damaged(path, "its first line makes no sense")
    return header


def _damaged(path: Path, why: str) -> ArcopsError:
    return ArcopsError(f"the recording {path} is damaged: {why}", hint="was it changed, or not copied whole?")


@contextmanager
def _as_error(path: Path, what: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        missing = what == "read" and isinstance(error, FileNotFoundError)
        raise ArcopsError(
            f"cannot {what} {path}: {error.strerror or error}",
            exit_code=ExitCode.USAGE if missing else ExitCode.FAILED,
        ) from error
