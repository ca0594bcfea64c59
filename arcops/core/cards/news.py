"""Which incidents are to be told: each once, and once more if it turns out graver than it was told."""

from collections import deque

from arcops.core.cards.incidents import KEPT, Incident, Noted, graver


class News:
    """What is to be told still, and what was told last of each card. What was past from the beginning is never told."""

    def __init__(self) -> None:
        self._due: dict[str | None, deque[Incident]] = {}
        self._told: dict[str | None, Incident] = {}

    def note(self, noted: Noted) -> bool:
        """Take up what came of a word; whether it makes something to be told."""
        whole = noted.incident
        if whole.past:
            return False
        due = self._due.setdefault(whole.card, deque(maxlen=KEPT))
        if due and not noted.new:
            due[-1] = whole
            return True
        last = self._told.get(whole.card)
        if noted.new or last is None or graver(whole, last):
            due.append(whole)
            return True
        return False

    def take(self) -> tuple[Incident, ...]:
        """All that is to be told now, oldest first: from here on it has been told."""
        due = sorted((one for card in self._due.values() for one in card), key=lambda one: one.at)
        self._due.clear()
        self._told.update((one.card, one) for one in due)
        return tuple(due)
