"""Is a card clean? A table of situations with the answer to each, and what holds in all of them."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.cards import clean
from arcops.core.cards.attribution import AGREES, MIB
from arcops.core.cards.clean import DRIVERS_MOST, KEPT_AFTER, NEAR, Occupancy, Terms
from arcops.core.cards.holders import Census, Holding, User
from arcops.core.quantity import Known, Reading, Unknown

CARD = "0000:03:00.0"
TOTAL = 32_768
DARK = -1
"""In place of MiB: cannot be read."""
PYTHON = User(7, 70, "python", "root", None)
XORG = User(8, 80, "Xorg", "root", None)
VLLM = User(9, 90, "VLLM::EngineCor", "me", None)
GONE = User(10, None, None, None, None)


def mib(size: int, at: float = 5.0) -> Reading[int]:
    return Unknown("needs CAP_PERFMON", at) if size == DARK else Known(size * MIB, at)


def held(size: int | None, *users: User, evicted: int = 0, ours: bool = False) -> Holding:
    """Somebody's memory, in MiB."""
    resident = None if size is None else size * MIB
    total = None if size is None else (size + evicted) * MIB
    return Holding(users[0].pid if users else 0, users, resident, total, ours)


def seen(
    used: int,
    *holdings: Holding,
    earlier: int | None = None,
    baseline: int | None = None,
    unreadable: int = 0,
    living: bool = False,
    total: int = TOTAL,
    everybody: bool = True,
) -> Occupancy:
    """A look at 5.0, all in MiB: by what is in use, and by whom; the look before it was at 4.0."""
    return Occupancy(
        Census(CARD, 5.0, holdings, (), unreadable, mib(used), everybody),
        mib(total),
        ended=frozenset({GONE.pid}),
        living=living,
        earlier=Unknown("not looked before", float("-inf")) if earlier is None else mib(earlier, 4.0),
        baseline=None if baseline is None else baseline * MIB,
    )


DESKTOP = Terms(allowed=("Xorg",))


@pytest.mark.parametrize(
    ("look", "says"),
    [
        # nobody is named
        (seen(300), ""),
        (seen(300, baseline=300), ""),
        (seen(DARK), ""),
        (seen(DARK, unreadable=12), ""),
        (seen(DARK, baseline=300), ""),
        (seen(2048), ""),
        (seen(2049), "2,049 MiB of card 0000:03:00.0 are in use, more than the 2,048 MiB that a driver may"),
        (seen(1000, total=8192), "more than the 512 MiB that a driver may have"),
        (seen(600, total=DARK), "more than the 512 MiB that a driver may have"),
        (seen(550, baseline=300), ""),
        (seen(557, baseline=300), "557 MiB of card 0000:03:00.0 are in use, 257 MiB more than when it is idle"),
        (seen(557, baseline=300), "nobody can be named for it: everybody here was looked at"),
        (seen(557, earlier=557, baseline=300), ""),
        (seen(557, earlier=557, baseline=300, unreadable=1), "257 MiB more than when it is idle"),
        (seen(2049, earlier=2049, baseline=300), "1,749 MiB more than when it is idle"),
        (seen(5300, baseline=300, unreadable=12), "12 processes of other users may not be looked into"),
        (seen(100, baseline=300), ""),
        # somebody is
        (seen(364, held(64, PYTHON), baseline=300), ""),
        (seen(365, held(65, PYTHON), baseline=300), "pid 7 (python) of user root holds 65 MiB of card 0000:03:00.0"),
        (seen(DARK, held(65, PYTHON)), "pid 7 (python) of user root holds 65 MiB"),
        (seen(360, held(40, PYTHON), held(40, XORG)), ""),
        (seen(370, held(65, XORG)), ""),
        (seen(9000, held(8000, XORG), baseline=300), "700 MiB more than when it is idle"),
        (seen(300, held(65, XORG, PYTHON)), "pid 8 (Xorg) of user root, together with 1 more, holds 65 MiB"),
        (seen(300, held(None, PYTHON)), "pid 7 (python) of user root holds memory of card"),
        (seen(300, held(None, XORG)), ""),
        (seen(9000, held(None, XORG)), ""),
        (seen(300, held(0, PYTHON)), ""),
        (seen(300, held(0, PYTHON, evicted=900)), "holds 0 MiB (and 900 MiB evicted) of card"),
        (seen(300, *[held(30, replace(PYTHON, pid=pid)) for pid in range(20, 26)]), "; and 2 more hold memory there"),
        # both sources at odds: a name counts, whatever is in use
        (seen(0, held(5000, PYTHON)), "holds 5,000 MiB"),
        # it has ended, and is named all the same
        (seen(20_300, held(20_000, GONE), baseline=300), "20,000 MiB more than when it is idle"),
        (seen(20_300, held(20_000, GONE), baseline=300), "20,000 MiB of card 0000:03:00.0 go by pid 10, and no such"),
        (seen(DARK, held(20_000, GONE)), "20,000 MiB of card 0000:03:00.0 go by pid 10, and no such process is here"),
        (seen(DARK, held(None, GONE)), "memory of card 0000:03:00.0 go by pid 10"),
        (seen(20_300, held(20_000, GONE, PYTHON)), "together with 1 more, holds 20,000 MiB"),
        (seen(20_300, held(20_000)), "go by nobody, and no such process"),
        # ours is there: an order is about to take its place
        (seen(20_300, held(20_000, VLLM, ours=True), living=True, baseline=300), ""),
        (seen(20_900, held(20_000, VLLM, ours=True), living=True, baseline=300), ""),
        (seen(26_000, held(20_000, VLLM, ours=True), living=True, baseline=300), "6,000 MiB of card"),
        (seen(26_000, held(20_000, VLLM, ours=True), held(5_700, PYTHON), living=True), "(python) of user root holds"),
        (seen(26_000, living=True, baseline=300), ""),
        (seen(26_000, held(None, VLLM, ours=True), living=True, baseline=300), ""),
        (seen(DARK, held(20_000, GONE), living=True), ""),
    ],
)  # fmt: skip
def test_what_a_card_has_against_a_launch(look: Occupancy, says: str) -> None:
    found = clean.objection(look, DESKTOP)
    assert (found is None) == (not says), found
    assert found is None or says in found.words


def test_a_name_comes_before_what_nobody_is_named_for() -> None:
    both = seen(9000, held(900, PYTHON), baseline=300)
    named, nobody = clean.objection(both, Terms()), clean.objection(both, Terms(("python",)))
    assert named is not None
    assert nobody is not None
    assert (named.named, nobody.named) == (True, False)


def test_a_profile_may_bear_more() -> None:
    patient = Terms(spare=1000 * MIB)
    assert clean.objection(seen(1300, held(1000, PYTHON), baseline=300), patient) is None
    assert clean.objection(seen(1300, baseline=300), patient) is None
    assert clean.objection(seen(1301, baseline=300), patient) is not None
    assert clean.objection(seen(3000), Terms(spare=3000 * MIB)) is None


def test_memory_that_changes_from_look_to_look_is_told_from_what_stays() -> None:
    for earlier, moving in ((9000, True), (6000 + AGREES // MIB, False), (None, True)):
        found = clean.objection(seen(6000, earlier=earlier), Terms())
        assert found is not None
        assert found.moving is moving


# -- after a stop -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("look", "waited", "says"),
    [
        (seen(300, earlier=300, baseline=300), 0.1, ""),
        (seen(556, earlier=556, baseline=300), 0.1, ""),
        (seen(300, baseline=300), 0.1, "still changing, or was seen once only"),
        (seen(300, earlier=9000, baseline=300), 0.1, "still changing"),
        (seen(300, earlier=DARK, baseline=300), 0.1, "still changing"),
        (seen(9000, earlier=9000, baseline=300), 0.1, "9,000 MiB of card 0000:03:00.0 are in use, 8,700 MiB more than"),
        (seen(9000, earlier=9000, baseline=300), 50.0, "8,700 MiB more than when it is idle"),
        (seen(9000, earlier=9000), 50.0, "more than the 2,048 MiB that a driver may have for itself"),
        (seen(2000, earlier=2000), 0.1, ""),
        # a driver that keeps more than it had before is believed once nothing has moved for long
        (seen(700, earlier=700, baseline=300), KEPT_AFTER - 0.1, "400 MiB more"),
        (seen(700, earlier=700, baseline=300), KEPT_AFTER, ""),
        (seen(700, earlier=800, baseline=300), KEPT_AFTER, "still changing"),
        (seen(700, held(400, GONE), earlier=700, baseline=300), KEPT_AFTER, "go by pid 10"),
        # a stranger's is no residue of ours; what of ours still holds is
        (seen(5300, held(5000, PYTHON), earlier=300, baseline=300), 0.1, ""),
        (seen(5300, held(5000, VLLM, ours=True), earlier=300), 0.1, "(VLLM::EngineCor) of user me holds 5,000 MiB"),
        (seen(5300, held(5000, GONE), earlier=5300, baseline=300), 0.1, "5,300 MiB of card 0000:03:00.0 are in use"),
        # how much is in use is not known: then it is judged by its holders
        (seen(DARK, baseline=300), 0.1, ""),
        (seen(DARK, held(5000, PYTHON), unreadable=4), 0.1, ""),
        (seen(DARK, held(5000, GONE)), 0.1, "5,000 MiB of card 0000:03:00.0 go by pid 10"),
    ],
)  # fmt: skip
def test_what_remains_after_a_stop(look: Occupancy, waited: float, says: str) -> None:
    found = clean.remains(look, Terms(), since=3.5, waited=waited)
    assert bool(found) == bool(says), found
    assert says in found


def test_a_look_from_before_the_last_process_ended_is_none_of_the_two() -> None:
    look = seen(300, earlier=300, baseline=300)
    assert clean.remains(look, Terms(), since=4.0, waited=0.1) == ""
    assert clean.remains(look, Terms(), since=4.1, waited=0.1) != ""


# -- the baseline -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("look", "learnt"),
    [
        (seen(300, earlier=300), 300),
        (seen(300, earlier=300, unreadable=12), 300),
        (seen(0, earlier=0), 0),
        (seen(2048, earlier=2048), 2048),
        (seen(2049, earlier=2049), None),
        (seen(300), None),
        (seen(300, earlier=400), None),
        (seen(DARK, earlier=300), None),
        (seen(300, earlier=300, living=True), None),
        (seen(300, earlier=300, everybody=False), None),
        (seen(5300, held(5000, PYTHON), earlier=300), None),
        (seen(5300, held(5000, XORG), earlier=300), 300),
        (seen(5300, held(None, XORG), earlier=300), None),
        (seen(700, held(400, GONE), earlier=700), None),
        # lower is always true; higher only where nobody can hide in it
        (seen(200, earlier=200, baseline=300, unreadable=12), 200),
        (seen(290, earlier=290, baseline=300), None),
        (seen(310, earlier=310, baseline=300), None),
        (seen(500, earlier=500, baseline=300), 500),
        (seen(500, earlier=500, baseline=300, unreadable=12), None),
    ],
)
def test_what_a_look_teaches_of_an_idle_card(look: Occupancy, learnt: int | None) -> None:
    assert clean.learnt(look, DESKTOP, since=3.5) == (None if learnt is None else learnt * MIB)


def test_what_a_driver_has_kept_since_our_own_end_is_learnt_whoever_might_hide() -> None:
    look = seen(500, earlier=500, baseline=300, unreadable=12)
    assert clean.learnt(look, DESKTOP, since=3.5, kept=True) == 500 * MIB
    assert clean.learnt(look, DESKTOP, since=4.5, kept=True) is None


# -- notes ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("look", "says"),
    [
        (seen(300), []),
        (seen(300, unreadable=3), ["300 MiB of card 0000:03:00.0 are in use, and nobody can be named for them"]),
        (seen(300, held(300, XORG), unreadable=3), []),
        (seen(300, held(None, XORG), unreadable=3), []),
        (seen(DARK), ["how much of card 0000:03:00.0 is in use cannot be read (needs CAP_PERFMON)"]),
        (seen(DARK, unreadable=3), ["cannot be read"]),
        (seen(3000, held(5000, XORG)), []),
        (seen(40_000), ["contradicts itself: 40,000 MiB are in use, and it has 32,768 MiB"]),
        (seen(300, total=DARK), []),
    ],
)
def test_what_could_not_be_seen_and_what_contradicts_itself_is_said(look: Occupancy, says: list[str]) -> None:
    notes = clean.notes(look)
    assert len(notes) == len(says)
    assert all(part in note for part, note in zip(says, notes, strict=True))


def test_what_the_census_says_of_itself_is_told_on() -> None:
    look = seen(300)
    assert clean.notes(replace(look, census=replace(look.census, notes=("it was cut short",)))) == ("it was cut short",)


# -- in all of them ---------------------------------------------------------------------------------------------------
sizes = st.integers(0, 140_000)
users = st.lists(st.sampled_from([PYTHON, XORG, VLLM, GONE]), max_size=3, unique=True)


@st.composite
def holdings(draw: st.DrawFn) -> Holding:
    return held(
        draw(st.one_of(st.none(), sizes)),
        *draw(users),
        evicted=draw(sizes) * draw(st.booleans()),
        ours=draw(st.booleans()),
    )


@st.composite
def looks(draw: st.DrawFn) -> Occupancy:
    return seen(
        draw(st.one_of(st.just(DARK), sizes)),
        *draw(st.lists(holdings(), max_size=5)),
        earlier=draw(st.one_of(st.none(), st.just(DARK), sizes)),
        baseline=draw(st.one_of(st.none(), st.integers(0, DRIVERS_MOST // MIB))),
        unreadable=draw(st.integers(0, 40)),
        living=draw(st.booleans()),
        total=draw(st.one_of(st.just(DARK), sizes)),
    )


terms = st.builds(Terms, st.sampled_from([(), ("Xorg",), ("python", "Xorg")]), st.integers(1, 4096 * MIB))


@given(look=looks(), terms=terms, since=st.sampled_from([0.0, 4.5]), waited=st.sampled_from([0.0, 60.0]))
def test_whatever_was_read_is_judged_in_words(look: Occupancy, terms: Terms, since: float, waited: float) -> None:
    """No crash, no negative number, and no baseline that a driver could not have."""
    left, learnt = clean.unattributed(look), clean.learnt(look, terms, since, kept=waited > KEPT_AFTER)
    objection = clean.objection(look, terms)
    said = (*clean.notes(look), clean.remains(look, terms, since, waited), "" if objection is None else objection.words)
    assert not [words for words in said if re.search(r"-\d", words)]
    assert isinstance(left, Unknown) or left.value >= 0
    assert learnt is None or 0 <= learnt <= DRIVERS_MOST


@given(look=looks(), terms=terms)
def test_a_stranger_with_much_memory_is_never_overlooked(look: Occupancy, terms: Terms) -> None:
    big = Holding(99, (User(99, 1, "stranger", "root", None),), terms.spare + 1, None, ours=False)
    joined = replace(look, census=replace(look.census, holdings=(*look.census.holdings, big)))
    found = clean.objection(joined, terms)
    assert found is not None
    assert found.named


@given(look=looks(), terms=terms, more=st.integers(0, 4096))
def test_more_memory_in_use_is_never_more_welcome(look: Occupancy, terms: Terms, more: int) -> None:
    used = look.census.used
    if isinstance(used, Unknown) or clean.objection(look, terms) is None:
        return
    fuller = replace(look, census=replace(look.census, used=Known(used.value + more * MIB, used.at)))
    assert clean.objection(fuller, terms) is not None


@given(look=looks(), terms=terms)
def test_what_nobody_is_named_for_is_never_over_the_bounds_without_a_word(look: Occupancy, terms: Terms) -> None:
    """Law 7, where how much is in use is known and nothing of ours lives: a card that is let through is an idle one."""
    left, learnt = clean.unattributed(look), clean.learnt(look, terms, 0.0)
    if look.living or isinstance(left, Unknown) or clean.objection(look, terms) is not None:
        return
    named = sum(one.resident or 0 for one in look.census.holdings)
    idle = look.baseline if learnt is None else learnt
    bound = max(DRIVERS_MOST, terms.spare) if idle is None else idle + max(NEAR, terms.spare)
    assert left.value <= bound + named // 32
