"""What a trial of a card said, and how it ended, is a verdict in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.cards.health import Verdict
from arcops.machine.gpu.health_words import End, Trial, judged

B70 = "0000:03:00.0"
TWO = (B70, "0000:08:00.0")
LOADED = "torch 2.13.0+xpu\ncards 1\n"
TRYING = f"{LOADED}try 0 Intel(R) Arc(TM) Pro B70 Graphics\n"
RIGHT = f"{TRYING}right 0 0.021\n"
REBIND = "rebind it, or reboot"


def trial(said: str, end: int | End = 0, cards: tuple[str, ...] = (B70,), complaint: str = "") -> Trial:
    return Trial("xpu", cards, said, complaint, end, waited=60.0, pid=77)


@pytest.mark.parametrize(
    ("one", "verdict", "part"),
    [
        (trial(f"{RIGHT}done\n"), Verdict.HEALTHY, f"card {B70} computes (tried with torch 2.13.0+xpu)"),
        (
            trial("torch 2\ncards 2\ntry 0 a\nright 0 1\ntry 1 b\nright 1 1\ndone\n", cards=TWO),
            Verdict.HEALTHY,
            f"cards {B70}, 0000:08:00.0 compute (",
        ),
        (trial("torch 2\ncards 1\ntry 0 processor\nright 0 1\ndone\n", cards=()), Verdict.HEALTHY, "the processor"),
        (trial(f"{TRYING}raised 0 RuntimeError: UR_RESULT_ERROR_DEVICE_LOST\n"), Verdict.WEDGED, "was lost over"),
        (trial(f"{TRYING}raised 0 RuntimeError: ZE_RESULT_ERROR_DEVICE_LOST\n"), Verdict.WEDGED, "DEVICE_LOST"),
        (trial(f"{TRYING}raised 0 RuntimeError: UR_RESULT_ERROR_OUT_OF_RESOURCES\n"), Verdict.WEDGED, "was lost"),
        (trial(f"{TRYING}raised 0 AcceleratorError: CUDA error: unspecified launch failure\n"), Verdict.WEDGED, "CUDA"),
        (trial(f"{TRYING}wrong 0 7 of 65536 numbers in bfloat16 are wrong\n"), Verdict.WEDGED, "wrong numbers: 7 of"),
        (trial(TRYING, End.LATE), Verdict.WEDGED, f"card {B70} did not finish a small product within 60 s"),
        (trial(TRYING, -14), Verdict.WEDGED, "did not finish a small product"),
        (trial("torch 2.13\n", End.LATE), Verdict.WEDGED, f"card {B70} did not come up within 60 s"),
        (trial("", End.DEAF), Verdict.WEDGED, "hangs in the driver, and process 77 outlived SIGKILL"),
        (trial("", End.LATE), Verdict.INCONCLUSIVE, "torch took over 60 s to be imported"),
        (
            trial("missing ModuleNotFoundError: No module named 'torch'\n"),
            Verdict.INCONCLUSIVE,
            "is not in the runtime",
        ),
        (
            trial("broken OSError: libsycl.so.8: cannot open\n"),
            Verdict.INCONCLUSIVE,
            "cannot be imported: OSError: libsy",
        ),
        (
            trial("torch 2\nnone torch 2 sees no xpu card\n"),
            Verdict.INCONCLUSIVE,
            "could not be tried: torch 2 sees no",
        ),
        (
            trial(f"{TRYING}raised 0 OutOfMemoryError: no room\n"),
            Verdict.INCONCLUSIVE,
            "could not be tried: OutOfMemory",
        ),
        (trial(TRYING, -11), Verdict.INCONCLUSIVE, f"was ended by SIGSEGV, in the middle of card {B70}"),
        (trial(TRYING, -63), Verdict.INCONCLUSIVE, "was ended by signal 63"),
        (trial("", 2, complaint="SyntaxError: no"), Verdict.INCONCLUSIVE, "ended with exit code 2 (SyntaxError: no)"),
        (trial(f"\n{RIGHT}\ndone\n\n"), Verdict.HEALTHY, "computes"),
        (trial("hello\n"), Verdict.INCONCLUSIVE, "said nothing that can be understood"),
        (trial(""), Verdict.INCONCLUSIVE, "said nothing that can be understood"),
        (trial(f"{RIGHT}done\n", cards=TWO), Verdict.INCONCLUSIVE, "torch sees 1 cards, where 2 were meant"),
        (trial("done\n"), Verdict.INCONCLUSIVE, "torch sees no cards, where 1 were meant"),
    ],
)
def test_every_end_has_its_verdict_and_its_words(one: Trial, verdict: Verdict, part: str) -> None:
    health = judged(one, REBIND)
    assert part in health.words
    assert health.verdict is verdict
    assert bool(health.hint) == (verdict is Verdict.WEDGED), "a wedged card says what helps, and only that"


def test_of_two_cards_the_one_that_fails_is_named_by_its_address() -> None:
    said = "torch 2\ncards 2\ntry 0 a\nright 0 1\ntry 1 b\nraised 1 RuntimeError: UR_RESULT_ERROR_DEVICE_LOST\n"
    assert judged(trial(said, cards=TWO), REBIND).words.startswith("card 0000:08:00.0 was lost")


def test_a_hang_that_outlives_sigkill_asks_for_a_reboot_first() -> None:
    assert judged(trial(TRYING, End.DEAF), REBIND).hint.startswith("reboot")
    assert judged(trial(TRYING, End.LATE), REBIND).hint == REBIND


def test_a_drivers_words_are_cut_and_made_printable() -> None:
    words = judged(trial(f"{TRYING}raised 0 RuntimeError: \x1b[31m{'x' * 5000}\n"), REBIND).words
    assert words.isprintable()
    assert len(words) < 500


WORDS = ("torch", "cards", "try", "right", "wrong", "raised", "none", "broken", "missing", "done", "", "0", "x" * 999)
lines = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
said = st.lists(lines, max_size=8).map("\n".join) | st.text(max_size=200)
ends = st.one_of(st.integers(-70, 300), st.sampled_from(End))
cards = st.sampled_from([(), (B70,), TWO])


@given(said=said, end=ends, cards=cards)
def test_whatever_is_said_there_is_one_verdict_and_nothing_but_a_whole_trial_is_healthy(
    said: str, end: int | End, cards: tuple[str, ...]
) -> None:
    health = judged(trial(said, end, cards), REBIND)
    assert health.words
    assert health.words.isprintable()
    if health.verdict is Verdict.HEALTHY:
        assert end == 0
        assert [line for line in said.splitlines() if line.strip()][-1].split(" ")[0] == "done"
