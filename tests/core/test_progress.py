"""How a start is read from every start-up log that was recorded, and from lines that nobody should write."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.progress import Stage, StartProgress, advance

LOGS = Path(__file__).parents[1] / "data" / "vllm-logs"

FIRST = [Stage.CONFIGURING, Stage.ENGINE, Stage.WEIGHTS]


def lines_of(name: str) -> list[str]:
    text = (LOGS / f"{name}.log").read_bytes().decode()
    return [piece for line in text.split("\n") for piece in line.split("\r")]


def walk(lines: list[str]) -> tuple[list[Stage], StartProgress]:
    """The stages in the order in which they were entered, and the end."""
    progress, stages = StartProgress(), [Stage.LAUNCHED]
    for line in lines:
        progress = advance(progress, line)
        if progress.stage is not stages[-1]:
            stages.append(progress.stage)
    return stages[1:], progress


@pytest.mark.parametrize(
    ("name", "stages", "version", "architecture", "draft", "tokens", "concurrency"),
    [
        ("startup_dense1", [Stage.CACHE, Stage.SERVER], "0.29.0", "Qwen3ForCausalLM", None, 1_048_576, 512.0),
        ("startup_hyb1", [Stage.CACHE, Stage.SERVER], "0.29.0", "Qwen3_5ForCausalLM", None, 670_924, 327.6),
        ("startup_mtp3", [Stage.DRAFT_WEIGHTS, Stage.CACHE, Stage.SERVER],
         "0.29.0", "Qwen3_5ForCausalLM", "Qwen3_5MTP", 279_552, 136.5),
        ("startup_dfl1", [Stage.DRAFT_WEIGHTS, Stage.CACHE, Stage.SERVER],
         "0.29.0", "Qwen3_5ForCausalLM", "DFlashDraftModel", 372_736, 182.0),
        ("death_term_idle", [Stage.CACHE, Stage.SERVER], "0.29.0", "Qwen3ForCausalLM", None, 1_048_576, 512.0),
        ("orphan_second", [Stage.CACHE, Stage.SERVER], "0.29.0", "Qwen3ForCausalLM", None, 1_048_576, 512.0),
        ("gpu_q35_9b", [Stage.COMPILING, Stage.CACHE, Stage.GRAPHS, Stage.SERVER],
         "0.24.0", "Qwen3_5ForConditionalGeneration", None, 3_370_635, 102.86),
        ("gpu_q3_8b", [Stage.COMPILING, Stage.CACHE, Stage.GRAPHS, Stage.SERVER],
         "0.24.0", "Qwen3ForCausalLM", None, 814_368, 24.85),
        ("gpu_hybrid_mtp", [Stage.DRAFT_WEIGHTS, Stage.COMPILING, Stage.CACHE, Stage.GRAPHS, Stage.SERVER],
         "0.24.0", "Qwen3_5ForConditionalGeneration", "Qwen3_5MTP", 23_425_024, 5719.0),
        ("gpu_dense_dflash", [Stage.DRAFT_WEIGHTS, Stage.COMPILING, Stage.CACHE, Stage.SERVER],
         "0.24.0", "Qwen3ForCausalLM", "DFlashDraftModel", 29_115_248, 7108.21),
        ("gpu_race0", [Stage.COMPILING, Stage.CACHE, Stage.SERVER],
         "0.24.0", "Qwen3ForCausalLM", None, 86_932_464, 42447.49),
        ("gpu_race1", [Stage.COMPILING, Stage.CACHE, Stage.SERVER],
         "0.24.0", "Qwen3ForCausalLM", None, 621_104, 303.27),
    ],
)  # fmt: skip
def test_every_recorded_start_goes_through_its_stages_to_the_end(
    name: str, stages: list[Stage], version: str, architecture: str, draft: str | None, tokens: int, concurrency: float
) -> None:
    seen, end = walk(lines_of(name))
    assert seen == FIRST + stages
    assert end.complete
    assert end.detail == "INFO: Application startup complete."
    assert (end.version, end.architecture, end.draft_architecture) == (version, architecture, draft)
    assert (end.kv_cache_tokens, end.max_concurrency) == (tokens, concurrency)
    assert end.kv_cache_gib is not None


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_no_log_ever_goes_back_a_stage(path: Path) -> None:
    progress = StartProgress()
    for line in lines_of(path.stem):
        later = advance(progress, line)
        assert later.stage.order >= progress.stage.order
        assert later.fraction is None or 0 <= later.fraction <= 1
        progress = later


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("bad_badflag", Stage.CONFIGURING),
        ("bad_draft_path", Stage.CONFIGURING),
        ("gpu_second", Stage.ENGINE),
        ("bad_corrupt_weights", Stage.WEIGHTS),
        ("gpu_err_oom_weights", Stage.WEIGHTS),
        ("bad_kv_too_small", Stage.CACHE),
        ("gpu_err_len_over_cache", Stage.CACHE),
    ],
)
def test_a_start_that_fails_stops_at_the_stage_that_failed(name: str, stage: Stage) -> None:
    _, end = walk(lines_of(name))
    assert (end.stage, end.complete) == (stage, False)


def test_memory_and_time_of_the_weights_are_learned() -> None:
    _, end = walk(lines_of("gpu_q35_9b"))
    assert (end.weights_gib, end.weights_seconds, end.kv_cache_gib) == (16.8, None, 109.4)
    _, end = walk(lines_of("startup_dfl1"))
    assert (end.weights_gib, end.weights_seconds, end.kv_cache_gib) == (None, 0.01, 1.0)


def follow(*lines: str) -> list[tuple[Stage, float | None]]:
    progress = StartProgress()
    seen: list[tuple[Stage, float | None]] = []
    for line in lines:
        progress = advance(progress, line)
        seen.append((progress.stage, progress.fraction))
    return seen


def test_shards_and_captures_give_a_fraction() -> None:
    assert follow(
        "(EngineCore pid=7) INFO 11-30 10:31:16 [gpu_model_runner.py:1] Starting to load model /models/m...",
        "(EngineCore pid=7) Loading safetensors checkpoint shards:  25% Completed | 2/8 [00:01<00:03]",
        "(EngineCore pid=7) INFO 11-30 10:31:16 [default_loader.py:430] Loading weights took 4.20 seconds",
        "(EngineCore pid=7) Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:03]",
        "(EngineCore pid=7) INFO 11-30 10:31:16 [default_loader.py:430] Loading weights took 1.00 seconds",
        "(EngineCore pid=7) Capturing CUDA graphs (decode, FULL):  20%|██        | 1/5 [00:00<00:00,  5.61it/s]",
        "Capturing CUDA graphs (decode, FULL):  20%|█ | 1/5\rCapturing CUDA graphs (decode, FULL):  60%|███ | 3/5",
        "(EngineCore pid=7) INFO 11-30 10:31:16 [runner.py:1] Graph capturing finished in 2 secs, took 0.09 GiB",
    ) == [
        (Stage.WEIGHTS, None),
        (Stage.WEIGHTS, 0.25),
        (Stage.WEIGHTS, 1.0),
        (Stage.DRAFT_WEIGHTS, 0.5),
        (Stage.DRAFT_WEIGHTS, 1.0),
        (Stage.GRAPHS, 0.2),
        (Stage.GRAPHS, 0.6),
        (Stage.GRAPHS, 1.0),
    ]


def test_the_second_worker_of_a_tensor_parallel_start_does_not_look_like_a_draft() -> None:
    assert follow(
        "(Worker_TP0 pid=7) INFO 11-30 10:31:16 [r.py:1] Starting to load model m...",
        "(Worker_TP0 pid=7) Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:03]",
        "(Worker_TP1 pid=8) INFO 11-30 10:31:16 [r.py:1] Starting to load model m...",
        "(Worker_TP0 pid=7) INFO 11-30 10:31:16 [d.py:430] Loading weights took 4.20 seconds",
        "(Worker_TP1 pid=8) INFO 11-30 10:31:16 [d.py:430] Loading weights took 4.30 seconds",
    )[1:] == [(Stage.WEIGHTS, 0.5), (Stage.WEIGHTS, 0.5), (Stage.WEIGHTS, 1.0), (Stage.WEIGHTS, 1.0)]


def test_colours_prefixes_and_control_characters_do_not_reach_the_detail() -> None:
    line = "\x1b[0;36m(APIServer pid=7)\x1b[0;0m INFO 11-30 10:31:16 [m.py:598] Resolved architecture: Qwen3\x07\x1b[0m"
    assert advance(StartProgress(), line).detail == "Resolved architecture: Qwen3"
    banner = "(APIServer pid=7) INFO 11-30 09:34:20 [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.29.0"
    assert (advance(StartProgress(), banner).detail, advance(StartProgress(), banner).version) == (
        "version 0.29.0",
        "0.29.0",
    )


def test_an_empty_line_changes_nothing_and_any_other_means_that_it_began() -> None:
    assert advance(StartProgress(), " \n") == StartProgress()
    assert advance(StartProgress(), "hello") == StartProgress(stage=Stage.CONFIGURING)


def test_once_complete_nothing_changes_any_more() -> None:
    done = advance(StartProgress(), "INFO:     Application startup complete.")
    assert done.complete
    assert advance(done, "Loading drafter model...") is done


@pytest.mark.parametrize("shards", ["3/2", "0/0", "5/0"])
def test_shards_that_make_no_sense_give_no_fraction(shards: str) -> None:
    assert follow(f"Loading pt checkpoint shards:  50% Completed | {shards} [x]") == [(Stage.WEIGHTS, None)]


@given(st.lists(st.one_of(st.text(), st.sampled_from(lines_of("gpu_hybrid_mtp") + lines_of("startup_dfl1")))))
def test_no_lines_in_whatever_order_break_it_or_bring_it_back(lines: list[str]) -> None:
    progress = StartProgress()
    for line in lines:
        later = advance(progress, line)
        assert later.stage.order >= progress.stage.order
        assert later.detail.isprintable()
        assert len(later.detail) <= 160
        progress = later


def test_a_huge_line_is_cut() -> None:
    huge = "Resolved architecture: " + "x" * 10_000_000
    assert advance(StartProgress(), huge).architecture == "x" * 100
    assert advance(StartProgress(), "(" * 1_000_000 + "\rLoading drafter model").stage is Stage.DRAFT_WEIGHTS
