"""The standing of an environment in words: for the history, a status, an order."""

import msgspec
import pytest

from arcops import words
from arcops.core.errors import BlockedError, ExitCode
from arcops.daemon.environment_words import admitted, info_of, news, unknown
from arcops.evidence.standing.child import Changes, Standing

HERE, THERE = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
FOUR = Changes(4, ("system kernel: 6.17 -> 6.18", "file vllm/dflash.py: changed", "variable A: 1 -> 2", "argv --x: y"))
PASSED = Standing(digest=HERE, qualified=True, qualified_in=HERE)
NEVER = Standing(digest=HERE, qualified=False)
CHANGED = Standing(digest=HERE, qualified=False, qualified_in=THERE, since_qualified=FOUR)
FAILED = Standing(digest=HERE, qualified=False, qualified_in=HERE)
UNTOLD = Standing(digest=HERE, qualified=None, problems=("cannot read the folder of records",))
FIRST_THREE = (
    "4 things have changed: system kernel: 6.17 -> 6.18; file vllm/dflash.py: changed; variable A: 1 -> 2; and 1 more"
)


@pytest.mark.parametrize(
    ("standing", "line"),
    [
        (PASSED, "qualified (aaaaaaaaaaaa)"),
        (NEVER, "never qualified"),
        (CHANGED, f"since it last qualified, {FIRST_THREE}"),
        (FAILED, "has failed since it qualified"),
        (UNTOLD, "whether it has qualified is not known: cannot read the folder of records"),
        (
            msgspec.structs.replace(CHANGED, since_qualified=None),
            "since it last qualified, something has changed, and what is not known",
        ),
        (
            msgspec.structs.replace(CHANGED, since_qualified=Changes(1, ("one\x1b[2J thing",))),
            "since it last qualified, 1 thing has changed: one thing",
        ),
    ],
    ids=["passed", "never", "changed", "failed", "untold", "in what is not known", "hostile"],
)
def test_a_status_says_it_in_one_line(standing: Standing, line: str) -> None:
    assert words.environment(info_of("launch", standing)) == line


def test_what_is_not_known_yet_is_no_line_and_what_cannot_be_known_says_why() -> None:
    assert words.environment(unknown("launch")) == ""
    assert words.environment(unknown("launch", "it could not be recorded: the reader hangs")) == (
        "it could not be recorded: the reader hangs"
    )


def test_of_a_launch_the_history_is_told_what_differs_from_the_qualified_one_and_the_one_before() -> None:
    assert list(news("dflash2", PASSED, None)) == []
    assert list(news("dflash2", NEVER, ("one", HERE))) == []
    (told,) = news("dflash2", CHANGED, ("one", HERE))
    assert told == f"the environment is not that in which dflash2 last qualified: {FIRST_THREE}"
    since = msgspec.structs.replace(PASSED, since_previous=Changes(1, ("system kernel: 6.17 -> 6.18",)))
    before = "the environment is not that of the launch of dflash2 before (one)"
    assert list(news("dflash2", since, ("one", THERE))) == [
        f"{before}: 1 thing has changed: system kernel: 6.17 -> 6.18"
    ]
    assert len(list(news("dflash2", CHANGED, ("one", THERE)))) == 2


def test_what_has_qualified_is_admitted_with_what_nobody_can_vouch_for() -> None:
    assert admitted("dflash2", PASSED) == ("dflash2 has qualified in this environment (aaaaaaaaaaaa)",)
    (told,) = admitted("dflash2", msgspec.structs.replace(PASSED, unread=("the firmware: not permitted",)))
    assert told.endswith("(as far as it could be read: the firmware: not permitted)")


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (NEVER, "dflash2 has never qualified, or has failed since"),
        (CHANGED, f"dflash2 has not qualified in this environment: since it last did, {FIRST_THREE}"),
        (FAILED, "dflash2 has failed in this environment since it qualified"),
        (UNTOLD, "whether dflash2 has qualified cannot be told; cannot read the folder of records"),
        (
            msgspec.structs.replace(NEVER, problems=("a record is not believed: edited",)),
            "dflash2 has never qualified, or has failed since; a record is not believed: edited",
        ),
    ],
    ids=["never", "changed", "failed", "untold", "edited"],
)
def test_what_has_not_is_blocked_and_told_why(standing: Standing, why: str) -> None:
    with pytest.raises(BlockedError) as refused:
        admitted("dflash2", standing)
    assert refused.value.message == why
    assert refused.value.exit_code is ExitCode.BLOCKED
    assert "arcops qualify dflash2" in refused.value.hint
