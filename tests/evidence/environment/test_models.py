"""A checkpoint by its small files, its headers, samples of its values, and all of them on request."""

import json
import os
import struct
from pathlib import Path

import pytest

from arcops.core.evidence.environment import ModelFacts
from arcops.evidence.environment.models import PIECE, facts_of
from arcops.machine.checkpoint import INDEX
from arcops.machine.hashes import Hashes

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def checkpoint(folder: Path, values: bytes = b"\1" * 200_000, name: str = "model.safetensors") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"w": {"dtype": "U8", "shape": [len(values)], "data_offsets": [0, len(values)]}}).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(header)) + header + values)
    (folder / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    (folder / "tokenizer.json").write_text("{}")
    return folder


def facts(folder: Path, *, weights: bool = False) -> ModelFacts:
    hashes = Hashes(str(folder.parent / "hashes"), clock=lambda: 4e9)
    found = facts_of(str(folder), hashes, weights=weights)
    hashes.keep()
    return found


def test_a_checkpoint_is_known_by_its_files(tmp_path: Path) -> None:
    found = facts(checkpoint(tmp_path / "model"))
    assert found.problem == ""
    assert None not in (found.config_digest, found.headers_digest, found.samples_digest, found.tokenizer_digest)
    assert (found.index_digest, found.weights_digest, found.revision) == (None, None, None)


def test_it_is_the_same_elsewhere(tmp_path: Path) -> None:
    one, two = (facts(checkpoint(tmp_path / name), weights=True) for name in ("a", "b"))
    assert one.headers_digest == two.headers_digest
    assert (one.samples_digest, one.weights_digest) == (two.samples_digest, two.weights_digest)


@pytest.mark.parametrize("place", [0, 100, 199_999])
def test_one_byte_of_the_values_is_seen_by_reading_all_of_them(tmp_path: Path, place: int) -> None:
    values = bytearray(b"\1" * 200_000)
    values[place] = 2
    one, two = (
        facts(checkpoint(tmp_path / "a"), weights=True),
        facts(checkpoint(tmp_path / "b", bytes(values)), weights=True),
    )
    assert one.headers_digest == two.headers_digest
    assert one.weights_digest != two.weights_digest


def test_other_weights_of_the_same_shape_have_other_samples(tmp_path: Path) -> None:
    one, two = facts(checkpoint(tmp_path / "a")), facts(checkpoint(tmp_path / "b", b"\2" * 200_000))
    assert one.headers_digest == two.headers_digest
    assert one.samples_digest != two.samples_digest


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1])
def test_few_values_are_samples_of_themselves(tmp_path: Path, size: int) -> None:
    found = facts(checkpoint(tmp_path / "a", b"\1" * size))
    assert (found.samples_digest is not None, found.problem) == (True, "")


def test_the_first_and_the_last_values_are_among_the_samples(tmp_path: Path) -> None:
    size = 10_000_000
    digests = {
        facts(checkpoint(tmp_path / str(place), b"\1" * place + b"\2" + b"\1" * (size - place - 1))).samples_digest
        for place in (0, size - 1)
    }
    digests.add(facts(checkpoint(tmp_path / "plain", b"\1" * size)).samples_digest)
    assert len(digests) == 3


def test_weights_that_were_read_once_and_still_stand_are_known(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    whole = facts(folder, weights=True).weights_digest
    assert facts(folder).weights_digest == whole is not None
    checkpoint(folder, b"\2" * 200_000)
    assert facts(folder).weights_digest is None


def test_the_index_and_every_file_of_code_count(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model", name="a.safetensors")
    (folder / INDEX).write_text('{"weight_map": {"w": "a.safetensors"}}')
    before = facts(folder)
    (folder / "README.md").write_text("words")
    assert facts(folder) == before
    (folder / "modeling.py").write_text("code")
    assert before.index_digest is not None
    assert facts(folder).tokenizer_digest != before.tokenizer_digest


def test_a_snapshot_of_the_model_cache_has_its_commit(tmp_path: Path) -> None:
    assert facts(checkpoint(tmp_path / "models--a--b" / "snapshots" / COMMIT)).revision == COMMIT


def test_what_is_missing_is_said_and_is_no_digest(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    (folder / "config.json").unlink()
    os.truncate(folder / "model.safetensors", 1000)
    found = facts(folder)
    assert (found.config_digest, found.headers_digest, found.samples_digest) == (None, None, None)
    assert "config.json cannot be read" in found.problem
    assert "cut off" in found.problem


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    found = facts(tmp_path / "nowhere")
    assert found.headers_digest is None
    assert found.problem


def test_a_header_of_a_billion_bytes_is_refused(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    with (folder / "model.safetensors").open("r+b") as file:
        file.write(struct.pack("<Q", 10**9))
    found = facts(folder)
    assert found.headers_digest is None
    assert found.problem
