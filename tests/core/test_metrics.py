"""What is read from vLLM's metrics, against prometheus_client's own parser and against text that is not metrics."""

from dataclasses import fields
from math import inf, isnan
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from arcops.core.metrics import MAX_CHARS, MAX_POSITIONS, Histogram, Sample, parse

SCRAPES = sorted((Path(__file__).parents[1] / "data" / "metrics").glob("*.txt"))
COUNTERS = {
    "prompt_tokens": "vllm:prompt_tokens_total",
    "prompt_tokens_cached": "vllm:prompt_tokens_cached_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "prefix_queries": "vllm:prefix_cache_queries_total",
    "prefix_hits": "vllm:prefix_cache_hits_total",
    "preemptions": "vllm:num_preemptions_total",
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    "corrupted_requests": "vllm:corrupted_requests_total",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "kv_usage": "vllm:kv_cache_usage_perc",
    "process_start_time": "process_start_time_seconds",
}
HISTOGRAMS = {
    "ttft": "vllm:time_to_first_token_seconds",
    "inter_token": "vllm:inter_token_latency_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
    "queue": "vllm:request_queue_time_seconds",
    "prefill_time": "vllm:request_prefill_time_seconds",
    "prefill_computed": "vllm:request_prefill_kv_computed_tokens",
    "iteration_tokens": "vllm:iteration_tokens_total",
}


class Oracle:
    """The same text, read by prometheus_client."""

    def __init__(self, text: str) -> None:
        self.samples = [
            (sample.name, dict(sample.labels), float(sample.value))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]

    def number(self, name: str) -> float | None:
        values = [value for found, _, value in self.samples if found == name]
        return sum(values) if values else None

    def by_label(self, name: str, label: str) -> dict[str, float] | None:
        found = {labels[label]: value for sample, labels, value in self.samples if sample == name}
        return found or None

    def histogram(self, name: str) -> Histogram | None:
        buckets = self.by_label(f"{name}_bucket", "le")
        if buckets is None:
            return None
        bounds = tuple(float(le) for le in buckets)
        return Histogram(bounds, tuple(buckets.values()), self.number(f"{name}_sum"), self.number(f"{name}_count") or 0)


@pytest.mark.parametrize("path", SCRAPES, ids=lambda path: path.stem)
def test_every_scrape_reads_as_prometheus_itself_reads_it(path: Path) -> None:
    text = path.read_text()
    sample, oracle = parse(text), Oracle(text)
    for field, name in COUNTERS.items():
        assert getattr(sample, field) == oracle.number(name), field
    for field, name in HISTOGRAMS.items():
        assert getattr(sample, field) == oracle.histogram(name), field
    assert sample.finished == oracle.by_label("vllm:request_success_total", "finished_reason")
    positions = oracle.by_label("vllm:spec_decode_num_accepted_tokens_per_pos_total", "position")
    assert sample.accepted_per_position == (tuple(positions.values()) if positions else None)
    config = next(labels for name, labels, _ in oracle.samples if name == "vllm:cache_config_info")
    assert sample.kv_capacity_tokens == float(config["kv_cache_size_tokens"])
    assert sample.kv_block_tokens == float(config["block_size"])
    assert (sample.unreadable_lines, sample.engines) == (0, 1)
    assert sample.model_name in ("tiny", "m")


def test_a_scrape_is_read_in_a_small_part_of_a_hundredth_of_a_core() -> None:
    text = max((path.read_text() for path in SCRAPES), key=len)
    times: list[float] = []
    for _ in range(20):
        begin = process_time()
        parse(text)
        times.append(process_time() - begin)
    assert min(times) < 0.003  # 0.6 ms as measured; a general parser takes 15 ms


def test_what_the_text_does_not_say_is_none_and_never_zero() -> None:
    sample = parse("")
    for field in fields(Sample):
        if field.name not in ("engines", "unreadable_lines"):
            assert getattr(sample, field.name) is None, field.name
    assert sample.progress is None


def test_old_names_count_where_todays_are_missing() -> None:
    old = parse(
        'vllm:gpu_cache_usage_perc{model_name="m"} 0.25\n'
        'vllm:gpu_prefix_cache_queries_total{engine="0"} 10\nvllm:gpu_prefix_cache_hits_total{engine="0"} 4\n'
        'vllm:time_per_output_token_seconds_bucket{le="0.1"} 3\n'
        'vllm:time_per_output_token_seconds_bucket{le="+Inf"} 5\nvllm:time_per_output_token_seconds_sum 1.5\n'
    )
    assert (old.kv_usage, old.prefix_queries, old.prefix_hits, old.model_name) == (0.25, 10, 4, "m")
    assert old.inter_token == Histogram((0.1, inf), (3, 5), 1.5, 5)


def test_a_version_that_gives_both_names_is_not_counted_twice() -> None:
    both = parse('vllm:gpu_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="0"} 0.5\n')
    assert both.kv_usage == 0.5


def test_engines_are_summed_and_their_kv_usage_averaged() -> None:
    lines = [
        line
        for engine in "01"
        for line in (
            f'vllm:num_requests_running{{engine="{engine}"}} 2',
            f'vllm:kv_cache_usage_perc{{engine="{engine}"}} 0.{engine}5',
            f'vllm:prompt_tokens_total{{engine="{engine}"}} 100',
            f'vllm:request_success_total{{engine="{engine}",finished_reason="stop"}} 3',
            f'vllm:cache_config_info{{engine="{engine}",block_size="16",kv_cache_size_tokens="1000"}} 1',
            f'vllm:time_to_first_token_seconds_bucket{{engine="{engine}",le="1.0"}} 1',
            f'vllm:time_to_first_token_seconds_bucket{{engine="{engine}",le="+Inf"}} 2',
        )
    ]
    sample = parse("\n".join(lines) + "\n")
    assert (sample.running, sample.prompt_tokens, sample.finished) == (4, 200, {"stop": 6})
    assert sample.kv_usage == pytest.approx(0.1)
    assert (sample.kv_capacity_tokens, sample.engines) == (2000, 2)
    assert sample.ttft == Histogram((1, inf), (2, 4), None, 4)


def test_an_engine_of_unknown_size_makes_the_whole_size_unknown() -> None:
    known = 'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="9"} 1\n'
    assert parse(known).kv_capacity_tokens == 9
    assert parse(known + 'vllm:cache_config_info{a="b"} 1\n').kv_capacity_tokens is None


def _config(**labels: object) -> Sample:
    body = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return parse(f"vllm:cache_config_info{{{body}}} 1\n")


def test_a_pool_is_sized_by_its_blocks_where_vllm_does_not_say_its_tokens() -> None:
    sample = _config(block_size=16, num_gpu_blocks=100, kv_cache_size_tokens="None")
    assert (sample.kv_capacity_tokens, sample.kv_growth_tokens, sample.kv_state_tokens) == (1600, 1600, None)


def test_a_hybrid_models_recurrent_state_does_not_count_as_growth() -> None:
    # Qwen3.5-9B on an H200: 63 blocks for 32,768 tokens and 3 of state.
    sample = parse((Path(__file__).parents[1] / "data" / "metrics" / "gpu_q35_9b.txt").read_text())
    assert sample.kv_capacity_tokens == 3_370_635
    assert (sample.kv_growth_tokens, sample.kv_state_tokens) == (6789 * 528, 3 * 528)


def test_with_few_blocks_growth_is_taken_to_be_the_capacity() -> None:
    sample = _config(block_size=640, num_gpu_blocks=1638, kv_cache_size_tokens=279552, kv_cache_max_concurrency=136.5)
    assert (sample.kv_growth_tokens, sample.kv_state_tokens) == (279552, None)


@pytest.mark.parametrize(
    "line",
    [
        "vllm:prompt_tokens_total{",
        "vllm:prompt_tokens_total twelve",
        "vllm:prompt_tokens_total NaN",
        "vllm:prompt_tokens_total 1e999",
        "vllm:prompt_tokens_total 1_000",
        'vllm:prompt_tokens_total{a="b"} 5 # {trace="c"} 7',
        'vllm:request_success_total{reason="stop"} 5',
        'vllm:time_to_first_token_seconds_bucket{le="1"} 5',
        'vllm:time_to_first_token_seconds_bucket{le="nan"} 5',
        'vllm:time_to_first_token_seconds_bucket{le="x"} 5',
        "\x00\x01 binary",
        "€ 5",
    ],
)
def test_a_line_that_cannot_be_read_is_skipped_and_counted(line: str) -> None:
    sample = parse(f"vllm:generation_tokens_total 3\n{line}\nvllm:num_requests_running 1\n")
    assert (sample.prompt_tokens, sample.ttft) == (None, None)
    assert (sample.generation_tokens, sample.running, sample.unreadable_lines) == (3, 1, 1)


def test_a_histogram_that_falls_or_whose_engines_differ_is_not_believed() -> None:
    name = "vllm:time_to_first_token_seconds_bucket"
    assert parse(f'{name}{{le="1"}} 5\n{name}{{le="+Inf"}} 4\n').ttft is None
    differ = f'{name}{{engine="0",le="1"}} 1\n{name}{{engine="0",le="+Inf"}} 2\n{name}{{engine="1",le="+Inf"}} 2\n'
    assert parse(differ).ttft is None


def test_a_number_that_may_have_been_cut_is_not_read() -> None:
    sample = parse("vllm:num_requests_running 1\nvllm:prompt_tokens_total 11")
    assert (sample.running, sample.prompt_tokens, sample.unreadable_lines) == (1, None, 1)


def test_a_label_value_may_hold_quotes_braces_and_commas() -> None:
    tricky = r'vllm:request_success_total{model_name="a\"} 9,finished_reason=\"x",finished_reason="stop"} 5'
    assert parse(tricky + "\n").finished == {"stop": 5}


def test_positions_stop_at_a_gap_and_at_a_limit() -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    gap = "".join(f'{name}{{position="{position}"}} 7\n' for position in (0, 1, 3, 10**9, "x"))
    assert parse(gap).accepted_per_position == (7, 7)
    many = "".join(f'{name}{{position="{position}"}} 7\n' for position in range(2 * MAX_POSITIONS))
    assert parse(many).accepted_per_position == (7,) * MAX_POSITIONS


def test_a_time_stamp_after_the_value_is_ignored() -> None:
    assert parse("vllm:num_requests_running 2 1700000000000\n").running == 2


def test_text_beyond_the_limit_is_cut() -> None:
    sample = parse("vllm:num_requests_running 2\n" + "x" * MAX_CHARS)
    assert (sample.running, sample.unreadable_lines) == (2, 1)


def test_progress_moves_with_every_kind_of_counter() -> None:
    base = "vllm:prompt_tokens_total 1\nvllm:generation_tokens_total 1\nvllm:spec_decode_num_drafts_total 1\n"
    base += 'vllm:request_success_total{finished_reason="stop"} 1\nvllm:iteration_tokens_total_bucket{le="+Inf"} 1\n'
    before = parse(base).progress
    assert before == 5
    for line in base.splitlines():
        assert parse(base.replace(line, line[:-1] + "2")).progress == 6


@given(st.text())
def test_no_text_whatever_is_too_much(text: str) -> None:
    assert parse(text).unreadable_lines <= text.count("\n") + 1


NAMES = st.sampled_from(
    [*COUNTERS.values(), *(f"{name}_bucket" for name in HISTOGRAMS.values()), "vllm:cache_config_info"]
)
LABELS = st.dictionaries(
    st.sampled_from(["le", "engine", "reason", "position", "finished_reason", "block_size", "num_gpu_blocks",
                     "kv_cache_size_tokens", "kv_cache_max_concurrency"]),
    st.one_of(st.integers().map(str), st.floats().map(str), st.text(max_size=8), st.just("+Inf")),
)  # fmt: skip


@given(st.lists(st.tuples(NAMES, LABELS, st.one_of(st.floats().map(str), st.text(max_size=5)))))
def test_lines_that_are_nearly_right_are_no_harm_either(lines: list[tuple[str, dict[str, str], str]]) -> None:
    sample = parse("".join(_line(*line) for line in lines))
    for field in fields(Sample):
        value = getattr(sample, field.name)
        assert not (isinstance(value, float) and isnan(value)), field.name


def _line(name: str, labels: dict[str, str], number: str) -> str:
    body = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{body}}} {number}\n"
