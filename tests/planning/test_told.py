"""A plan as it is told: whole, as JSON and back, with what makes no sense refused by name."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
import pytest

from arcops import wire
from arcops.config.paths import Paths
from arcops.core.budget.plan import MIB, Room
from arcops.core.launch import Launch
from arcops.planning import PlanError, told
from arcops.planning.room import Place
from arcops.planning.told import AskedError, Question
from tests.planning.reference import MODELS, Entry, write

B70 = Place("Arc Pro B70 0000:03:00.0", Room(32_656 * MIB, 0), 608e9, "")
NOWHERE = Place("the CPU", Room(None, None), None, "it takes the machine's own memory")


def tensors() -> list[Entry]:
    return [("model.embed_tokens.weight", "BF16", (1000, 64)), ("model.layers.0.mlp.up_proj.weight", "BF16", (64, 64))]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`dense` and `hybrid`: the shapes of small models, with a few tensors."""
    root = tmp_path_factory.mktemp("models")
    for name in ("dense", "hybrid"):
        shape = json.loads((MODELS / f"tiny-{name}" / "config.json").read_text())
        write(root / name, shape, iter(tensors()))
    return root


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return Paths.of("main")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch's card is a B70, the CPU for a launch without one."""

    def look(launch: Launch, *_: object) -> Place:
        return B70 if launch.cards else NOWHERE

    monkeypatch.setattr("arcops.planning.told.place_of", look)


def names(value: object) -> set[str]:
    """All keys of a document of JSON."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return set(table).union(*(names(one) for one in table.values()))
    return set[str]().union(*(names(one) for one in cast("list[object]", value))) if isinstance(value, list) else set()


def on(place: Place) -> Callable[..., Place]:
    """Whatever is looked at is this."""

    def look(*_: object) -> Place:
        return place

    return look


def launch(model: Path, *flags: str, cards: tuple[str, ...] = ("0000:03:00.0",)) -> Launch:
    return Launch(
        profile="mine",
        argv=("vllm", "serve", str(model), "--max-model-len", "2048", "--kv-cache-memory-bytes", "1073741824", *flags),
        environment=(),
        setup=None,
        host="127.0.0.1",
        port=8000,
        served_name="mine",
        api_key_file=None,
        locks=(),
        cards=cards,
    )


MTP = ("--speculative-config", '{"method":"mtp","num_speculative_tokens":3}')


@pytest.mark.usefixtures("place")
def test_it_comes_back_from_json_as_it_was(models: Path, paths: Paths) -> None:
    decode = wire.PlanDecode(tokens_per_second=90.5, tokens_per_step=2.5, source="now")
    plan = told.told(launch(models / "hybrid", *MTP), paths, decode=decode)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=wire.PlanInfo) == plan
    assert plan.fit == "fits"
    assert plan.accepted == 2.5
    assert [one.depth for one in plan.ceilings] == [2048]
    assert all(one.speculative is not None for one in plan.ceilings)


@pytest.mark.usefixtures("place")
def test_every_field_of_the_json_stands_in_its_document(models: Path, paths: Paths) -> None:
    text = (Path(__file__).parents[2] / "docs" / "plan.md").read_text()
    decode = wire.PlanDecode(tokens_per_second=90.5, tokens_per_step=2.5, source="now")
    plan = json.loads(msgspec.json.encode(told.told(launch(models / "hybrid", *MTP), paths, decode=decode)))
    assert {name for name in names(plan) if f"`{name}`" not in text} == set()


@pytest.mark.usefixtures("place")
def test_the_order_of_what_counts_as_accepted_length(models: Path, paths: Paths) -> None:
    decode = wire.PlanDecode(tokens_per_second=90.5, tokens_per_step=2.5, source="now")
    speculating = launch(models / "hybrid", *MTP)
    assert told.told(speculating, paths, Question(accepted=3.5), decode).accepted == 3.5
    assert told.told(speculating, paths, Question(tokens=0), decode).accepted is None
    assert told.told(speculating, paths).accepted is None
    assert told.told(launch(models / "hybrid"), paths, Question(accepted=3.5)).accepted is None


@pytest.mark.usefixtures("place")
def test_on_the_cpu_sizes_and_cache_are_told_and_the_room_is_not(models: Path, paths: Paths) -> None:
    plan = told.told(launch(models / "dense", cards=()), paths)
    assert (plan.fit, plan.reason) == ("unknown", "it takes the machine's own memory")
    assert plan.cache is not None
    assert plan.cache.tokens == 1_048_576
    assert plan.advice == ()
    too_long = told.told(launch(models / "dense", "--kv-cache-memory-bytes", "1000000", cards=()), paths)
    assert too_long.fit == "does not fit"
    assert too_long.advice
    unsized = replace(launch(models / "dense", cards=()), argv=("vllm", "serve", str(models / "dense")))
    assert "machine's memory" in told.told(unsized, paths).items[-1].words


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("question", "said"),
    [
        (Question(cache_dtype="int3"), "KV cache: the plan does not know how large a cache of type int3 is"),
        (Question(state_dtype=""), "states: the plan does not know"),
        (Question(cards=3), "cannot be spread over 3 cards"),
        (Question(tokens=2), "does not speculate"),
        (Question(tokens=0), "does not speculate"),
    ],
)
def test_a_question_that_makes_no_sense_is_its_own_fault(
    models: Path, paths: Paths, question: Question, said: str
) -> None:
    with pytest.raises(AskedError, match=said):
        told.told(launch(models / "hybrid"), paths, question)


@pytest.mark.usefixtures("place")
def test_a_profile_that_cannot_be_planned_is_no_fault_of_the_question(models: Path, paths: Paths) -> None:
    with pytest.raises(PlanError, match=r"config\.json cannot be read") as caught:
        told.told(launch(models / "nowhere"), paths, Question(cards=2))
    assert not isinstance(caught.value, AskedError)


@pytest.mark.usefixtures("place")
def test_a_context_beyond_what_the_model_was_made_for_is_remarked(models: Path, paths: Paths) -> None:
    plan = told.told(launch(models / "dense"), paths, Question(context=1_000_000))
    assert any("vLLM refuses 1,000,000" in remark for remark in plan.remarks)
    assert told.told(launch(models / "dense"), paths).remarks == ()


def test_what_is_not_known_of_a_card_is_remarked(models: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    strange = Place("a card", Room(32_656 * MIB, None), None, "")
    monkeypatch.setattr("arcops.planning.told.place_of", on(strange))
    plan = told.told(launch(models / "dense"), paths)
    assert plan.fit == "fits"
    assert plan.ceilings == ()
    assert [remark.split(" is ")[0].split(" cannot ")[0] for remark in plan.remarks] == [
        "who holds memory of the card now",
        "how fast the card reads its memory",
    ]


@pytest.mark.usefixtures("place")
def test_a_checkpoint_that_was_cut_off_is_told_before_anybody_waits(models: Path, paths: Paths, tmp_path: Path) -> None:
    folder = write(tmp_path / "cut", json.loads((models / "dense" / "config.json").read_text()), iter(tensors()))
    file = folder / "model.safetensors"
    with file.open("r+b") as writing:
        writing.truncate(file.stat().st_size - 1)
    with pytest.raises(PlanError, match="was cut off") as caught:
        told.told(launch(folder), paths)
    assert "download" in caught.value.hint
    file.write_bytes(struct.pack("<Q", 2**40))
    with pytest.raises(PlanError, match="no safetensors file"):
        told.told(launch(folder), paths)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("said", "pool"), [("2", 2 << 30), ("0", None), ("", None), ("many", None), ("9" * 30, None)])
def test_on_the_cpu_a_variable_says_how_large_the_cache_is(
    models: Path, paths: Paths, said: str, pool: int | None
) -> None:
    unsized = replace(
        launch(models / "dense", cards=()),
        argv=("vllm", "serve", str(models / "dense")),
        environment=(("VLLM_CPU_KVCACHE_SPACE", said),),
    )
    plan = told.told(unsized, paths)
    assert plan.pool == pool
    assert ("VLLM_CPU_KVCACHE_SPACE" in plan.items[-1].words) is (pool is not None)
