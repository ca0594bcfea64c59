"""Does somebody else hold what a launch needs: memory of a card, or the port?"""

from collections.abc import Collection, Sequence
from time import monotonic

from arcops.core.cards.clean import Occupancy, Terms, objection
from arcops.core.cards.holders import Census, Holding
from arcops.core.cards.measures import Quantity
from arcops.core.launch import Launch
from arcops.core.quantity import Known, Reading, Unknown
from arcops.core.world import Holder
from arcops.doctor.finding import Outcome, Verdict, ok, together, unknown
from arcops.doctor.run import Check
from arcops.doctor.sight import Sight
from arcops.machine import cgroup, port, process
from arcops.machine.gpu import CardIdentity, reader_for
from arcops.machine.gpu.base import MIB, Roots
from arcops.machine.gpu.census import readings
from arcops.machine.record import LaunchRecord


def ours(sight: Sight) -> frozenset[int]:
    """Every process of the launch that the record speaks of. Raises OSError."""
    record = sight.launch()
    if not isinstance(record, LaunchRecord):
        return frozenset()
    sid = None if record.keeper is None else record.keeper.pid
    named = {one.pid for one in (record.keeper, record.main) if one is not None and process.alive(one)}
    return frozenset(named.union(cgroup.members(record.enclosure, sid)))


def judge_card(address: str, holders: Sequence[Holder], hidden: int) -> Outcome:
    unseen = f"{hidden} processes of other users may not be looked into: they might hold memory of it" if hidden else ""
    if holders:
        summary = "; ".join(str(holder) for holder in holders)
        return Outcome(Verdict.PROBLEM, summary, tuple(filter(None, [unseen])), _ask_them(holders))
    if hidden:
        return unknown(f"nobody else was seen on card {address}, but not everybody can be seen", unseen)
    return ok(f"nobody else has memory of card {address}")


def judge_port(number: int, listeners: Sequence[Holder], profiles: Sequence[str]) -> Outcome:
    wanted = f"wanted by {', '.join(profiles)}"
    if not listeners:
        return ok(f"port {number} is free or ours", wanted)
    summary = "; ".join(str(holder) for holder in listeners)
    return Outcome(
        Verdict.PROBLEM, summary, (wanted,), f"{_ask_them(listeners)}, or give the profile another server.port"
    )


def card_holders(sight: Sight) -> Outcome:
    cards = sight.usable().cards
    if not cards:
        return ok("no profile has a card")
    there = {card.address: card for card in sight.found_cards()}
    roots = Roots(proc=sight.roots.proc, sys=sight.roots.sys, dev=sight.roots.dev)
    counted = readings([there[one] for one in cards if one in there], monotonic(), lambda: ours(sight), roots=roots)
    launches = sight.usable().launches
    judged: list[Outcome] = []
    for address in cards:
        found = counted.get(address)
        total = _total(there[address], roots) if isinstance(found, Known) else Unknown("not asked", monotonic())
        judged.append(judge_census(address, found, allowed_by_all(launches, address), total))
    return together(judged)


def allowed_by_all(launches: Sequence[Launch], address: str) -> frozenset[str]:
    """Commands that every profile with this card lets hold memory beside its backend."""
    each = [frozenset(launch.allow_holders) for launch in launches if address in launch.cards]
    return frozenset[str].intersection(*each) if each else frozenset()


def _total(card: CardIdentity, roots: Roots) -> Reading[int]:
    """Bytes that the card has."""
    reader, at = reader_for(card.driver), monotonic()
    if reader is None:
        return Unknown("it has no reader", at)
    try:
        total = reader.read(card, at, roots).reading(Quantity.MEMORY_TOTAL)
    except OSError as error:
        return Unknown(error.strerror or str(error), at)
    return Known(int(total.value), at) if isinstance(total, Known) else total


def judge_census(address: str, found: Reading[Census] | None, allowed: Collection[str], total: Reading[int]) -> Outcome:
    """Foreign holders of a card but for those that are allowed, and memory that nobody can be named for.

    `found` is None for a card that is not there; `total` are the bytes that it has.
    """
    if found is None:
        return unknown(f"arcops cannot read who holds card {address}: there is no such card")
    if isinstance(found, Unknown):
        return unknown(found.reason)
    strangers = [one for one in found.value.holdings if not one.ours]
    holders = [_holder(one, address) for one in strangers if not all(user.command in allowed for user in one.users)]
    if not holders:
        ours_live = any(one.ours for one in found.value.holdings)
        against = objection(Occupancy(found.value, total, living=ours_live), Terms(tuple(allowed)))
        if against is not None and not against.named:
            return unknown(against.words)
    return judge_card(address, holders, found.value.unreadable)


def ports(sight: Sight) -> Outcome:
    wanted: dict[int, list[Launch]] = {}
    for launch in sight.usable().launches:
        wanted.setdefault(launch.port, []).append(launch)
    if not wanted:
        return ok("no profile can run here, so no port is wanted")
    own: frozenset[int] | None = None
    found: list[Outcome] = []
    for number, launches in sorted(wanted.items()):
        listeners = port.listeners(number)
        own = ours(sight) if own is None and listeners else own
        foreign = [one for one in listeners if one.pid is None or one.pid not in (own or ())]
        holders = [Holder(one.pid, one.command, one.user, f"port {number} ({one.address})") for one in foreign]
        found.append(judge_port(number, holders, [launch.profile for launch in launches]))
    return together(found)


def _holder(one: Holding, address: str) -> Holder:
    first = one.users[0]
    held = "memory" if one.resident is None else f"{one.resident / MIB:,.0f} MiB"
    return Holder(first.pid, first.command, first.user, f"{held} of card {address}")


def _ask_them(holders: Sequence[Holder]) -> str:
    pids = [str(holder.pid) for holder in holders if holder.pid is not None]
    return f"ps -fp {','.join(pids)}   says what they are; end them in their own way" if pids else "sudo ss -ltnp"


CARD_HOLDERS = Check("card-holders", "Has somebody else memory of a configured card?", card_holders)
PORT = Check("port", "Has somebody else the port of a profile?", ports)
