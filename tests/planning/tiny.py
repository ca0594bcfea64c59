"""A checkpoint that is small and whole: 1,024 bytes of cache a token, weights as a hole in a file."""

import json
from pathlib import Path

from tests.planning.reference import MODELS, plain, write

TOKEN = 1024
"""Bytes of cache: two layers with two heads of 64, keys and values in BF16."""


def tiny(folder: Path, rows: int = 512) -> Path:
    """Its embedding has so many rows of 256 bytes."""
    config = json.loads((MODELS / "tiny-dense" / "config.json").read_text())
    return write(folder, config, plain("model.embed_tokens", rows, config["hidden_size"]))
