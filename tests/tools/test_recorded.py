"""What `tools.card` recorded on an H200, with each view of the same moment held against the others.

The files are in tests/data/nvidia/h200: raw outputs of one run, with stand-ins for what would name its machine.
"""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from arcops import wire
from arcops.cli.gpu import PIPED_WIDTH, lines_of
from arcops.core.cards.measures import CardReading, Quantity
from arcops.core.phase import Phase, check_move
from arcops.core.quantity import Known
from arcops.daemon.card_exposition import NAMES
from arcops.machine.gpu import CardIdentity
from arcops.machine.gpu.nvidia import NvidiaReader
from tests.fakes.nvml import Played
from tools.card import compare

DATA = Path(__file__).parents[1] / "data" / "nvidia"
RAW = DATA / "h200"
H200 = CardIdentity("0000:00:06.0", 0x10DE, 0x2335, "nvidia", None, None)

VIEWS = sorted(path.name.removesuffix("-gpu.json") for path in RAW.glob("*-gpu.json"))
COMPARED = sorted(path.name.removesuffix("-nvml.json") for path in RAW.glob("*-nvml.json"))
STEADY = frozenset(
    {
        *(Quantity.MEMORY_TOTAL, Quantity.MEMORY_RESERVED, Quantity.CLOCK_MAX, Quantity.POWER_LIMIT, Quantity.FAN),
        *(Quantity.LINK_WIDTH, Quantity.LINK_SPEED, Quantity.MEMORY_ERRORS),
    }
)
"""What does not change between two looks."""
REWORDED = frozenset({"driver", "held by", "fan", "reserved"})
"""Rows of `arcops gpu` that have had other words since."""


def told(view: str) -> wire.CardInfo:
    (card,) = cards(view).cards
    return card


def cards(view: str) -> wire.Cards:
    return msgspec.json.decode((RAW / f"{view}-gpu.json").read_bytes(), type=wire.Cards)


def census(view: str) -> wire.CardCensus:
    seen = told(view).census
    assert seen is not None
    return seen


def scenes() -> dict[str, Any]:
    """The figures of the run, by scene."""
    return json.loads((DATA / "h200-scenes.json").read_text())


def played(which: str) -> CardReading:
    """The recorded answers of NVML, read by arcops' reader once more."""
    tape = cast("dict[str, object]", json.loads((RAW / f"{which}-nvml.json").read_text()))
    return NvidiaReader(Played(tape).library).read(H200, 0.0)


def said(which: str) -> compare.Figures:
    return cast("compare.Figures", json.loads((RAW / f"{which}-nvidia-smi.json").read_text()))


def in_full(which: str) -> dict[str, str]:
    """`nvidia-smi -q`: the first line of each name below each heading, `FB Memory Usage/Used`."""
    found: dict[str, str] = {}
    heading = ""
    for line in (RAW / f"{which}-nvidia-smi-q.txt").read_text().splitlines():
        name, colon, value = (part.strip() for part in line.partition(" : "))
        if colon:
            found.setdefault(f"{heading}/{name}", value)
        elif name:
            heading = name
    return found


def rows(text: str) -> dict[str, str]:
    """The rows of `arcops gpu` by their names; what goes on below one belongs to it."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines()[1:]:
        name = line[2:14].strip() or name
        found[name] = f"{found.get(name, '')} {line[15:].strip()}".strip()
    return found


def samples(view: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """The card's figures of `/metrics`, by name and labels."""
    text = (RAW / f"{view}-metrics.txt").read_text()
    every = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {(one.name, _labels(one)): one.value for one in every if one.labels.get("card") == H200.address}


def _labels(sample: Sample) -> tuple[str, ...]:
    return tuple(value for name, value in sorted(sample.labels.items()) if name != "card")


def test_the_run_was_recorded_idle_at_work_and_with_strangers() -> None:
    assert set(COMPARED) == {"busy", "idle", "serving"}
    assert set(VIEWS) == {"foreign", "heir", "idle", "serving", "shared", "stopped"}


@pytest.mark.parametrize("which", COMPARED)
def test_nvmls_answers_played_back_agree_with_nvidia_smi_in_every_measure(which: str) -> None:
    reading = played(which)
    again = compare.compare(reading, said(which), reading)
    assert [one for one in again if not one.agree] == []
    noted = json.loads((RAW / f"{which}-compared.json").read_text())["rows"]
    assert [(one.what, one.after) for one in again] == [(one["what"], one["after"]) for one in noted]
    assert len(noted) == len(compare.FIELDS)


@pytest.mark.parametrize("which", COMPARED)
def test_a_reading_agrees_with_the_full_report_of_nvidia_smi(which: str) -> None:
    reading, full = played(which), in_full(which)
    for quantity, name in (
        (Quantity.MEMORY_TOTAL, "Total"),
        (Quantity.MEMORY_RESERVED, "Reserved"),
        (Quantity.MEMORY_USED, "Used"),
    ):
        shown = reading.reading(quantity)
        assert isinstance(shown, Known)
        assert shown.value / compare.MIB == pytest.approx(int(full[f"FB Memory Usage/{name}"].split()[0]), abs=1)
    capped = full["Clocks Event Reasons/SW Power Cap"] == "Active"
    assert reading.throttling == Known(("software power cap",) if capped else (), 0.0)
    assert capped == (which == "busy")


@pytest.mark.parametrize("view", VIEWS)
def test_the_daemon_told_what_the_played_reading_says_of_the_same_card(view: str) -> None:
    now = {(one.quantity, one.part): one.value for one in told(view).measures}
    reading = played("idle")
    for one in (one for one in reading.measures if one.quantity in STEADY):
        expected = one.reading.value if isinstance(one.reading, Known) else None
        assert now[one.quantity.label, one.part] == expected, one.quantity
    assert set(now) == {(one.quantity.label, one.part) for one in reading.measures}
    details = {one.name: one.value for one in told(view).details}
    assert details["driver"] == said("idle")["driver_version"]


@pytest.mark.parametrize("view", VIEWS)
def test_the_json_reads_in_words_as_it_did_on_the_machine(view: str) -> None:
    then = rows((RAW / f"{view}-gpu.txt").read_text())
    now = rows("\n".join(lines_of(cards(view), PIPED_WIDTH)))
    same = set(then) - REWORDED
    assert {name: now[name] for name in same} == {name: then[name] for name in same}
    assert set(now) - set(then) == {"reserved"}
    mebibytes = re.compile(r"[\d,]+ MiB|pid \d+|\w+ of root")
    assert mebibytes.findall(f"{now['held by']} {now['reserved']}") == mebibytes.findall(then["held by"])


@pytest.mark.parametrize("view", VIEWS)
def test_what_monitoring_scraped_is_what_the_daemon_told(view: str) -> None:
    scraped, card = samples(view), told(view)
    of = {one.label: named for one, named in NAMES.items()}
    for one in card.measures:
        named = of[one.quantity]
        value = scraped.get((f"arcops_card_{named.name}{'_total' if named.counter else ''}", (one.part,)))
        assert value == (None if one.value is None else pytest.approx(one.value * named.scale, rel=1e-12)), one.quantity
    holdings = census(view).holdings
    held = {kind: scraped["arcops_card_memory_held_bytes", (kind,)] for kind in ("ours", "foreign", "unattributed")}
    assert held == {
        "ours": sum(one.resident or 0 for one in holdings if one.ours),
        "foreign": sum(one.resident or 0 for one in holdings if not one.ours),
        "unattributed": census(view).unattributed,
    }
    assert scraped.get(("arcops_card_memory_baseline_bytes", ())) == card.baseline
    assert scraped["arcops_card_resets_total", ()] == card.resets


@pytest.mark.parametrize("view", VIEWS)
def test_the_memory_of_the_holders_and_what_is_nobodys_are_all_that_was_in_use(view: str) -> None:
    card = told(view)
    used = next(one.value for one in card.measures if one.quantity == Quantity.MEMORY_USED.label)
    seen = census(view)
    assert sum(one.resident or 0 for one in seen.holdings) + (seen.unattributed or 0) == used


def test_nvidia_smi_had_the_same_holders_with_the_same_memory() -> None:
    holdings = census("shared").holdings
    by_pid = {str(one.users[0].pid): (one.resident or 0) // compare.MIB for one in holdings}
    assert by_pid == scenes()["attribution"]["nvidia_smi"]


@pytest.mark.parametrize(("view", "ours"), [("serving", [True]), ("shared", [True, False]), ("foreign", [False])])
def test_ours_is_the_backends_engine_and_nobody_else(view: str, ours: list[bool]) -> None:
    holdings = census(view).holdings
    assert [one.ours for one in holdings] == ours, "the largest first"
    for one in holdings:
        assert one.ours == (one.users[0].command == "VLLM::EngineCor")
        assert one.ours == (one.users[0].cgroup or "").startswith("/arcops/")


def test_an_heir_is_named_by_its_own_pid_under_the_number_of_the_dead() -> None:
    scene = scenes()["heir"]
    (holding,) = census("heir").holdings
    assert ([one.pid for one in holding.users], holding.client) == ([scene["child"]], scene["dead"])
    assert set(scene["nvidia_smi"]) == {str(scene["dead"])}, "the driver names the dead one alone"


# -- the engine that a SIGKILL of the API server leaves ---------------------------------------------------------------
def history() -> list[wire.Event]:
    return msgspec.json.decode((RAW / "stray-events.json").read_bytes(), type=list[wire.Event])


def test_the_history_is_in_order_and_every_move_of_it_is_a_legal_one() -> None:
    events = history()
    assert all(one.id < other.id and one.at <= other.at for one, other in pairwise(events))
    before = Phase.STOPPED
    for one in events:
        if one.kind == "daemon":
            before = Phase(one.phase)
        elif one.kind == "phase":
            check_move(before, Phase(one.phase))
            before = Phase(one.phase)
    assert before is Phase.SERVING


def test_a_supervisor_that_was_killed_comes_back_to_the_launch_that_its_predecessor_made() -> None:
    first, second = [index for index, one in enumerate(history()) if one.kind == "daemon"]
    served = [one.launch_id for one in history()[first:second] if one.phase == "serving"]
    adopted = [one.launch_id for one in history()[second + 1 :] if one.kind == "phase"][:3]
    assert set(adopted) == {served[-1]}


def test_a_stray_engine_is_ended_before_its_cause_is_waited_out_and_another_launch_serves() -> None:
    events = history()
    fell = next(index for index, one in enumerate(events) if one.cause is not None)
    after = [one for one in events[fell:] if one.kind == "phase"]
    assert [one.phase for one in after] == ["stopping", "clearing", "backoff", "starting", "checking", "serving"]
    assert {one.cause for one in after[:3]} == {"killed_by_signal"}
    assert "every process has ended" in after[1].reason
    waited = after[3].at - after[2].at
    assert waited >= 2, "`attempt 2 in 2 s` was announced"
    assert after[0].launch_id != after[-1].launch_id


# -- what is kept, and what the documents say of it -------------------------------------------------------------------
def test_the_document_gives_the_figures_of_the_run() -> None:
    text = (DATA.parents[2] / "docs" / "decisions" / "0011-nvidia.md").read_text()
    table = " ".join(text.partition("## Seen on a real card")[2].split())
    run = scenes()
    rounds = [one["refused_s"] for one in run["lock_race"]["rounds"]]
    release = {name: run["release"][name] for name in ("SIGTERM", "SIGKILL")}
    times = ", ".join(f"{one['median_ms']} ms ({min(one['ms'])} to {one['longest_ms']})" for one in release.values())
    power = next(one for one in run["measures_busy"]["rows"] if one["what"] == "power")
    for figure in (
        f"All {len(run['summary']['passed'])} scenes passed",
        f"{run['measures_idle']['agree']} of {run['measures_idle']['compared']} agree",
        f"{power['before']:.0f} to {power['after']:.0f} W",
        f"{run['load']['tokens_per_s']:,} tokens/s",
        f"exit {run['health']['exit']} after {run['health']['seconds']:.1f} s",
        f"{run['foreign']['mib']:,} MiB here, {run['foreign']['nvidia_smi_mib']:,} by nvidia-smi",
        f"refused in {run['foreign']['refused_s']:.1f} s",
        f"{run['heir']['mib']:,} MiB, and the launch refused; free {run['heir']['free_ms']} ms",
        f"{times}, medians",
        f"({', '.join('the ' + one['winner'] for one in run['lock_race']['rounds'])})",
        f"after {min(rounds[:-1]):.1f} to {max(rounds[:-1]):.1f} s, and after {rounds[-1]:.1f} s in the last",
        f"served after {run['lock_race']['serving_s']:.1f} s",
        f"refused after {run['second_server']['refused_s']:.1f} s",
        f"EngineCore's {run['attribution']['ours_mib']:,} MiB ours",
        f"the other's {run['attribution']['foreign_mib']:,} not",
        f"of {run['attribution']['used_mib']:,} MiB in use {run['attribution']['nobodys_mib']} are nobody's",
        f"answers after {run['adoption']['daemon_answers_s']:.1f} s and adopts; {run['adoption']['tokens']:,} pieces",
        f"between two {run['adoption']['longest_gap_s'] * 1000:.1f} ms",
        f"{run['switch']['took_s']:.1f} s there, {run['switch_back']['took_s']:.1f} s back",
        f"{run['stray_engine']['named_while_left']['mib']:,} of the {run['stray_engine']['held_mib']:,} MiB",
        f"free after {run['stray_engine']['memory_free_s']:.1f} s",
        f"again after {run['stray_engine']['serving_again_s']:.1f} s",
        f"{run['stop_with_stream']['stop_s']:.1f} s: 5 s",
        f"exit 7, `{run['out_of_memory']['cause']}`: only 38.69 of 139.8 GiB are free",
    ):
        assert figure in table, figure


def test_nothing_recorded_names_a_machine() -> None:
    for path in sorted(DATA.rglob("*.*")):
        text = path.read_text()
        for secret in (r"GPU-[0-9a-f]{8}", r"\b[0-9a-f]{32}\b", r"/home/", r"/tmp/", r"(Serial Number|UUID) +: [^0N]"):
            assert not re.search(secret, text), f"{path.name}: {secret}"
