"""Checkpoints as somebody else may have written them: config.json, safetensors headers, an index, and command lines."""

import json
import struct
from pathlib import Path
from random import Random
from typing import cast

import pytest

from arcops.core.budget.cache import shape_of
from arcops.core.budget.demand import PLATFORMS, Checkpoint, Remembered, demand_of
from arcops.core.budget.model import ShapeError, model_of
from arcops.core.budget.plan import Room, plan_of
from arcops.core.budget.wants import Wants, wants_of
from arcops.core.budget.weights import Weights, weights_of
from arcops.machine import checkpoint
from arcops.machine.checkpoint import CheckpointError, read_config, read_header, shards_of
from tests.fuzz import mutate
from tests.fuzz.harness import fuzz

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(900)]

SHARE = 0.4
"""Of the inputs of other readers: these are read once before a launch, and not all day."""
MODELS = Path(__file__).parents[1] / "data" / "models"
CONFIGS = [path.read_text() for path in sorted(MODELS.glob("*/config.json"))]
PLAIN = '{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[4,8],"data_offsets":[0,64]}}'
HEADERS = [
    PLAIN,
    json.dumps(
        {
            "model.embed_tokens.weight": {"dtype": "I32", "shape": [3], "data_offsets": [0, 12]},
            "mtp.fc.weight": {"dtype": "F8_E4M3", "shape": [], "data_offsets": [12, 13]},
        }
    ),
]
INDICES = ['{"metadata":{"total_size":64},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}']
COMMANDS = [
    ["vllm", "serve", "MODEL", "--max-model-len", "4096", "--kv-cache-memory-bytes", "1073741824", "-tp", "2"],
    ["vllm", "serve", "MODEL", "--gpu-memory-utilization=0.9", "--kv-cache-dtype", "fp8", "--block-size", "64"],
    [
        *("vllm", "serve", "MODEL", "--no-enable-prefix-caching", "--mamba-ssm-cache-dtype", "float16"),
        *("--speculative-config", '{"method":"mtp","num_speculative_tokens":3,"synthetic_acceptance_length":2.5}'),
    ],
]
ROOMS = (Room(None, None), Room(0, 0), Room(32 << 30, None), Room(32 << 30, 40 << 30))


def _document(random: Random, samples: list[str]) -> bytes:
    """A sample with its tree changed, or its text."""
    sample = random.choice(samples)
    if random.random() < 0.3:
        return mutate.octets(random, sample, samples)
    data = mutate.tree(random, cast("mutate.Tree", json.loads(sample)))
    return json.dumps(data).encode("utf-8", "surrogatepass")


def test_any_configuration_is_a_plan_or_one_error_in_words(memory: Path) -> None:
    path = memory / checkpoint.CONFIG

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        model = model_of(read_config(str(memory)))
        for kind in PLATFORMS:
            wants = Wants("MODEL", context=4096, pool=1 << 30)
            demand = demand_of(wants, kind, Checkpoint(model, Weights((), ())), None, Remembered(), None)
            for room in ROOMS:
                assert plan_of(demand, room).reason

    fuzz(
        "configurations",
        lambda random: _document(random, CONFIGS),
        feed,
        declared=(CheckpointError, ShapeError),
        share=SHARE,
    )


def test_any_header_is_tensors_or_one_error_in_words(memory: Path) -> None:
    path = memory / "model.safetensors"

    def make(random: Random) -> bytes:
        text = _document(random, HEADERS)
        length = len(text) if random.random() < 0.8 else random.choice((0, 1, 7, len(text) + 1, 2**40, 2**64 - 1))
        content = struct.pack("<Q", length) + text + bytes(random.choice((0, 12, 13, 64, 80)))
        return content if random.random() < 0.8 else content[: random.randrange(len(content))]

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        weights = weights_of(read_header(str(path)), ranks=2)
        assert 0 <= weights.total <= len(content)

    fuzz("headers", make, feed, declared=(CheckpointError,), share=SHARE)


def test_any_index_is_files_or_one_error_in_words(memory: Path) -> None:
    header = PLAIN.encode()
    for name in ("one", "two"):
        (memory / f"{name}.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))
    path = memory / checkpoint.INDEX

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        for shard in shards_of(str(memory)):
            assert Path(shard.path).parent == memory

    fuzz("indices", lambda random: _document(random, INDICES), feed, declared=(CheckpointError,), share=SHARE)


def test_any_command_line_is_wants_or_one_error_in_words() -> None:
    model = model_of(json.loads((MODELS / "tiny-hybrid" / "config.json").read_text()))
    target = Checkpoint(model, Weights((), ()))

    def make(random: Random) -> list[str]:
        argv = list(random.choice(COMMANDS))
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(argv))
            argv[at] = random.choice((mutate.text(random, argv[at], mutate.STRINGS), *mutate.NUMBERS))
        return argv if random.random() < 0.9 else argv[: random.randrange(len(argv))]

    def feed(argv: list[str]) -> None:
        wants = wants_of(argv)
        demand = demand_of(wants, "xpu", target, target, Remembered(), 32 << 30)
        shape = shape_of(demand.layers, demand.settings)
        assert shape is None or shape.pool_for() > 0
        assert plan_of(demand, Room(32 << 30, 0)).reason

    fuzz("command lines", make, feed, declared=(ShapeError,), share=SHARE)
