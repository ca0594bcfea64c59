"""The past behind the plots, as it was known at a moment of a recording."""

from bisect import bisect_right

from arcops import wire
from arcops.recording import Recording
from arcops.tui.past import Past

SECOND, MINUTE = 1.0, 60.0


class RecordedPast:
    """Grows while the recording goes on; built anew when it is wound back."""

    def __init__(self, recording: Recording) -> None:
        self._pages = [(at, page.points) for at, page in recording.samples if page.step == SECOND]
        self._minutes = [point for _, page in recording.samples if page.step == MINUTE for point in page.points]
        self._short = _by_page(recording)
        self._restart()

    def _restart(self) -> None:
        self._past = Past()
        self._at = 0.0
        self._fed = 0

    def at(self, now: float, status: wire.Status | None) -> Past:
        """What was known `now` seconds after the beginning, with that status."""
        if now < self._at:
            self._restart()
        self._at = now
        if not self._pages:
            self._feed_short(now)
        while self._fed < len(self._pages) and self._pages[self._fed][0] <= now:
            self._past.take_samples(self._pages[self._fed][1])
            if not self._fed:
                self._past.take_minutes(self._minutes)  # what was before the first second: nothing later is among it
            self._fed += 1
        if status is not None and status.backend is not None:
            self._past.launched(status.backend.launch_id, status.backend.profile, status.backend.spawned_at)
        return self._past

    def _feed_short(self, now: float) -> None:
        """Of a daemon that told the short history only."""
        end = bisect_right(self._short, now, key=lambda page: page[0])
        for _, points in self._short[self._fed : end]:
            self._past.take(points)
        self._fed = end


def _by_page(recording: Recording) -> list[tuple[float, tuple[wire.HistoryPoint, ...]]]:
    pages: list[tuple[float, list[wire.HistoryPoint]]] = []
    for at, point in recording.history:
        if not pages or pages[-1][0] != at:
            pages.append((at, []))
        pages[-1][1].append(point)
    return [(at, tuple(points)) for at, points in pages]
