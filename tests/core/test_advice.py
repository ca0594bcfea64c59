"""What helps against each cause in general."""

import pytest

from arcops.core.diagnosis.advice import ADVICE, advice
from arcops.core.world import Cause


@pytest.mark.parametrize("cause", Cause)
def test_there_is_advice_for_every_cause(cause: Cause):
    assert ADVICE[cause]
    assert advice(cause.value) == ADVICE[cause]


def test_a_cause_of_another_version_has_none():
    assert advice("made_up") is None
