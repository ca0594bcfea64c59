"""The parts of `tools.card` that need no card: comparison, tape, what is kept, profiles, and how a run is summed up."""

import ctypes
import json
import os
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from arcops.core.cards.measures import CardReading
from arcops.machine.gpu import CardIdentity
from arcops.machine.gpu.nvidia import NvidiaReader
from tests.fakes.nvml import Played, Refusal, recorded
from tools.card import compare, tape
from tools.card.__main__ import profile, stand_ins, summary
from tools.card.record import LIMIT, Records, scrub
from tools.card.scenes import SCENES

H200 = CardIdentity("0000:00:06.0", 0x10DE, 0x2335, "nvidia", None, None)

LOADED = {
    "memory.total": "143771",
    "memory.used": "2861",
    "memory.reserved": "615",
    "clocks.sm": "1545",
    "clocks.mem": "3201",
    "clocks.max.sm": "1980",
    "clocks.max.mem": "3201",
    "utilization.gpu": "100",
    "utilization.memory": "16",
    "power.draw": "693.10",
    "enforced.power.limit": "700.00",
    "temperature.gpu": "55",
    "temperature.memory": "44",
    "fan.speed": "[N/A]",
    "pcie.link.width.current": "16",
    "ecc.errors.uncorrected.volatile.total": "0",
    "pcie.link.gen.current": "5",
    "clocks_event_reasons.active": "0x0000000000000004",
    "name": "NVIDIA H200",
    "driver_version": "580.159.04",
    "vbios_version": "96.00.A5.00.1A",
}
"""What nvidia-smi says of the card that is on the tape."""


def read(which: str) -> CardReading:
    return NvidiaReader(Played(recorded(which)).library).read(H200, 0.0)


def disagreeing(before: str, said: dict[str, str], after: str) -> list[str]:
    return [one.what for one in compare.compare(read(before), said, read(after)) if not one.agree]


def test_a_reading_agrees_with_what_nvidia_smi_says_of_the_same_card() -> None:
    rows = compare.compare(read("loaded"), LOADED, read("loaded"))
    assert [one for one in rows if not one.agree] == []
    assert len(rows) == len(compare.FIELDS)


@pytest.mark.parametrize(
    ("field", "said", "what"),
    [
        ("memory.used", "2850", "memory_used"),
        ("clocks.sm", "1980", "clock sm"),
        ("power.draw", "87.00", "power"),
        ("temperature.gpu", "58", "temperature gpu"),
        ("temperature.memory", "N/A", "temperature memory"),
        ("fan.speed", "30", "fan fan1"),
        ("pcie.link.gen.current", "4", "link_speed"),
        ("pcie.link.gen.current", "[N/A]", "link_speed"),
        ("ecc.errors.uncorrected.volatile.total", "1", "memory_errors"),
        ("clocks_event_reasons.active", "0x0000000000000001", "throttling"),
        ("clocks_event_reasons.active", "[N/A]", "throttling"),
        ("vbios_version", "96.00.A5.00.1B", "vbios"),
    ],
)
def test_a_figure_further_off_than_its_tolerance_disagrees(field: str, said: str, what: str) -> None:
    assert disagreeing("loaded", {**LOADED, field: said}, "loaded") == [what]


def test_a_figure_between_two_readings_agrees_however_far_they_are_apart() -> None:
    assert "power" not in disagreeing("idle", {**LOADED, "power.draw": "400.00"}, "loaded")


def test_a_line_of_nvidia_smi_is_read_by_its_fields_and_a_short_one_is_refused() -> None:
    assert compare.figures(", ".join(LOADED[one] for one in compare.FIELDS)) == LOADED
    with pytest.raises(ValueError, match="shorter"):
        compare.figures("143771, 2861")


def test_the_figures_of_a_comparison_name_what_disagrees() -> None:
    found = compare.as_figures(compare.compare(read("loaded"), {**LOADED, "clocks.sm": "1"}, read("loaded")))
    assert (found["compared"], found["agree"], found["disagree"]) == (21, 20, ["clock sm"])
    json.dumps(found)


def test_what_passes_the_recorder_is_on_its_tape_and_plays_back_the_same_reading() -> None:
    first = tape.Recorder(Played(recorded("loaded")).library)
    reading = NvidiaReader(first.library).read(H200, 0.0)
    again = json.loads(json.dumps(first.tape))
    assert NvidiaReader(Played(again).library).read(H200, 0.0) == reading
    assert set(again) <= set(recorded("loaded"))


def test_a_refusal_is_on_the_tape_with_its_code() -> None:
    recorder = tape.Recorder(Played({}, {"nvmlDeviceGetName": 3}).library)
    with pytest.raises(Refusal):
        cast("Played", recorder.library).nvmlDeviceGetName("handle")  # type: ignore[operator]  # any question will do
    assert recorder.tape == {"nvmlDeviceGetName()": {"NVMLError": 3}}
    assert tape.refusal(recorder.tape["nvmlDeviceGetName()"]) == 3
    assert tape.refusal({"gpu": 3}) is None
    assert tape.refusal(7) is None


class Union(ctypes.Union):
    _fields_ = (("uiVal", ctypes.c_uint), ("dVal", ctypes.c_double))


class Structure(ctypes.Structure):
    _fields_ = (("nvmlReturn", ctypes.c_int), ("value", Union), ("name", ctypes.c_char * 4))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (7, 7),
        (b"580", "580"),
        ([0, 1], [0, 1]),
        (SimpleNamespace(pid=7, usedGpuMemory=None), {"pid": 7, "usedGpuMemory": None}),
        (
            (Structure * 1)(Structure(3, Union(uiVal=37), b"x")),
            [{"nvmlReturn": 3, "value": {"uiVal": 37}, "name": "x"}],
        ),
    ],
)
def test_nvmls_structures_become_json_and_floats_of_a_union_are_left_out(value: object, plain: object) -> None:
    assert tape.plain(value) == plain


def test_what_is_kept_names_no_card_and_no_folder() -> None:
    said = (
        "    Serial Number                          : 1654922012345\n"
        "    GPU UUID                               : GPU-1b2c3d4e-0000-1111-2222-333344445555\n"
        "    GPU PDI                                : 0x71c7c99fb7b77bed\n"
        "    Minor Number                           : 0\n"
        "in /tmp/arcops-card-x/state and /tmp/arcops-card-x\n"
    )
    assert scrub(said, {"/tmp/arcops-card-x": "/root", "/tmp": "/elsewhere"}) == (
        "    Serial Number                          : 0\n"
        "    GPU UUID                               : 0\n"
        "    GPU PDI                                : 0\n"
        "    Minor Number                           : 0\n"
        "in /root/state and /root\n"
    )
    said = '{\n"uuid": "GPU-1B2C3D4E-0000-1111-2222-333344445555"}'
    assert json.loads(scrub(said, {})) == {"uuid": "GPU-00000000-0000-0000-0000-000000000000"}


def test_what_names_the_machine_has_a_stand_in_and_what_names_none_stays(tmp_path: Path) -> None:
    kept = stand_ins(tmp_path, "/somewhere/vllm-xpu/bin/vllm")
    assert scrub(f"{tmp_path}/state", kept) == "/root-of-the-run/state"
    assert scrub("/somewhere/vllm-xpu/bin/vllm is 0.24.0", kept) == "/vllm-of-the-run/bin/vllm is 0.24.0"
    assert scrub(f"{sys.prefix}/bin/python3", kept) == "/python-of-the-run/bin/python3"
    assert scrub(f"on {os.uname().nodename}", kept) == "on host-of-the-run"
    assert {"/", "/usr"}.isdisjoint(stand_ins(tmp_path, "/usr/bin/vllm"))


def test_the_records_go_into_one_archive_and_the_largest_stay_behind_where_it_grows_too_large(tmp_path: Path) -> None:
    records = Records({})
    records.keep("small.json", {"a": 1})
    records.keep("large.txt", "x" * LIMIT)
    records.keep("middle.txt", "y" * 1000)
    records.write(tmp_path / "recorded.tar.gz")
    with tarfile.open(tmp_path / "recorded.tar.gz") as archive:
        assert archive.getnames() == ["recorded/middle.txt", "recorded/small.json"]
        small = archive.extractfile("recorded/small.json")
        assert small is not None
        assert json.load(small) == {"a": 1}


def test_a_profile_gets_the_runs_server_and_its_name_for_the_model(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("device: {kind: cuda}\nmodel: {path: /models/x, served_name: x}\n")
    made = profile(tmp_path / "mine.yaml", "target")
    assert made["model"] == {"path": "/models/x", "served_name": "target"}
    assert made["server"] == {"port": 8123}
    assert made["device"] == {"kind": "cuda"}


def test_a_run_is_summed_up_by_the_outcome_of_its_scenes() -> None:
    figures = {
        "card": "0000:00:06.0",
        "heir": {"outcome": "passed"},
        "load": {"outcome": "failed"},
        "switch": {"outcome": "left_out"},
        "release": {"outcome": "passed"},
    }
    assert summary(figures) == {"passed": ["heir", "release"], "failed": ["load"], "left_out": ["switch"]}


def test_every_scene_says_what_it_shows() -> None:
    for scene in SCENES.values():
        assert scene.__doc__
