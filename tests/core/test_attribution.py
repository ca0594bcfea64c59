"""From what single descriptors showed to who holds a card."""

import pytest

from arcops.core.cards.attribution import AGREES, MIB, Look, Sighting, census, least_in_use, unattributed
from arcops.core.cards.holders import Census, User
from arcops.core.quantity import Known, Reading, Unknown

CARD = "0000:03:00.0"
NOT_SAID = Unknown("needs CAP_PERFMON", 0.5)


def seen(client: int, pid: int, resident: int | None, shared: int = 0, total: int | None = None) -> Sighting:
    """Sizes in MiB; as much is allocated as is there, unless it is said."""
    size = None if resident is None else resident * MIB
    return Sighting(client, pid, size, size if total is None else total * MIB, shared * MIB)


def taken(
    *sightings: Sighting,
    used: Reading[int] = NOT_SAID,
    unreadable: int = 0,
    everybody: bool = True,
    ours: frozenset[int] = frozenset(),
) -> Census:
    return census(Look(CARD, 1.0, used, unreadable, everybody), sightings, {}, ours)


def in_use(mib: int) -> Known[int]:
    return Known(mib * MIB, 0.5)


def test_the_larger_of_two_looks_at_one_client_stands_for_it() -> None:
    (one,) = taken(seen(7, 100, 10), seen(7, 200, 12), seen(7, 200, None)).holdings
    assert (one.resident, [user.pid for user in one.users]) == (12 * MIB, [100, 200])


def test_the_largest_comes_first_and_one_whose_size_is_unknown_before_all() -> None:
    found = taken(seen(1, 100, 5), seen(2, 200, None), seen(3, 300, 50), seen(4, 400, 0))
    assert [one.client for one in found.holdings] == [2, 3, 1]
    assert [one.client for one in found.idle] == [4]


def test_who_is_known_of_is_described_and_who_has_gone_is_a_pid() -> None:
    user = User(100, 77, "python3", "ann", "/x")
    found = census(Look(CARD, 1.0, NOT_SAID), [seen(7, 100, 5), seen(7, 200, 5)], {100: user}, frozenset())
    assert found.holdings[0].users == (user, User(200, None, None, None, None))


@pytest.mark.parametrize(
    ("found", "rest"),
    [
        (taken(used=in_use(40)), in_use(40)),
        (taken(seen(1, 100, 30), used=in_use(40)), in_use(10)),
        (taken(seen(1, 100, 30), seen(2, 100, 30), used=in_use(40)), in_use(0)),
        (taken(seen(1, 100, 0, total=30), used=in_use(40)), in_use(40)),
    ],
)
def test_what_nobody_is_named_for_is_never_negative(found: Census, rest: Known[int]) -> None:
    assert unattributed(found) == Known(rest.value, 1.0)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (taken(seen(1, 100, 30)), "needs CAP_PERFMON"),
        (taken(seen(1, 100, None), used=in_use(40)), "the driver does not say how much pid 100 holds"),
        (taken(seen(1, 100, 30), used=in_use(40), everybody=False), "only our own processes were looked at"),
    ],
)
def test_what_nobody_is_named_for_is_unknown_where_anything_of_it_is(found: Census, reason: str) -> None:
    assert unattributed(found) == Unknown(reason, 1.0)


def test_shared_buffers_are_in_use_once() -> None:
    found = taken(seen(1, 100, 50, shared=40), seen(2, 200, 45, shared=45), seen(3, 300, 10, shared=90))
    assert least_in_use(found.holdings) == (10 + 0 + 0 + 45) * MIB
    assert least_in_use(()) == 0
    assert least_in_use(taken(seen(1, 100, None, shared=5)).holdings) == 0


def test_a_contradiction_is_said_once_it_is_more_than_shared_buffers_and_time_explain() -> None:
    both = (seen(1, 100, 100, shared=60), seen(2, 200, 100, shared=60))
    at_least = 100 - 60 + 100
    assert taken(*both, used=Known(at_least * MIB - AGREES, 0.5)).notes == ()
    (note,) = taken(*both, used=Known(at_least * MIB - AGREES - 1, 0.5)).notes
    assert note == (
        f"card {CARD} contradicts itself: 2 holders have at least 140 MiB of it by their own account,"
        " and 124 MiB are in use by the driver's"
    )
    assert taken(*both).notes == (), "nothing contradicts what is not known"
    (alone,) = taken(seen(1, 100, 100), used=Known(0, 0.5)).notes
    assert "1 holder has at least 100 MiB of it by its own account, and 0 MiB are" in alone


def test_processes_that_may_not_be_looked_into_are_told() -> None:
    (one,) = taken(unreadable=1).notes
    (more,) = taken(unreadable=3).notes
    assert one == f"1 process may not be looked into: memory of card {CARD} that nobody is named for may be its"
    assert more == f"3 processes may not be looked into: memory of card {CARD} that nobody is named for may be theirs"
