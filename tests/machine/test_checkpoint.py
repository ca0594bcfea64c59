"""Headers of safetensors files: real ones, and all that can be wrong with somebody else's."""

import json
import os
import struct
import tracemalloc
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.machine import checkpoint
from arcops.machine.checkpoint import CheckpointError, read_config, read_header, shards_of

TENSORS: Mapping[str, object] = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]},
    "b": {"dtype": "I32", "shape": [3], "data_offsets": [64, 76]},
    "c": {"dtype": "F8_E4M3", "shape": [], "data_offsets": [76, 77]},
    "d": {"dtype": "F4", "shape": [6], "data_offsets": [77, 80]},
}


def write(path: Path, header: object = TENSORS, data: int = 80, length: int | None = None) -> Path:
    """A file with this header, and as many bytes of data (none of them is written to the disk)."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text) if length is None else length) + text)
        file.truncate(8 + len(text) + data)
    return path


def test_tensors_have_their_names_types_shapes_and_sizes(tmp_path: Path) -> None:
    found = read_header(write(tmp_path / "model.safetensors").as_posix())
    assert [(one.name, one.dtype, one.shape, one.size) for one in found] == [
        ("a", "BF16", (4, 8), 64),
        ("b", "I32", (3,), 12),
        ("c", "F8_E4M3", (), 1),
        ("d", "F4", (6,), 3),
    ]


def test_a_file_that_was_cut_off_is_found_without_reading_its_data(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cut off.* need 80 bytes, and 79 are there"):
        read_header(write(tmp_path / "model.safetensors", data=79).as_posix())


@pytest.mark.parametrize(
    ("header", "length", "said"),
    [
        (b"", 0, "no safetensors file"),
        (b"{}", 10**15, "no safetensors file"),
        (b"{}", 2**64 - 1, "no safetensors file"),
        (b"not json", None, "no JSON"),
        (b'{"a":' * 100_000, None, "no JSON|not described"),
        (b"[" * 100_000, None, "no table"),
        (b"[]", None, "no table"),
        ({"a": {}}, None, "not known"),
        ({"a": 5}, None, "not described"),
        ({"a": {"dtype": "BF16", "shape": [4], "data_offsets": [0]}}, None, "not described"),
        ({"a": {"dtype": "BF16", "shape": [True], "data_offsets": [0, 2]}}, None, "not described"),
        ({"a": {"dtype": "BF16", "shape": [-4], "data_offsets": [0, 8]}}, None, "not described"),
        ({"a": {"dtype": "BF16", "shape": [2**70], "data_offsets": [0, 8]}}, None, "not described"),
        ({"a": {"dtype": "BF16", "shape": [1] * 17, "data_offsets": [0, 2]}}, None, "not described"),
        ({"a": {"dtype": "Q3", "shape": [4], "data_offsets": [0, 8]}}, None, "Q3"),
        ({"a": {"dtype": "BF16", "shape": [4], "data_offsets": [8, 0]}}, None, "shape"),
        ({"a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 9]}}, None, "shape"),
        ({"a": {"dtype": "BF16", "shape": [2**40, 2**20], "data_offsets": [0, 2**61]}}, None, "cut off"),
    ],
)
def test_a_wrong_header_is_one_clear_error(tmp_path: Path, header: object, length: int | None, said: str) -> None:
    with pytest.raises(CheckpointError, match=said) as caught:
        read_header(write(tmp_path / "model.safetensors", header, length=length).as_posix())
    assert "\n" not in caught.value.words
    assert len(caught.value.words) < 300


def test_a_header_larger_than_the_format_allows_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "LARGEST_HEADER", 100)
    with pytest.raises(CheckpointError, match="more than the format allows"):
        read_header(write(tmp_path / "model.safetensors").as_posix())


def test_an_index_names_the_files_and_what_is_missing_is_named(tmp_path: Path) -> None:
    write(tmp_path / "one.safetensors")
    index = {"weight_map": {"a": "one.safetensors", "e": "two.safetensors"}}
    (tmp_path / checkpoint.INDEX).write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=r"1 of 2 files are missing: two\.safetensors"):
        shards_of(str(tmp_path))
    write(tmp_path / "two.safetensors")
    assert [Path(shard.path).name for shard in shards_of(str(tmp_path))] == ["one.safetensors", "two.safetensors"]


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", ".."])
def test_an_index_cannot_name_a_file_elsewhere(tmp_path: Path, name: str) -> None:
    (tmp_path / checkpoint.INDEX).write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(CheckpointError, match="outside of the checkpoint"):
        shards_of(str(tmp_path))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}', "\x00", "[" * 100_000])
def test_a_wrong_index_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / checkpoint.INDEX).write_text(text)
    with pytest.raises(CheckpointError, match="index"):
        shards_of(str(tmp_path))


def test_a_folder_without_weights_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no safetensors files"):
        shards_of(str(tmp_path))


def test_a_config_is_a_table_of_no_more_than_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / checkpoint.CONFIG
    with pytest.raises(CheckpointError, match="cannot be read: No such file"):
        read_config(str(tmp_path))
    config.write_text('{"a": 1}')
    assert read_config(str(tmp_path)) == {"a": 1}
    config.write_text("[1]")
    with pytest.raises(CheckpointError, match="no table"):
        read_config(str(tmp_path))
    config.write_text("1" * 5_000)
    with pytest.raises(CheckpointError, match="no JSON"):
        read_config(str(tmp_path))
    monkeypatch.setattr(checkpoint, "LARGEST_CONFIG", 100)
    with pytest.raises(CheckpointError, match="larger than any"):
        read_config(str(tmp_path))


@given(st.binary(max_size=400), st.integers(0, 500))
def test_any_bytes_are_tensors_or_an_error_in_words(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, data: int
) -> None:
    path = write(tmp_path_factory.getbasetemp() / "any.safetensors", text, data)
    with suppress(CheckpointError):
        for tensor in read_header(str(path)):
            assert 0 <= tensor.size <= data


def test_what_is_no_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / checkpoint.CONFIG)
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read: it is no regular file"):
        read_config(str(tmp_path))
    (tmp_path / "model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(CheckpointError, match=r"model\.safetensors cannot be read: it is no regular file"):
        read_header(str(tmp_path / "model.safetensors"))
    (tmp_path / checkpoint.INDEX).mkdir()
    with pytest.raises(CheckpointError, match="index"):
        shards_of(str(tmp_path))


def test_a_small_file_takes_little_memory_whatever_its_bound_is(tmp_path: Path) -> None:
    (tmp_path / checkpoint.CONFIG).write_text('{"a": 1}')
    tracemalloc.start()
    try:
        read_config(str(tmp_path))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
