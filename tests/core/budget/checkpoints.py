"""The shapes of checkpoints in tests/data/models."""

import json
from pathlib import Path

from arcops.core.budget.demand import Checkpoint
from arcops.core.budget.model import Model, model_of
from arcops.core.budget.weights import Weights

MODELS = Path(__file__).parents[2] / "data" / "models"
NO_WEIGHTS = Weights((), ())


def model(name: str) -> Model:
    return model_of(json.loads((MODELS / name / "config.json").read_text()))


def checkpoint(name: str) -> Checkpoint:
    """Its shape alone, for arithmetic about the cache."""
    return Checkpoint(model(name), NO_WEIGHTS)
