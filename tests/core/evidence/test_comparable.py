"""May two runs be called comparable? Each thing that counts is found, and nothing that does not."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from arcops.core.evidence.comparable import (
    Difference,
    Part,
    Weight,
    but_for_speculation,
    comparable,
    differences,
    unfit_as_oracle,
)
from arcops.core.evidence.environment import Distribution, Environment, ModelFacts
from arcops.core.evidence.setting import CardFacts, Configuration, ServerFacts, Setting
from arcops.evidence.record import Record
from tests.core.evidence.measured import ARGV, CARD, DRAFTS, items, ladder, record, request, run, setting, stage

OTHER = "sha256:" + "b" * 64


def changed(record_: Record, **fields: object) -> Record:
    return msgspec.structs.replace(record_, **fields)


def on(where: Setting) -> Record:
    return record(where=where)


def server(**fields: object) -> Record:
    facts = msgspec.to_builtins(setting().server) | fields
    return on(replace(setting(), server=msgspec.convert(facts, ServerFacts)))


def launched(**fields: object) -> Record:
    facts = msgspec.to_builtins(setting().configuration) | fields
    return on(replace(setting(), configuration=msgspec.convert(facts, Configuration)))


def only(found: tuple[Difference, ...]) -> Difference:
    (one,) = found
    return one


def environment(torch: str = "2.13.0", revision: str = "abc", draft: ModelFacts | None = None) -> Environment:
    return Environment(
        interpreter="CPython 3.12.14",
        prefix="/opt/vllm",
        distributions=(Distribution("torch", torch),),
        system=(("kernel", "6.17"),),
        cards=(),
        model=ModelFacts("/opt/models/tiny", revision, "sha256:c", "sha256:i", "sha256:h"),
        draft=draft,
        argv=ARGV,
        environment=(),
        launcher={},
    )


def test_two_runs_of_one_configuration_are_comparable() -> None:
    assert differences(record(), record(began=1_796_009_000.0)) == ()


@pytest.mark.parametrize(
    "other",
    [
        launched(launch_id="L2"),
        launched(argv=(*ARGV[:4], "8001", *ARGV[5:])),
        launched(argv=("/elsewhere/bin/vllm", *ARGV[1:], "--host", "127.0.0.1", "--api-key", "***")),
        launched(argv=(*ARGV, "--served-model-name", "tiny", "--uvicorn-log-level", "warning")),
        launched(environment=(("VLLM_CACHE_ROOT", "/tmp/fresh-2"), ("ZE_AFFINITY_MASK", "1"))),
        server(url="http://127.0.0.1:8001", model="another-name"),
        server(cache={"block_size": "16", "num_gpu_blocks": "803"}),
        on(replace(setting(), cards=(replace(CARD, address="0000:0a:00.0"),))),
    ],
)
def test_what_only_says_where_and_when_does_not_count(other: Record) -> None:
    assert differences(record(), other) == ()


@pytest.mark.parametrize(
    ("other", "part", "words"),
    [
        (launched(argv=(*ARGV, "--enforce-eager")), Part.CONFIGURATION, "--enforce-eager is not set, then on"),
        (launched(environment=(("OMP_NUM_THREADS", "8"),)), Part.CONFIGURATION, "OMP_NUM_THREADS is not set, then 8"),
        (launched(max_num_seqs=None), Part.CONFIGURATION, "run at once are 4, then not known"),
        (server(version="0.32.0"), Part.VERSION, "vLLM is 0.29.0, then 0.32.0"),
        (server(max_model_len=8192), Part.CONFIGURATION, "the longest context is 4,096, then 8,192"),
        (server(cache={"block_size": "32"}), Part.CONFIGURATION, "the cache's block_size is 16, then 32"),
        (server(model_root="/opt/models/other"), Part.MODEL, "then /opt/models/other"),
        (server(speculates=True), Part.SPECULATION, "whether it speculates is no, then yes"),
        (launched(argv=(*ARGV, *DRAFTS)), Part.SPECULATION, "--speculative-config"),
        (on(replace(setting(), cards=())), Part.CARDS, "1 × Arc Pro B70 (xe), then none that is known"),
        (
            on(replace(setting(), cards=(CARD, replace(CARD, address="0000:0a:00.0")))),
            Part.CARDS,
            "then 2 × Arc Pro B70 (xe)",
        ),
        (on(replace(setting(), cards=(CardFacts("0000:03:00.0", "Arc Pro B60", "xe"),))), Part.CARDS, "Arc Pro B60"),
    ],
)
def test_what_counts_is_named_with_both_values(other: Record, part: Part, words: str) -> None:
    found = only(differences(record(), other))
    assert (found.part, found.weight) == (part, Weight.DIFFERENT)
    assert words in found.words
    assert not comparable((found,))
    assert only(differences(other, record())).part is part, "from the other side as well"


@pytest.mark.parametrize(
    ("other", "part"),
    [
        (launched(argv=()), Part.CONFIGURATION),
        (server(version=None), Part.VERSION),
        (launched(environment_digest=OTHER), Part.ENVIRONMENT),
        (changed(record(), setting=None), Part.CONFIGURATION),
    ],
)
def test_what_is_unknown_is_not_equal(other: Record, part: Part) -> None:
    for found in (only(differences(record(), other)), only(differences(other, record()))):
        assert (found.part, found.weight) == (part, Weight.UNKNOWN)
        assert not comparable((found,))


def test_two_unknown_configurations_are_not_equal_either() -> None:
    found = differences(launched(argv=()), launched(argv=()))
    assert only(found).words == "how the server of either was launched is not known"
    nameless = replace(setting(), server=replace(setting().server, model_root=None))
    silent = replace(nameless, configuration=replace(nameless.configuration, argv=()))
    assert {one.part for one in differences(on(silent), on(silent))} == {Part.CONFIGURATION, Part.MODEL}
    assert differences(on(nameless), on(nameless)) == (), "the command line names the checkpoint"


def test_an_environment_that_nobody_recorded_leaves_them_comparable_as_far_as_is_known() -> None:
    bare = launched(environment_digest=None)
    for found in (differences(bare, bare), differences(record(), bare)):
        assert only(found).weight is Weight.UNPROVEN
        assert comparable(found)


def test_cards_that_nobody_looked_for_are_not_called_the_same() -> None:
    blind = on(replace(setting(), cards=(), watched_by="nobody"))
    assert only(differences(blind, blind)).weight is Weight.UNPROVEN
    seen = on(replace(setting(), cards=(), watched_by="client"))
    assert differences(seen, seen) == (), "a server on the processor"


def test_two_environments_at_hand_are_compared_by_what_is_in_them() -> None:
    first = changed(record(), environment=environment())
    assert differences(first, changed(launched(environment_digest=OTHER), environment=environment())) == ()
    patched = changed(record(), environment=environment(torch="2.14.0"))
    found = only(differences(first, patched))
    assert found.part is Part.ENVIRONMENT
    assert "torch" in found.words
    retrained = changed(record(), environment=environment(revision="def"))
    assert only(differences(first, retrained)).part is Part.MODEL
    draft = ModelFacts("/opt/models/draft", "1", "sha256:c", "sha256:i", "sha256:h")
    drafted = differences(first, changed(record(), environment=environment(draft=draft)))
    assert {one.part for one in drafted} == {Part.SPECULATION}
    unread = changed(record(), environment=replace(environment(), unread=("the firmware",)))
    assert only(differences(first, unread)).weight is Weight.UNPROVEN


def test_a_checkpoint_in_another_folder_is_the_same_where_its_content_is_known() -> None:
    first = changed(record(), environment=environment())
    moved = changed(server(model_root="/mnt/models/tiny"), environment=environment())
    assert differences(first, moved) == ()


def test_another_workload_is_another_workload() -> None:
    other = record(run([stage([request("item-0")])], items(5)))
    assert "the requests are not the same" in only(differences(record(), other)).words
    options = ladder()
    options = replace(options, workload=replace(options.workload, options={"concurrency": "1,8", "url": "elsewhere"}))
    assert only(differences(record(), record(options))).words == "the option concurrency is 1,4, then 1,8"
    found = only(differences(record(), record(run([stage([request("item-0")])], name="context"))))
    assert found.words == "one is a ladder, the other a context"
    assert only(differences(record(), changed(record(), run=None))).words == "only one of the two has a run"


def test_speculation_alone_may_be_left_out() -> None:
    found = differences(record(), on(setting((*ARGV, *DRAFTS), speculates=True)))
    assert found
    assert but_for_speculation(found) == ()


def oracle_of(change: Callable[[Record], Record] = lambda made: made) -> str:
    return unfit_as_oracle(on(setting((*ARGV, *DRAFTS), speculates=True)), change(record()))


def test_the_same_configuration_without_speculation_is_an_oracle() -> None:
    assert oracle_of() == ""


def test_an_oracle_with_options_of_its_own_is_one_all_the_same() -> None:
    made = ladder()
    other = replace(made, workload=replace(made.workload, options={"concurrency": "1"}))
    assert oracle_of(lambda _: record(other)) == ""


@pytest.mark.parametrize(
    ("oracle", "why"),
    [
        (on(setting((*ARGV, *DRAFTS), speculates=None)), "the oracle speculated itself"),
        (on(setting(speculates=True)), "the oracle speculated itself"),
        (on(setting((), speculates=None)), "nobody can tell whether the oracle speculated"),
        (on(setting((), speculates=False)), "how the server of one was launched is not known"),
        (on(setting((*ARGV, "--enforce-eager"))), "another configuration: --enforce-eager is not set, then on"),
        (changed(record(), run=None), "one of the two has no run"),
        (changed(record(), setting=None), "nobody wrote down how the oracle's server was launched"),
        (record(run([stage([request("item-0")])], items(5))), "the oracle was asked another workload"),
        (
            record(replace(ladder(), stages=tuple(one for one in ladder().stages if one.concurrency > 1))),
            "the oracle was not asked one request at a time",
        ),
    ],
)
def test_what_is_no_oracle_is_refused_with_its_reason(oracle: Record, why: str) -> None:
    said = oracle_of(lambda _: oracle)
    assert why in said


def test_an_oracle_that_drafted_is_refused_whatever_it_says_of_itself() -> None:
    made = ladder()
    drafted = [replace(one, after=replace(one.after, drafts=12.0)) for one in made.stages]
    assert oracle_of(lambda _: record(replace(made, stages=tuple(drafted)))) == "the oracle speculated itself"


def test_an_oracle_that_was_not_alone_on_its_server_is_refused() -> None:
    made = ladder()
    crowded = [replace(one, watched=replace(one.watched, most_running=3.0)) for one in made.stages]
    said = oracle_of(lambda _: record(replace(made, stages=tuple(crowded))))
    assert said == "the oracle's server ran other requests beside its own"


def test_a_label_that_vllm_chose_by_speculation_is_part_of_it_where_the_launches_are_known() -> None:
    where = setting((*ARGV, *DRAFTS), speculates=True)
    labels = {"block_size": "16", "num_gpu_blocks": "800", "prefix_cache_retention_interval": "64"}
    drafting = replace(where, server=replace(where.server, cache=labels))
    assert but_for_speculation(differences(record(), on(drafting))) == ()
    unknown = replace(drafting, configuration=replace(where.configuration, argv=()))
    found = but_for_speculation(differences(record(), on(unknown)))
    assert any("prefix_cache_retention_interval" in one.words for one in found)


def test_what_vllm_sets_by_itself_because_it_speculates_is_speculation() -> None:
    plain = replace(setting(), server=replace(setting().server, cache={"retention": "None"}))
    drafting = setting((*ARGV, *DRAFTS), speculates=True)
    drafting = replace(drafting, server=replace(drafting.server, cache={"retention": "0"}))
    assert but_for_speculation(differences(on(plain), on(drafting))) == ()
    other = replace(plain, server=replace(plain.server, cache={"retention": "0"}))
    assert only(differences(on(plain), on(other))).part is Part.CONFIGURATION
