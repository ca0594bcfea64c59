"""What the clients ask: four kinds of work, the same for the same seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from arcops.bench.tools import CASES, MAX_TOKENS, ToolCase
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.soak import KINDS

MIX: Final = "short=4,long=1,cut=1,tools=1"
MOST_WEIGHT: Final = 1000
LONG_WORDS: Final = 3000
"""Words of a long prompt, where the server takes as many: a third of its longest sequence at most."""
THINK: Final = 0.5
"""Seconds that a client waits between two requests, in the mean."""
WORDS: Final = (
    *("river", "stone", "paper", "north", "window", "engine", "letter", "garden", "summer", "bridge", "market"),
    *("copper", "silver", "harbour", "winter", "signal", "meadow", "castle", "thunder", "candle", "forest"),
    *("barrel", "orange", "island", "mirror", "pocket", "ribbon", "shadow", "tunnel", "valley", "wagon", "yellow"),
)


@dataclass(frozen=True, slots=True)
class Task:
    """One request of one client."""

    kind: str
    messages: Sequence[Mapping[str, object]]
    max_tokens: int
    think: float
    """Seconds to wait before it."""
    leave_after: int | None = None
    """Chunks after which the client goes away; None where it stays."""
    case: ToolCase | None = None
    """The tool call that is asked for; None where none is."""


def mix_of(text: str) -> dict[str, int]:
    """Weights by kind. Raises ArcopsError (usage)."""
    found: dict[str, int] = {}
    for part in text.split(","):
        kind, _, weight = part.strip().partition("=")
        right = kind in KINDS and kind not in found and weight.isascii() and weight.isdigit()
        if not right or int(weight[:9]) > MOST_WEIGHT:
            raise ArcopsError(
                f"{part.strip()[:40]!r} is no part of a mix", hint=f"like {MIX}", exit_code=ExitCode.USAGE
            )
        found[kind] = int(weight)
    if not any(found.values()):
        raise ArcopsError("the mix asks for nothing", hint=f"like {MIX}", exit_code=ExitCode.USAGE)
    return found


class Script:
    """What one client does, one request after the other."""

    def __init__(self, seed: int, client: int, mix: Mapping[str, int], longest: int | None) -> None:
        """`longest`: the server's longest sequence in tokens, where it says it."""
        self._random = random.Random(f"{seed} {client}")  # noqa: S311 - a load to be repeated, no secret
        self._kinds = [kind for kind, weight in mix.items() if weight]
        self._weights = [mix[kind] for kind in self._kinds]
        self._words = LONG_WORDS if longest is None else min(LONG_WORDS, longest // 6)

    def next(self) -> Task:
        """The next request."""
        dice = self._random
        (kind,) = dice.choices(self._kinds, self._weights)
        think = min(dice.expovariate(1 / THINK), 4 * THINK)
        match kind:
            case "long":
                words = " ".join(dice.choices(WORDS, k=self._words))
                return Task(kind, _question(f"Sum this up in a few words: {words}"), 24, think)
            case "cut":
                question = _question(f"Tell a long story of a {dice.choice(WORDS)}.")
                return Task(kind, question, 512, think, leave_after=dice.randint(1, 8))
            case "tools":
                case = dice.choice(CASES)
                return Task(kind, case.messages, MAX_TOKENS, think, case=case)
            case _:
                return Task(kind, _question(f"Say something short of a {dice.choice(WORDS)}."), 48, think)


def _question(text: str) -> Sequence[Mapping[str, object]]:
    return ({"role": "user", "content": text},)
