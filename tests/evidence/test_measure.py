"""Each benchmark against the fake: what is recorded, and how each defect shows."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from arcops.bench import course
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.judge import Question, judge, spoiled
from arcops.core.evidence.qualification import Verdict
from arcops.core.evidence.run import Stage
from arcops.evidence.benches import Bench
from arcops.evidence.measure import Asked, measure
from arcops.evidence.shelf import Stored
from tests.fakes.runtime import fake_model, fake_vllm_path
from tests.fakes.serving import Serving
from tests.helpers import eventually, free_port

pytestmark = pytest.mark.processes

SMALL = {
    "long-prompt": {"tokens": "600", "output": "8"},
    "context": {"depths": "64,128", "output": "4"},
    "ladder": {"rungs": "1,3", "output": "6", "tokens": "48"},
    "suite": {"output": "4"},
}


@pytest.fixture
def fake(tmp_path: Path) -> Generator[Serving]:
    with serving(tmp_path) as server:
        yield server.wait_ready()


def serving(folder: Path, *flags: str) -> Serving:
    port = free_port()
    model = fake_model(folder / "model", mtp=True)
    common = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny", "--max-model-len", "2048")
    environment = {"FAKE_VLLM_START_SECONDS": "0.05", "FAKE_VLLM_DECODE_SPEED": "2000"}
    argv = (fake_vllm_path(), "serve", model, *common, "--max-num-seqs", "8", *flags)
    return Serving(argv, port, folder / f"{port}.log", environment)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    home = {
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path / "r"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "ARCOPS_CONFIG_DIR": str(tmp_path / "config"),
    }
    return Paths.of("main", home)


def take(
    name: str,
    server: Serving,
    paths: Paths,
    *,
    oracle: Stored | None = None,
    said: list[str] | None = None,
    **words: str,
) -> Stored:
    bench = Bench(name, words or ({} if oracle else SMALL[name]))
    given = None if oracle is None else str(oracle.path)
    asked = Asked(
        bench, paths.records, url=server.url, oracle=given, command=("arcops", "bench", name, "http://me:secret@x")
    )
    lines: list[str] = [] if said is None else said

    def tell(words: str) -> None:
        lines.append(words)

    return asyncio.run(measure(asked, paths, tell))


def stages(stored: Stored) -> tuple[Stage, ...]:
    assert stored.record.run is not None
    return stored.record.run.stages


def verdicts(stored: Stored, question: Question) -> set[Verdict]:
    return {one.verdict for one in judge(stored.record) if one.question is question}


@pytest.mark.parametrize("name", list(SMALL))
def test_a_benchmark_leaves_a_record_that_nothing_spoils(name: str, fake: Serving, paths: Paths) -> None:
    stored = take(name, fake, paths)
    assert spoiled(judge(stored.record)) == ()
    assert "secret" not in " ".join(stored.record.command)
    assert verdicts(stored, Question.CANARIES) == {Verdict.PASSED}
    assert verdicts(stored, Question.ANSWERED) == {Verdict.PASSED}
    assert all(one.prompt_tokens for stage in stages(stored) for one in stage.requests)


def test_each_depth_is_exact_and_cold(fake: Serving, paths: Paths) -> None:
    stored = take("context", fake, paths)
    assert [(stage.name, stage.depth, len(stage.requests)) for stage in stages(stored)] == [
        ("64", 64, 3),
        ("128", 128, 3),
    ]
    counted = {
        (stage.depth, one.prompt_tokens, one.output_tokens) for stage in stages(stored) for one in stage.requests
    }
    assert counted == {(64, 64, 4), (128, 128, 4)}
    assert verdicts(stored, Question.COLD) == {Verdict.PASSED}


def test_the_same_benchmark_again_is_cold_again_and_the_same_workload(fake: Serving, paths: Paths) -> None:
    first, second = take("context", fake, paths), take("context", fake, paths)
    assert first.record.run is not None
    assert second.record.run is not None
    assert first.record.run.workload == second.record.run.workload
    assert verdicts(second, Question.COLD) == {Verdict.PASSED}


def test_a_long_prompt_is_cold_then_cached_then_cold(fake: Serving, paths: Paths) -> None:
    stored = take("long-prompt", fake, paths)
    assert [stage.name for stage in stages(stored)] == ["warm-up", "cold-greedy", "cached-greedy", "cold-sampled"]
    assert verdicts(stored, Question.COLD) == verdicts(stored, Question.CACHED) == {Verdict.PASSED}
    assert stored.record.identity is not None
    assert stored.record.identity.not_compared, "a warm-up must not pass for an oracle"


def test_a_cold_run_that_is_warm_is_caught(fake: Serving, paths: Paths) -> None:
    fake.misbehave(pretend_cached=True)
    stored = take("long-prompt", fake, paths)
    assert Question.COLD in {one.question for one in spoiled(judge(stored.record))}


def test_a_salt_that_was_used_before_makes_a_warm_run_which_is_caught(
    fake: Serving, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(course, "new_salt", lambda: "always the same")
    take("long-prompt", fake, paths)
    again = take("long-prompt", fake, paths)
    assert Question.COLD in {one.question for one in spoiled(judge(again.record))}


def test_a_server_that_was_restarted_in_between_is_caught(fake: Serving, paths: Paths) -> None:
    said: list[str] = []

    class Restarting(list[str]):
        def append(self, words: str, /) -> None:
            if words.startswith("[2/2]") and not said:
                said.append(words)
                fake.misbehave(started_anew=True)

    stored = take("context", fake, paths, said=Restarting())
    assert said
    assert Question.SAME_SERVER in {one.question for one in spoiled(judge(stored.record))}


def test_a_ladder_is_its_own_oracle_in_every_pass(fake: Serving, paths: Paths) -> None:
    stored = take("ladder", fake, paths)
    assert [(stage.name, stage.pass_number, stage.warm) for stage in stages(stored)] == [
        ("warm-up", 0, None),
        ("sequential", 0, None),
        ("c1", 1, False),
        ("c3", 1, False),
        ("c1", 2, True),
        ("c3", 2, True),
    ]
    assert stored.record.identity is not None
    found = [(one.exact, one.asked) for one in stored.record.identity.stages]
    assert (stored.record.identity.oracle, found) == ("itself", [(1, 1), (3, 3)] * 2)


def test_a_flipped_token_is_shown_with_its_place_and_its_margin(fake: Serving, paths: Paths) -> None:
    fake.misbehave(flip_at=3, flip_from=2)
    stored = take("ladder", fake, paths)
    assert stored.record.identity is not None
    astray = {one.stage: one for one in stored.record.identity.stages if one.divergences}
    assert set(astray) == {"c3"}
    assert {one.position for one in astray["c3"].divergences} == {3}
    assert all(one.margin is not None for one in astray["c3"].divergences)


def test_a_run_with_speculation_is_held_against_the_record_of_one_without(tmp_path: Path, paths: Paths) -> None:
    with serving(tmp_path) as alone:
        oracle = take("context", alone.wait_ready(), paths)
    with serving(tmp_path, "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}') as drafting:
        stored = take("context", drafting.wait_ready(), paths, oracle=oracle)
        with pytest.raises(ArcopsError, match="cannot be the oracle here: the oracle speculated") as refused:
            take("context", drafting, paths, oracle=stored)
        assert refused.value.exit_code is ExitCode.USAGE
    assert stored.record.identity is not None
    assert stored.record.identity.oracle == oracle.digest
    assert [(one.exact, one.asked) for one in stored.record.identity.stages] == [(3, 3), (3, 3)]


def test_an_oracle_that_was_asked_otherwise_is_refused_before_anything_is_asked(fake: Serving, paths: Paths) -> None:
    oracle = take("context", fake, paths)
    with pytest.raises(ArcopsError, match="the oracle was asked with --output 4, and not with 5") as refused:
        take("context", fake, paths, oracle=oracle, output="5")
    assert refused.value.exit_code is ExitCode.USAGE
    with pytest.raises(ArcopsError, match="is a record of context, and no oracle for ladder"):
        take("ladder", fake, paths, oracle=oracle)


def test_a_depth_that_does_not_fit_is_refused_before_anything_is_asked(fake: Serving, paths: Paths) -> None:
    before = fake.metric("prompt_tokens_total")
    with pytest.raises(ArcopsError, match="the depth 2,048 does not fit") as refused:
        take("context", fake, paths, depths="1024,2048", output="8")
    assert (refused.value.exit_code, "2,040" in refused.value.hint) == (ExitCode.USAGE, True)
    assert fake.metric("prompt_tokens_total") == before
    assert not list(paths.records.glob("*.json"))


def test_after_a_failed_request_nothing_more_is_asked_unless_told_otherwise(fake: Serving, paths: Paths) -> None:
    fake.misbehave(error_every=5)
    stored = take("context", fake, paths)
    assert [stage.name for stage in stages(stored)] == ["64"]
    assert Question.ANSWERED in {one.question for one in spoiled(judge(stored.record))}
    fake.misbehave(error_every=5)
    going_on = Bench("context", SMALL["context"], keep_going=True)
    asked = Asked(going_on, paths.records, url=fake.url)
    assert [stage.name for stage in stages(asyncio.run(measure(asked, paths, lambda words: None)))] == ["64", "128"]


def test_without_url_and_without_a_daemon_there_is_nothing_to_measure(paths: Paths) -> None:
    asked = Asked(Bench("context", SMALL["context"]), paths.records)
    with pytest.raises(ArcopsError, match="there is no server to measure") as refused:
        asyncio.run(measure(asked, paths, lambda words: None))
    assert (refused.value.exit_code, "--url" in refused.value.hint) == (ExitCode.NO_DAEMON, True)


def test_what_is_interrupted_leaves_no_record_and_no_request(fake: Serving, paths: Paths) -> None:
    asked = Asked(Bench("ladder", {"rungs": "4", "output": "200", "tokens": "48"}), paths.records, url=fake.url)

    async def interrupted() -> None:
        begun = asyncio.Event()

        def tell(words: str) -> None:
            if words.startswith("[2/"):
                begun.set()

        task = asyncio.create_task(measure(asked, paths, tell))
        await begun.wait()
        await asyncio.to_thread(eventually, lambda: fake.metric("num_requests_running"), why="nothing is asked")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    fake.misbehave(decode_speed=100.0)
    asyncio.run(interrupted())
    eventually(lambda: fake.metric("num_requests_running") == 0, why="a request goes on without its client")
    assert list(paths.records.iterdir()) == []
