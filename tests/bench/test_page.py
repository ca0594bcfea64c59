"""What /metrics says of a measurement: counters, gauges, and what the server is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.bench.page import counters_of, facts_of_page, gauges_of
from arcops.core.metrics import parse

PAGES = sorted((Path(__file__).parents[1] / "data" / "metrics").glob("*.txt"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_glance_sees_the_gauges_that_the_whole_page_has(path: Path) -> None:
    whole, glance = parse(path.read_text()), gauges_of(path.read_bytes())
    assert (glance.running, glance.waiting, glance.kv_usage) == (whole.running, whole.waiting, whole.kv_usage)
    assert glance.running is not None
    assert glance.prompt_tokens is None


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_counters_and_the_cache_are_those_of_the_page(path: Path) -> None:
    counters, facts = counters_of(path.read_bytes(), 3.0), facts_of_page(path.read_bytes())
    sample = parse(path.read_text())
    assert (counters.at, counters.unread) == (3.0, "")
    assert (counters.prefix_hits, counters.drafts) == (sample.prefix_hits, sample.drafts)
    assert counters.server_started == sample.process_start_time
    assert facts.cache is not None
    assert facts.cache["block_size"].isdigit()


def test_a_server_speculates_that_counts_its_drafts() -> None:
    pages = {path.stem: facts_of_page(path.read_bytes()).speculates for path in PAGES}
    assert pages["mtp_load"] is True
    assert pages["dense_idle"] is False


@pytest.mark.parametrize("page", [b"", b"<html>", b"vllm:num_requests_running", b"\xff\n\xfe\n", b"up 1\n"])
def test_a_page_that_is_not_vllms_tells_nothing(page: bytes) -> None:
    assert counters_of(page, 1.0).unread
    assert facts_of_page(page) == (facts_of_page(b""))
    assert gauges_of(page).running is None


@given(st.binary(max_size=300))
def test_no_page_is_too_bad(page: bytes) -> None:
    for one in (page, b"\nvllm:num_requests_running" + page, b"\nvllm:cache_config_info{" + page):
        assert counters_of(one, 7.0).at == 7.0
        facts_of_page(one)
        gauges_of(one)
