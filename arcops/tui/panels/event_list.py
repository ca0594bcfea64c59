"""The history, an event a row."""

from datetime import UTC, datetime

from arcops import wire, words
from arcops.tui.event_book import EventBook, is_problem
from arcops.tui.ink import Ink, Line, Lines, Piece, plain, quiet, rule, strong

_WHAT = 10
_PROFILE = 14


def head(book: EventBook, problem: str, width: int) -> Lines:
    """Which of them are shown, and in which order."""
    order = "newest first" if book.newest_first else "newest last"
    shown = f"{book.count:,} of {len(book):,}" if book.text or book.problems_only else f"{len(book):,}"
    what: list[Piece] = []
    if problem:
        what += [("! no new ones: ", Ink.WARN), plain(f"{problem} · ")]
    if book.problems_only:
        what += [strong("problems only"), quiet(" · ")]
    if book.text:
        what += [quiet("with "), strong(f"“{book.text}”"), quiet(" · ")]
    return (rule("Events", width, remark=order), (*what, quiet(f"{shown} event{'' if len(book) == 1 else 's'}")))


def row(event: wire.Event, width: int) -> Line:
    """`! 01-15 08:00:01  failed     dflash2        reason`; on a narrow screen without the profile."""
    at = datetime.fromtimestamp(event.at, UTC).astimezone()
    what = words.clean(event.phase if event.kind == "phase" else event.kind)
    profile = f"{words.clean(event.profile or '-'):<{_PROFILE}.{_PROFILE}}  " if width >= 76 else ""
    bad = is_problem(event)
    return (
        ("! " if bad else "  ", Ink.WARN),
        quiet(f"{at:%m-%d %H:%M:%S}  "),
        (f"{what:<{_WHAT}.{_WHAT}} ", Ink.STRONG if bad else Ink.PLAIN),
        quiet(profile),
        plain(words.clean(event.reason)),
    )
