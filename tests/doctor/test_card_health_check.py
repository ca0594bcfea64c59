"""The doctor tries a card that nobody uses, and one that somebody uses only when it is asked to."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from arcops.core.cards.health import Health
from arcops.core.cards.health import Verdict as Trial
from arcops.core.launch import Launch
from arcops.doctor import Sight
from arcops.doctor.checks.card_health import NAME, card_health, chosen
from arcops.doctor.finding import Verdict
from arcops.doctor.sight import Once, Profiles
from arcops.machine.gpu.health import Subject
from arcops.machine.lock import Locks
from tests.core.simulated import launch
from tests.doctor.patient import Patient

CARD = "0000:09:00.0"
WELL = Health(Trial.HEALTHY, f"card {CARD} computes (tried with torch 2.13)")


class Tried:
    """What was tried, and what it comes to; whether the card was locked meanwhile."""

    def __init__(self, card: Path, health: Health = WELL) -> None:
        self.card, self.health = card, health
        self.subjects: list[Subject] = []
        self.was_locked: list[bool] = []

    def __call__(self, subject: Subject) -> Health:
        self.subjects.append(subject)
        others = Locks()
        self.was_locked.append(others.try_take([str(self.card)]) is not None)
        others.release()
        return self.health


def sight_of(patient: Patient, *launches: Launch, asked: tuple[str, ...] = ()) -> Sight:
    sight = replace(patient.sight(), asked=frozenset(asked))
    found = Profiles(launches, (), tuple(card for one in launches for card in one.cards), (), "site.yaml")
    object.__setattr__(sight, "profiles", Once(lambda: found))
    return sight


def on(card: Path, *cards: str, **changes: object) -> Launch:
    made = launch("alpha", locks=(str(card),), cards=cards or (CARD,), environment=(("ZE_AFFINITY_MASK", "0"),))
    return replace(made, **changes)  # pyright: ignore[reportArgumentType] - names are Launch's own


def test_an_idle_card_is_tried_under_its_lock_with_the_launchs_own_runtime_and_mask(patient: Patient) -> None:
    card = patient.card(CARD)
    tried = Tried(card)
    found = card_health(sight_of(patient, on(card)), tried)
    assert (found.verdict, found.summary) == (Verdict.OK, WELL.words)
    (subject,) = tried.subjects
    assert (subject.vllm, subject.cards, subject.drivers, subject.kind) == ("vllm", (CARD,), ("xe",), "xpu")
    assert subject.environment["ZE_AFFINITY_MASK"] == "0"
    assert tried.was_locked == [True]
    again = Locks()
    assert again.try_take([str(card)]) is None, "the lock is given back"
    again.release()


def test_a_card_that_does_not_compute_is_a_problem_and_says_what_helps(patient: Patient) -> None:
    card = patient.card(CARD)
    sick = Health(Trial.WEDGED, f"card {CARD} computes wrong numbers", "reboot")
    found = card_health(sight_of(patient, on(card)), Tried(card, sick))
    assert (found.verdict, found.summary, found.remedy) == (Verdict.PROBLEM, sick.words, "reboot")


def test_what_could_not_be_tried_is_unknown(patient: Patient) -> None:
    card = patient.card(CARD)
    found = card_health(sight_of(patient, on(card)), Tried(card, Health(Trial.INCONCLUSIVE, "torch is not there")))
    assert (found.verdict, found.summary) == (Verdict.UNKNOWN, "torch is not there")


def test_a_card_whose_lock_is_taken_is_left_alone_unless_it_is_asked_for(patient: Patient) -> None:
    card = patient.card(CARD)
    tried, locks = Tried(card), Locks()
    assert locks.try_take([str(card)]) is None
    try:
        found = card_health(sight_of(patient, on(card)), tried)
        assert found.verdict is Verdict.UNKNOWN
        assert found.summary == f"card {CARD} is in use, and was not tried"
        assert f"pid {os.getpid()}" in found.evidence[0]
        assert found.remedy.startswith("arcops doctor card-health   (tries it all the same; it takes some hundred MiB")
        assert tried.subjects == []
        assert card_health(sight_of(patient, on(card), asked=(NAME,)), tried).verdict is Verdict.OK
    finally:
        locks.release()


def test_a_card_that_somebody_has_memory_of_is_left_alone(patient: Patient) -> None:
    card = patient.card(CARD)
    holder = patient.process(900, "game")
    (holder / "fd" / "7").symlink_to(patient.dev / "dri/renderD128")
    (holder / "fdinfo" / "7").write_text(
        f"drm-driver:\txe\ndrm-pdev:\t{CARD}\ndrm-client-id:\t9\ndrm-total-vram0:\t1024 MiB\n"
        "drm-resident-vram0:\t1024 MiB\n"
    )
    tried = Tried(card)
    found = card_health(sight_of(patient, on(card)), tried)
    assert (found.verdict, tried.subjects) == (Verdict.UNKNOWN, [])
    assert found.evidence == ("pid 900 (game) has memory of it",)


def test_every_card_is_tried_once_and_by_the_launch_with_the_fewest() -> None:
    both = launch("both", cards=("0000:03:00.0", "0000:08:00.0"))
    left, again = launch("left", cards=("0000:03:00.0",)), launch("again", cards=("0000:03:00.0",))
    right, none = launch("right", cards=("0000:08:00.0",)), launch("none", cards=())
    assert chosen([both, left, again, none]) == (left, both)
    assert chosen([both, right, left]) == (right, left)
    assert chosen([none]) == ()


def test_a_setup_script_that_fails_is_an_absence_with_its_words(patient: Patient) -> None:
    card = patient.card(CARD)
    script = patient.site.root / "broken.sh"
    script.write_text("echo no oneAPI >&2\nreturn 3\n")
    sight = sight_of(patient, on(card, setup=str(script)), asked=(NAME,))
    with pytest.raises(Exception, match="no oneAPI"):
        card_health(sight, Tried(card))


def test_without_a_card_there_is_nothing_to_try(patient: Patient) -> None:
    patient.profile("mine")
    assert patient.ask(NAME).verdict is Verdict.OK
