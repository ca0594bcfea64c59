"""What is done on the card, a scene each: it returns the figures that it saw, and raises where arcops failed."""

from collections.abc import Callable, Mapping

from tools.card import alone, serving
from tools.card.stage import Seen, Stage

SCENES: Mapping[str, Callable[[Stage], Seen]] = {
    "measures_idle": alone.measures_idle,
    "health": alone.health,
    "measures_busy": alone.measures_busy,
    "foreign": alone.foreign,
    "heir": alone.heir,
    "release": alone.release,
    "lock_race": serving.lock_race,
    "second_server": serving.second_server,
    "attribution": serving.attribution,
    "load": serving.load,
    "adoption": serving.adoption,
    "switch": serving.switch,
    "stray_engine": serving.stray_engine,
    "switch_back": serving.switch,
    "stop_with_stream": serving.stop_with_stream,
    "out_of_memory": serving.out_of_memory,
}
"""In the order that costs the fewest starts: each makes what it needs."""
