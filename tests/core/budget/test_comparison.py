"""The plan and vLLM's word, in one sentence."""

import pytest

from arcops.core.budget.comparison import Comparison


@pytest.mark.parametrize(
    ("compared", "words"),
    [
        (Comparison(102_631, 102_631), "the KV cache holds 102,631 tokens, as planned"),
        (
            Comparison(100_000, 98_000),
            "the KV cache holds 98,000 tokens by vLLM's word, and 100,000 were planned: 2,000 fewer (2.0%)",
        ),
        (
            Comparison(1_000, 1_500, estimated=True),
            "the KV cache holds 1,500 tokens by vLLM's word, and 1,000 were planned by estimate: 500 more (50.0%)",
        ),
        (Comparison(0, 512), "the KV cache holds 512 tokens by vLLM's word, and 0 were planned: 512 more"),
    ],
    ids=["equal", "fewer", "more than estimated", "none planned"],
)
def test_both_are_said_and_by_how_much_they_differ(compared: Comparison, words: str) -> None:
    assert compared.words == words
    assert compared.equal is (compared.planned == compared.reported)
