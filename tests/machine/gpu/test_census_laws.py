"""What holds of every census, whoever shares what with whom, and however reading it fails."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from arcops.core.cards.attribution import unattributed
from arcops.core.quantity import Known
from tests.machine.gpu.counting import census
from tests.trees.procfs import B70, MIB, SECOND, Client, Fails, Open, Process


@st.composite
def clients(draw: st.DrawFn) -> Client:
    resident = draw(st.integers(0, 4000))
    return Client(
        number=draw(st.integers(0, 5)),
        resident=resident,
        total=resident + draw(st.sampled_from((0, 0, 100))),
        shared=draw(st.sampled_from((0, 0, resident // 2, resident))),
        card=draw(st.sampled_from((B70, B70, SECOND))),
    )


@st.composite
def machines(draw: st.DrawFn) -> list[Process]:
    """Up to six processes that share up to five clients in any way, and fail in any way."""
    known: dict[tuple[str, int], Client] = {}
    for one in draw(st.lists(clients(), max_size=5)):
        known.setdefault((one.card, one.number), one)
    pool = list(known.values())
    found: list[Process] = []
    for pid in range(100, 100 + draw(st.integers(0, 6))):
        has = draw(st.lists(st.sampled_from(pool), max_size=3)) if pool else []
        found.append(
            Process(
                pid,
                tuple(Open(one, 5 + number) for number, one in enumerate(has)),
                plain=0,
                fails=draw(st.sampled_from((Fails.NEVER, Fails.NEVER, Fails.NEVER, *Fails))),
            )
        )
    return found


@settings(deadline=None, max_examples=50)
@given(machines(), st.sets(st.integers(100, 105)))
def test_no_client_counts_twice_and_what_is_unreadable_is_never_free(machine: list[Process], ours: set[int]) -> None:
    there = {has.client for one in machine for has in one.has if has.client.card == B70}
    # What is in use of the card: each client's own buffers, and one buffer that all who share have a part of.
    in_use = sum(one.resident - one.shared for one in there) + max((one.shared for one in there), default=0)
    with TemporaryDirectory() as folder:
        found = census(Path(folder), machine, used=Known(in_use * MIB, 1.0), ours=ours)
    every = [*found.holdings, *found.idle]
    numbers = [one.client for one in every]
    assert len(numbers) == len(set(numbers)), "a client counts once"
    seen = [one for one in there if one.number in numbers]
    assert found.held == sum(one.resident for one in seen) * MIB
    assert (found.held or 0) <= in_use * MIB + sum(one.shared for one in seen) * MIB
    assert not any("contradicts" in note for note in found.notes)
    for one in every:
        pids = {user.pid for user in one.users}
        assert one.ours is bool(pids & ours)
        assert (one.resident or 0) >= 0
        assert pids <= {process.pid for process in machine if process.fails is Fails.NEVER}
    readable = {has.client for one in machine for has in one.has if one.fails is Fails.NEVER and has.client.card == B70}
    assert {one.number for one in readable} == set(numbers), "who can be read is read"
    forbidden = [one for one in machine if one.fails is Fails.FORBIDDEN]
    assert found.unreadable == len(forbidden)
    rest = unattributed(found)
    assert isinstance(rest, Known)
    assert 0 <= rest.value <= in_use * MIB
    hidden = {has.client for one in forbidden for has in one.has if has.client.card == B70} - readable
    if any(one.resident for one in hidden):
        assert found.unreadable, "it is said that somebody may have memory there"
        assert found.notes
    if not any(one.shared for one in there):
        assert rest.value == (in_use - sum(one.resident for one in seen)) * MIB, "and how much nobody is named for"
