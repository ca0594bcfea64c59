"""`arcops bench list`, `show`, `compare` and `schema`, run on made-up records."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from arcops.cli.bench_compare import FIGURES, conditions, ratio
from arcops.config.paths import Paths
from arcops.core.evidence.environment import digest_of
from arcops.core.evidence.qualification import Gate, Qualification, Verdict
from arcops.core.evidence.setting import Befallen, CeilingAt
from arcops.core.evidence.statistics import Spread
from arcops.evidence import shelf
from arcops.evidence.record import Record
from arcops.evidence.standing import kept
from tests.cli.conftest import Ran
from tests.core.evidence.measured import (
    ARGV,
    DRAFTS,
    STARTED,
    answer_to,
    ladder,
    record,
    request,
    run,
    setting,
    stage,
)
from tests.core.evidence.test_comparable import environment
from tests.core.evidence.test_soaked import CLEAN
from tests.sites import MadeUpSite

Arcops = Callable[..., Ran]
ODD = (999, *answer_to("item-3")[1:])
LATER = 1_796_005_000.0


def kept_at(place: Path, made: Record) -> str:
    """The path of a record that was written there."""
    return str(shelf.write(place, made).path)


@pytest.fixture
def records(site: MadeUpSite) -> Path:
    """The folder of the instance's records."""
    return Paths.of("main", site.env).records


def second(**changes: object) -> Record:
    return msgspec.structs.replace(record(ladder(started=STARTED + 500), began=LATER), **changes)


def test_the_list_has_the_newest_first_and_damaged_ones_last(records: Path, arcops: Arcops) -> None:
    old = shelf.write(records, record())
    new = shelf.write(records, second(note="synthetic acceptance"))
    (records / "bad.json").write_text("{}")
    ran = arcops("bench", "list")
    lines = ran.out.splitlines()
    assert ran.code == 0
    assert lines[0].split() == ["record", "kind", "began", "profile", "model", "note"]
    assert [line.split()[0] for line in lines[1:3]] == [new.digest[7:19], old.digest[7:19]]
    assert "synthetic acceptance" in lines[1]
    assert "damaged: " in lines[3]
    assert max(map(len, lines)) <= 80


def test_the_list_as_json_says_of_each_what_it_is(records: Path, arcops: Arcops) -> None:
    stored = shelf.write(records, record())
    (records / "bad.json").write_text("{}")
    good, bad = json.loads(arcops("bench", "list", "--json").out)
    assert (good["digest"], good["profile"], good["problem"]) == (stored.digest, "target-only", None)
    assert (bad["digest"], "not a record" in bad["problem"]) == (None, True)


def test_an_empty_shelf_and_a_kind_that_there_is_not(site: MadeUpSite, arcops: Arcops) -> None:
    ran = arcops("bench", "list")
    assert (ran.code, ran.out) == (0, "")
    assert "no records in" in ran.err
    assert arcops("bench", "list", "--kind", "party").code == 2


def test_a_record_is_shown_with_its_figures_and_what_they_are_worth(records: Path, arcops: Arcops) -> None:
    stored = shelf.write(records, record())
    ran = arcops("bench", "show", stored.digest[7:13])
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 80
    for words in (
        "ladder of 2026-11-30",
        "vLLM 0.29.0 at http://127.0.0.1:8000",
        "daemon, profile target-only: vllm serve /opt/models/tiny --port",
        "c4     1 cold      80.0",
        "undisturbed    yes      no reset was seen by the daemon",
        "identity with its own sequential pass",
        "exact, awaits a second run (4/4, 4/4;",
    ):
        assert words in ran.out, words


def test_what_is_unknown_is_shown_as_unknown(tmp_path: Path, site: MadeUpSite, arcops: Arcops) -> None:
    silent = replace(request("item-0"), prompt_tokens=None, output_tokens=None, chunk_tokens=(0,) * 4, answer=None)
    bare = replace(setting(), watched_by="nobody", cards=())
    bare = replace(bare, server=replace(bare.server, version=None, model_root=None, max_model_len=None))
    bare = replace(bare, configuration=replace(bare.configuration, argv=(), max_num_seqs=None))
    path = kept_at(tmp_path / "r.json", record(run([stage([silent])]), bare))
    shown = " ".join(arcops("bench", "show", path).out.split())
    for words in (
        "vLLM unknown at",
        "tiny from unknown, context unknown, unknown requests at once",
        "how it was launched is not known",
        "undisturbed unknown nobody watched for resets",
        "alone unknown c1, pass 1: the server's counters or its usage do not say",
        "c1 unknown (unknown",
    ):
        assert words in shown, words


def test_a_spoiled_stage_is_marked_and_explained(tmp_path: Path, site: MadeUpSite, arcops: Arcops) -> None:
    where = replace(setting(), befallen=(Befallen(31.4, "reset", "GT reset of 0000:03:00.0", spoils=True),))
    shown = arcops("bench", "show", kept_at(tmp_path / "r.json", record(where=where))).out
    assert "c4*" in shown
    assert "undisturbed    NO       reset at 31.4 s: GT reset of 0000:03:00.0" in shown
    assert "every pass is spoiled" in " ".join(shown.split())


def test_canaries_that_differ_are_counted_where_they_are_many(tmp_path: Path, site: MadeUpSite, arcops: Arcops) -> None:
    made = ladder()
    other = [replace(one, question=f"{n}?") for n in range(4) for one in made.canaries]
    changed = [replace(one, answer=f"{one.answer}0") if one.when == "after" else one for one in other]
    shown = arcops("bench", "show", kept_at(tmp_path / "r.json", record(replace(made, canaries=tuple(changed))))).out
    assert "canaries NO likewise 2 more" in " ".join(shown.split())
    assert "None" not in shown


def test_the_ceiling_of_decoding_stands_beside_what_was_measured(
    tmp_path: Path, site: MadeUpSite, arcops: Arcops
) -> None:
    alone = run([replace(stage([request("item-0")], "512", 1), depth=512)], name="context")
    where = replace(setting(), ceilings=(CeilingAt(512, 40.0, None), CeilingAt(1024, 9.0, None)))
    shown = arcops("bench", "show", kept_at(tmp_path / "r.json", record(alone, where))).out
    assert "40.0 (50 %)" in shown
    speculative = replace(where, ceilings=(CeilingAt(512, 40.0, 80.0),))
    assert "80.0 (25 %)" in arcops("bench", "show", kept_at(tmp_path / "s.json", record(alone, speculative))).out
    bare = arcops("bench", "show", kept_at(tmp_path / "t.json", record(alone))).out
    assert "ceiling" not in next(line for line in bare.splitlines() if line.startswith("stage"))


def test_many_stages_with_one_fault_are_told_in_few_lines(tmp_path: Path, site: MadeUpSite, arcops: Arcops) -> None:
    made = ladder(passes=4)
    late = [replace(one, client=replace(one.client, lag_p99=0.02, lag_worst=0.3)) for one in made.stages]
    path = kept_at(tmp_path / "r.json", record(replace(made, stages=tuple(late))))
    shown = " ".join(arcops("bench", "show", path).out.split())
    assert shown.count("not to be trusted") == 2
    assert "latencies NO likewise c1 of pass 2, c4 of pass 2, c1 of pass 3" in shown


def test_words_of_a_server_move_no_cursor(tmp_path: Path, site: MadeUpSite, arcops: Arcops) -> None:
    where = replace(setting(), server=replace(setting().server, version="\x1b[2J0.29", model="a\nb"))
    shown = arcops("bench", "show", kept_at(tmp_path / "r.json", record(where=where))).out
    assert "\x1b" not in shown


def test_a_record_as_json_has_figures_verdicts_and_rungs(tmp_path: Path, site: MadeUpSite, arcops: Arcops) -> None:
    path = kept_at(tmp_path / "r.json", record(ladder(odd={1: ODD})))
    told = json.loads(arcops("bench", "show", path, "--json").out)
    assert [one["name"] for one in told["stages"]] == ["c1", "c4", "c1", "c4"]
    assert told["stages"][1]["figures"]["requests"] == 4
    assert {one["question"] for one in told["judgements"]} >= {"alone", "undisturbed"}
    assert [(one["name"], one["standing"]) for one in told["rungs"]] == [
        ("c1", "exact, awaits a second run"),
        ("c4", "not exact: measured but not qualified"),
    ]


def test_an_edited_record_is_refused(tmp_path: Path, site: MadeUpSite, arcops: Arcops) -> None:
    path = Path(kept_at(tmp_path / "r.json", record()))
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content.replace(b'"daemon"', b'"nobody"'))
    ran = arcops("bench", "show", str(path))
    assert (ran.code, ran.out) == (1, "")
    assert "was edited after it was written" in ran.err


def test_a_qualification_is_shown_gate_by_gate(tmp_path: Path, site: MadeUpSite, arcops: Arcops) -> None:
    gates = (Gate("chat", Verdict.FAILED, "READY was asked for, and REDAY came"), Gate("image", Verdict.SKIPPED, "-"))
    made = msgspec.structs.replace(
        record(), kind="qualification", run=None, setting=None, identity=None,
        qualification=Qualification("mtp", "sha256:" + "1" * 64, gates),
    )  # fmt: skip
    shown = arcops("bench", "show", kept_at(tmp_path / "r.json", made)).out
    assert "profile mtp did NOT pass in environment 111111111111" in shown
    assert "chat           NO       READY was asked for, and REDAY came" in shown


def test_two_runs_of_one_configuration_are_compared_and_qualify_their_rungs(records: Path, arcops: Arcops) -> None:
    first, other = kept_at(records, record()), kept_at(records, second())
    ran = arcops("bench", "compare", first, other)
    assert ran.code == 0
    assert "comparable: nothing that counts differs" in ran.out
    assert "c4 warm" in ran.out
    assert "1.000" in ran.out
    assert "qualified (4/4, 4/4, 4/4, 4/4, in 2 passes" in " ".join(ran.out.split())
    assert max(map(len, ran.out.splitlines())) <= 80


def test_runs_that_differ_are_refused_with_what_they_differ_in(records: Path, arcops: Arcops) -> None:
    eager = second(setting=setting((*ARGV, "--enforce-eager")))
    first, other = kept_at(records, record()), kept_at(records, eager)
    ran = arcops("bench", "compare", first, other)
    assert (ran.code, ran.out) == (1, "")
    assert "A and B: different: --enforce-eager is not set, then on" in ran.err
    assert "these runs are not comparable" in ran.err
    anyway = arcops("bench", "compare", first, other, "--anyway")
    assert anyway.code == 0
    assert "not comparable:" in anyway.out
    assert "qualified (" not in anyway.out, "two configurations are not two runs of one"
    as_json = arcops("bench", "compare", first, other, "--json")
    assert as_json.code == 1
    assert json.loads(as_json.out)["comparable"] is False
    assert json.loads(as_json.out)["differences"][0][0]["part"] == "configuration"


def test_speculation_alone_is_named_as_such(records: Path, arcops: Arcops) -> None:
    other = second(setting=setting((*ARGV, *DRAFTS), speculates=True))
    ran = arcops("bench", "compare", kept_at(records, record()), kept_at(records, other))
    assert ran.code == 1
    assert "A and B differ in speculation alone" in ran.err


def test_an_environment_that_is_kept_tells_in_what_two_digests_differ(
    records: Path, site: MadeUpSite, arcops: Arcops
) -> None:
    folder = Paths.of("main", site.env).environments
    made: list[str] = []
    for number, torch in enumerate(("2.13.0", "2.14.0")):
        found = environment(torch)
        kept.keep(folder, found)
        where = replace(setting().configuration, environment_digest=digest_of(found))
        whole = replace(setting(), configuration=where)
        made.append(kept_at(records, record(ladder(started=STARTED + number), whole, began=LATER + number)))
    ran = arcops("bench", "compare", *made)
    assert ran.code == 1
    assert "distribution torch: 2.13.0" in ran.err


def test_a_comparison_takes_two(records: Path, arcops: Arcops) -> None:
    assert arcops("bench", "compare", kept_at(records, record())).code == 2


def test_passes_that_were_not_exact_are_shown_and_never_averaged_in() -> None:
    figure = FIGURES["ladder"][0]
    found = conditions(record(ladder(passes=3, odd={2: ODD})), figure)
    warm, astray = found["c4", True, False], found["c4", True, True]
    assert warm is not None
    assert astray is not None
    assert (warm.count, astray.count) == (1, 1)


def test_passes_of_a_spoiled_run_are_not_counted() -> None:
    where = replace(setting(), befallen=(Befallen(1.0, "reset", "GT reset", spoils=True),))
    assert conditions(record(where=where), FIGURES["ladder"][0]) == {}


def test_a_ratio_has_the_spread_that_both_sides_allow() -> None:
    found = ratio(Spread(100.0, 90.0, 110.0, 3), Spread(150.0, 140.0, 165.0, 3))
    assert found is not None
    assert (found.median, found.least, found.most) == (1.5, 140 / 110, 165 / 90)
    assert ratio(None, found) is None
    assert ratio(Spread(0.0, 0.0, 0.0, 1), found) is None


def test_the_schema_is_printed(site: MadeUpSite, arcops: Arcops) -> None:
    assert json.loads(arcops("bench", "schema").out)["required"] == ["digest", "record"]


def test_a_soak_is_shown_with_what_it_found(records: Path, arcops: Arcops) -> None:
    made = msgspec.structs.replace(
        record(), kind="soak", run=None, identity=None, soak=replace(CLEAN, restarts=(12.0,)), setting=setting()
    )
    path = kept_at(records, made)
    shown = arcops("bench", "show", path)
    assert shown.code == 0, shown.err
    assert "150 requests of 4 clients for 5 min 00 s" in shown.out
    assert re.search(r"restarts +NO +the server was started anew 1 times", shown.out)
    told = {one["name"]: one["verdict"] for one in json.loads(arcops("bench", "show", path, "--json").out)["gates"]}
    assert told["restarts"] == "failed"
