"""Each gate's verdict, from what was seen alone."""

from dataclasses import replace

import pytest

from arcops.bench.chat import ChatAnswer
from arcops.core.evidence.identity import Divergence, Margin, StageIdentity, asked_otherwise, same_questions
from arcops.core.evidence.judge import Judgement
from arcops.core.evidence.judge import Question as Judged
from arcops.core.evidence.qualification import Gate, Qualification, Verdict
from arcops.core.evidence.run import Counters, Request
from arcops.core.evidence.setting import CardFacts, CardSample, Configuration, ServerFacts, Setting
from arcops.core.evidence.work import Item, workload
from arcops.core.launch import Qualifying
from arcops.evidence.qualify import gates
from arcops.evidence.qualify.seen import HEADROOM, Course, LongSeen, Mark, Question, ToolSeen, not_asked, wanted_of
from tests.core.evidence.test_soaked import CLEAN, WATCHED
from tests.core.simulated import launch
from tests.evidence import made

PASSED, FAILED, UNKNOWN, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN, Verdict.SKIPPED
CARD = "0000:03:00.0"
GIB = 1 << 30


def said(content: str, problem: str = "") -> ChatAnswer:
    return ChatAnswer(content, "", (), "stop", 17, 3, None, 0.1, problem)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (said("READY."), PASSED),
        (said(" READY.\n"), PASSED),
        (said("READY"), PASSED),
        (said("Ready."), FAILED),
        (said("READY. What next?"), FAILED),
        (said(""), FAILED),
        (said("READY.", "the answer was not complete within 120 s"), FAILED),
    ],
)
def test_the_chat_has_to_give_the_exact_answer_and_to_end(answer: ChatAnswer, verdict: Verdict) -> None:
    assert gates.chat(Question(), answer).verdict is verdict


def test_a_profile_s_own_answer_has_to_stand_in_what_comes() -> None:
    question = Question("Capital?", "Paris", exactly=False)
    assert gates.chat(question, said("It is Paris.")).verdict is PASSED
    spaced = Question("Capital?", " Paris\n", exactly=False)
    assert gates.chat(spaced, said(" Paris")).verdict is PASSED, "white space around it is nobody's answer"
    wrong = gates.chat(question, said("It is Rome.\x1b[2J"))
    assert wrong.verdict is FAILED
    assert wrong.evidence == ("asked: Capital?", "answered: It is Rome. [2J")


RIGHT = ToolSeen("nested", "", "", "")


@pytest.mark.parametrize(
    ("seen", "verdict", "evidence"),
    [
        ((RIGHT, RIGHT), PASSED, ()),
        ((RIGHT, replace(RIGHT, streamed="no JSON")), FAILED, ("nested, streamed: no JSON",)),
        ((replace(RIGHT, whole="misfit"),), FAILED, ("nested, whole: misfit",)),
        ((replace(RIGHT, apart="they differ"),), FAILED, ("nested, both: they differ",)),
        ((), UNKNOWN, ()),
        (None, SKIPPED, ()),
    ],
)
def test_every_tool_call_has_to_be_right_both_ways(
    seen: tuple[ToolSeen, ...] | None, verdict: Verdict, evidence: tuple[str, ...]
) -> None:
    gate = gates.tools(seen, named=False)
    assert (gate.verdict, gate.evidence) == (verdict, evidence)


ANSWERED = Request("long-request", 0, 0.0, (1.0, 2.0), (4, 8), 2.0, 600, 12, None, "length", None)
LONG = LongSeen(600, ANSWERED, "one two three", tuple(range(12)), output=12)


@pytest.mark.parametrize(
    ("seen", "verdict", "words"),
    [
        (LONG, PASSED, "600 tokens were answered with 12 in 2.0 s"),
        (replace(LONG, ids=(7,) * 12, text="!" * 12), FAILED, "one token over and over"),
        (replace(LONG, ids=(), text="!" * 12), FAILED, "one token over and over"),
        (replace(LONG, request=replace(ANSWERED, output_tokens=0), ids=()), FAILED, "the server counts 0"),
        (replace(LONG, request=replace(ANSWERED, output_tokens=5), ids=()), FAILED, "12 were asked for in answer"),
        (replace(LONG, ids=tuple(range(5))), FAILED, "5 came"),
        (replace(LONG, request=replace(ANSWERED, finish="stop")), FAILED, "ended before them, for stop"),
        (replace(LONG, request=replace(ANSWERED, prompt_tokens=None)), UNKNOWN, "does not count"),
        (replace(LONG, request=replace(ANSWERED, output_tokens=None)), UNKNOWN, "does not count"),
        (
            LongSeen(600, replace(ANSWERED, output_tokens=2), "a b", (1, 2), output=2),
            UNKNOWN,
            "too few to tell",
        ),
        (replace(LONG, request=replace(ANSWERED, problem="cut", ended=None)), FAILED, "cut"),
        (replace(LONG, request=replace(ANSWERED, finish="abort")), FAILED, "broken off"),
        (replace(LONG, request=replace(ANSWERED, prompt_tokens=512)), FAILED, "the server counts 512"),
        (LongSeen(600, None, problem="no tokenizer"), UNKNOWN, "no tokenizer"),
    ],
)
def test_a_long_request_has_to_be_answered_in_full_and_in_earnest(seen: LongSeen, verdict: Verdict, words: str) -> None:
    gate = gates.long_request(seen)
    assert gate.verdict is verdict
    assert words in gate.detail


PLACE = Divergence("code-1", 5, 11, 12, Margin(-1.0, -0.9))
SAME = StageIdentity("suite", 1, 12, 12, 0)
OTHER = StageIdentity("suite", 1, 12, 11, 0, (PLACE,))


@pytest.mark.parametrize(
    ("stage", "failed", "accepted", "verdict"),
    [
        (SAME, 0, "", PASSED),
        (OTHER, 0, "", FAILED),
        (OTHER, 0, "a new kernel", PASSED),
        (replace(SAME, exact=11, unknown=1), 0, "", UNKNOWN),
        (replace(OTHER, exact=10, unknown=1), 0, "a new kernel", UNKNOWN),
        (SAME, 1, "", FAILED),
        (None, 0, "", SKIPPED),
        (None, 1, "", FAILED),
        (replace(SAME, asked=0, exact=0), 0, "", UNKNOWN),
    ],
)
def test_identity_is_n_of_n_or_it_has_a_reason(
    stage: StageIdentity | None, failed: int, accepted: str, verdict: Verdict
) -> None:
    gate = gates.identity(stage, failed, accepted=accepted)
    assert gate.verdict is verdict
    if verdict is PASSED and accepted:
        assert accepted in gate.detail


@pytest.mark.parametrize(
    ("stage", "otherwise", "verdict", "words"),
    [
        (replace(SAME, exact=8, unknown=4), 4, PASSED, "8/8"),
        (replace(OTHER, exact=7, unknown=4), 4, FAILED, "7/8"),
        (replace(SAME, exact=7, unknown=5), 4, UNKNOWN, "1 cannot be compared"),
        (replace(SAME, exact=0, unknown=12), 12, SKIPPED, "none of these 12"),
    ],
)
def test_what_was_asked_otherwise_then_is_said_and_not_compared(
    stage: StageIdentity, otherwise: int, verdict: Verdict, words: str
) -> None:
    gate = gates.identity(stage, 0, otherwise=otherwise)
    assert gate.verdict is verdict
    assert words in gate.detail
    assert "not compared" in gate.detail


def test_a_divergence_is_shown_with_its_place_and_margin() -> None:
    gate = gates.identity(OTHER, 0)
    assert gate.detail.startswith("11/12")
    assert gate.evidence == ("code-1 at token 5: 11 before, 12 now, margin +0.100 nats",)
    unasked = replace(OTHER, divergences=(replace(PLACE, token=None, margin=None),))
    assert gates.identity(unasked, 0).evidence == ("code-1 at token 5: 11 before, the end now",)


def test_only_what_is_asked_the_very_same_is_compared() -> None:
    old = made.suite(1)
    changed = old.workload.items[0].name
    items = tuple(Item(one.name, one.kind, f"{one.kind} {one.name[-1]}", made.TOKENS) for one in old.workload.items)
    new = replace(old, workload=workload("qualification", {}, (replace(items[0], prompt="another"), *items[1:])))
    found = same_questions(old, new)
    assert changed not in found
    assert len(found) == len(items) - 1
    assert asked_otherwise(old, new) == (changed,)


def test_a_picture_has_to_be_answered_where_one_is_given() -> None:
    assert gates.image(None).verdict is SKIPPED
    assert gates.image(said("A cat.")).verdict is PASSED
    assert gates.image(said(" ")).verdict is FAILED
    assert gates.image(said("", "HTTP 400: no images")).verdict is FAILED


def test_a_soak_passes_where_nothing_went_wrong_even_if_it_was_too_short_for_trends() -> None:
    assert gates.soak(None, WATCHED).verdict is SKIPPED
    assert gates.soak(CLEAN, WATCHED).verdict is PASSED
    short = gates.soak(replace(CLEAN, spans=CLEAN.spans[:3]), WATCHED)
    assert short.verdict is PASSED
    assert "too short to tell a trend" in short.detail
    restarted = gates.soak(replace(CLEAN, restarts=(12.0,)), WATCHED)
    assert restarted.verdict is FAILED
    assert "restarts" in restarted.detail
    silent = replace(CLEAN, before=replace(CLEAN.before, server_started=None))
    assert gates.soak(silent, WATCHED).verdict is UNKNOWN


def seen_card(*used: int | None, total: int | None = 12 * GIB) -> Setting:
    return Setting(
        ServerFacts("http://127.0.0.1:1"),
        Configuration("daemon"),
        cards=(CardFacts(CARD, "a card", "xe", total),),
        samples=tuple(CardSample(float(at), CARD, one) for at, one in enumerate(used)),
    )


@pytest.mark.parametrize(
    ("setting", "cards", "verdict"),
    [
        (seen_card(10 * GIB, 11 * GIB), (CARD,), PASSED),
        (seen_card(10 * GIB, 12 * GIB - HEADROOM), (CARD,), PASSED),
        (seen_card(10 * GIB, 12 * GIB - HEADROOM + 1, 9 * GIB), (CARD,), FAILED),
        (seen_card(None, None), (CARD,), UNKNOWN),
        (seen_card(), (CARD,), UNKNOWN),
        (seen_card(10 * GIB, total=None), (CARD,), UNKNOWN),
        (seen_card(10 * GIB), (CARD, "0000:04:00.0"), UNKNOWN),
        (seen_card(12 * GIB), (CARD, "0000:04:00.0"), FAILED),
        (seen_card(10 * GIB), (), SKIPPED),
        (seen_card(10 * GIB), None, UNKNOWN),
    ],
)
def test_each_card_has_to_have_room_at_its_fullest(
    setting: Setting, cards: tuple[str, ...] | None, verdict: Verdict
) -> None:
    assert gates.memory(setting, cards, HEADROOM).verdict is verdict


QUIET = tuple(Judgement(question, PASSED, "") for question in (Judged.UNDISTURBED, Judged.SAME_SERVER, Judged.CANARIES))
STARTED = Counters(0.0, server_started=1000.0, prompt_tokens=500.0, corrupted=1.0)
RAN = Mark(7, "launch-7")
UNMOVED = Course(RAN, RAN)


def disturbed(question: Judged, verdict: Verdict, words: str) -> tuple[Judgement, ...]:
    return tuple(Judgement(question, verdict, words) if one.question is question else one for one in QUIET)


@pytest.mark.parametrize(
    ("judgements", "last", "verdict", "words"),
    [
        (QUIET, STARTED, PASSED, "no reset"),
        (disturbed(Judged.UNDISTURBED, FAILED, "reset at 3.0 s"), STARTED, FAILED, "reset at 3.0 s"),
        (disturbed(Judged.UNDISTURBED, UNKNOWN, "nobody watched"), STARTED, UNKNOWN, "nobody watched"),
        (disturbed(Judged.CANARIES, FAILED, "another answer"), STARTED, FAILED, "another answer"),
        (disturbed(Judged.UNDISTURBED, UNKNOWN, "?"), replace(STARTED, server_started=1.0), FAILED, "it was restarted"),
        (QUIET, replace(STARTED, server_started=1009.0), FAILED, "it was restarted"),
        (QUIET, replace(STARTED, prompt_tokens=499.0), FAILED, "counter of prompt tokens fell"),
        (QUIET, replace(STARTED, corrupted=3.0), FAILED, "2 corrupted requests"),
        (QUIET, Counters(9.0), UNKNOWN, "does not say"),
        ((), STARTED, UNKNOWN, "nobody looked"),
        ((*QUIET, Judgement(Judged.ALONE, FAILED, "somebody else")), STARTED, PASSED, "no reset"),
    ],
)
def test_a_reset_a_restart_or_another_canary_disturbs_it(
    judgements: tuple[Judgement, ...], last: Counters, verdict: Verdict, words: str
) -> None:
    gate = gates.undisturbed(judgements, (STARTED, last))
    assert gate.verdict is verdict
    assert words in gate.detail


def test_a_server_that_was_restarted_twice_in_between_is_not_the_same() -> None:
    other = replace(STARTED, server_started=1001.0)
    assert gates.undisturbed(QUIET, (STARTED, other, STARTED)).verdict is FAILED
    fallen = replace(STARTED, prompt_tokens=100.0)
    assert gates.undisturbed(QUIET, (STARTED, fallen, STARTED)).verdict is FAILED


@pytest.mark.parametrize(
    ("course", "verdict", "words"),
    [
        (None, PASSED, "no reset"),
        (UNMOVED, PASSED, "no reset"),
        (Course(RAN, Mark(8, "launch-7")), FAILED, "another order came in between"),
        (Course(RAN, Mark(7, "launch-8")), FAILED, "launch-8 runs"),
        (Course(RAN, Mark(7, None)), FAILED, "nothing runs"),
        (Course(RAN, None), UNKNOWN, "did not say at the end"),
        (Course(None, RAN), UNKNOWN, "did not say at the beginning"),
    ],
)
def test_another_order_or_another_launch_disturbs_it(course: Course | None, verdict: Verdict, words: str) -> None:
    gate = gates.undisturbed(QUIET, (STARTED, STARTED), course)
    assert gate.verdict is verdict
    assert words in gate.detail


@pytest.mark.parametrize(
    ("changed", "qualified"),
    [
        ({}, True),
        ({"tools": SKIPPED}, True),
        ({"identity": SKIPPED, "image": SKIPPED}, True),
        ({"tools": FAILED}, False),
        ({"tools": UNKNOWN}, False),
        ({"tools": None}, False),
        ({"chat": SKIPPED}, False),
        ({"start": SKIPPED}, False),
        ({"start": None}, False),
        ({"memory": UNKNOWN}, False),
        ({"undisturbed": FAILED}, False),
    ],
)
def test_tools_may_be_left_out_by_choice_and_start_and_chat_may_not(
    changed: dict[str, Verdict | None], qualified: bool
) -> None:
    verdicts: dict[str, Verdict | None] = {"start": PASSED, "chat": PASSED, "tools": PASSED, **changed}
    held = tuple(Gate(name, verdict, "") for name, verdict in verdicts.items() if verdict is not None)
    assert Qualification("mtp", "sha256:0", held).qualified is qualified


def test_a_start_that_fails_leaves_the_rest_unasked_and_never_qualifies() -> None:
    held = not_asked(Gate("start", FAILED, "out of memory"))
    assert {gate.verdict for gate in held[1:]} == {SKIPPED}
    assert not Qualification("mtp", "sha256:0", held).qualified


def test_what_a_person_says_goes_before_what_the_profile_says() -> None:
    own = Qualifying("Capital?", "Paris", 2048, 64 << 20, tools=False)
    profile = replace(launch(), qualification=own)
    assert wanted_of(None).headroom == HEADROOM
    assert wanted_of(None).question == Question()
    assert wanted_of(profile).question == Question("Capital?", "Paris", exactly=False)
    assert (wanted_of(profile).long_tokens, wanted_of(profile).headroom, wanted_of(profile).tools) == (
        2048,
        64 << 20,
        False,
    )
    chosen = wanted_of(profile, question=Question("Sum?", "4", exactly=False), long_tokens=99, headroom=0)
    assert (chosen.question.prompt, chosen.long_tokens, chosen.headroom) == ("Sum?", 99, 0)
