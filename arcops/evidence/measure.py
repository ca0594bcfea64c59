"""Measures a server with a benchmark, beside an oracle where there is one, and keeps the record."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from arcops import __version__
from arcops.bench.course import Fresh
from arcops.bench.drive import Progress
from arcops.bench.server import BenchServer
from arcops.config.paths import Paths
from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.comparable import unfit_as_oracle
from arcops.core.evidence.environment import Environment
from arcops.core.evidence.figures import measured, of_stage
from arcops.core.evidence.identity import (
    ITSELF,
    Divergence,
    Identity,
    Margin,
    StageIdentity,
    by_another,
    by_itself,
    compare,
    open_questions,
    with_margins,
)
from arcops.core.evidence.judge import STALE_CACHES
from arcops.core.evidence.run import Run
from arcops.core.evidence.setting import Configuration, Setting
from arcops.core.evidence.work import Item, Workload
from arcops.evidence import fresh, shelf
from arcops.evidence.benches import Bench
from arcops.evidence.benches import measure as run_bench
from arcops.evidence.ceiling import ceilings
from arcops.evidence.record import FORMAT, Record
from arcops.evidence.setting import concealed, known
from arcops.evidence.shelf import Stored
from arcops.evidence.standing import kept
from arcops.evidence.target import Target, target_of
from arcops.evidence.witness import Witness

ENVIRONMENT_WITHIN: Final = 60.0
"""Seconds for the daemon to record an environment: ten, where nothing has been read before."""
MARGINS: Final = 8
"""Divergences of a stage whose margin is asked for: each costs a prefill of its prompt."""
NO_ORACLE: Final = "no oracle was given, and the server may speculate, so that it is none for itself"
NO_ORACLE_HERE: Final = "no oracle was given"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person wants measured."""

    bench: Bench
    place: Path
    """A folder, or a file that is not there yet."""
    command: tuple[str, ...] = ()
    url: str | None = None
    """None: the daemon's own backend."""
    model: str | None = None
    api_key_file: Path | None = None
    """None: the launch's, where the daemon runs the server."""
    oracle: str | None = None
    """A record: by its path, its name or the beginning of its digest."""
    oracle_profile: str | None = None
    """A profile that is run first and measured as the oracle."""
    note: str = ""


async def measure(asked: Asked, paths: Paths, tell: Progress) -> Stored:
    """Do it. Raises ArcopsError where nothing can be measured; what fails on the way is in the record."""
    shelf.prepare(asked.place)
    if asked.oracle is not None and asked.oracle_profile is not None:
        problem = "--oracle and --oracle-profile are two ways to one oracle"
        raise ArcopsError(problem, hint="give one of them", exit_code=ExitCode.USAGE)
    if asked.oracle_profile is not None:
        return await _beside_profile(asked, asked.oracle_profile, paths, tell)
    oracle = None if asked.oracle is None else _oracle(asked.oracle, asked.bench.name, paths)
    return await _once(asked, oracle, paths, tell)


async def _beside_profile(asked: Asked, profile: str, paths: Paths, tell: Progress) -> Stored:
    """The oracle's profile, measured; then the one that ran before, beside it; that one runs again in any case."""
    if asked.url is not None:
        problem = "--oracle-profile switches the daemon's backend, and --url names a server of its own"
        raise ArcopsError(problem, hint="leave out --url", exit_code=ExitCode.USAGE)
    before = (await asyncio.to_thread(fresh.serving, paths.socket)).profile
    if before == profile:
        problem = f"{profile} is what runs already: it cannot be the oracle beside itself"
        raise ArcopsError(problem, hint="switch to what is to be measured first", exit_code=ExitCode.USAGE)
    tell(f"switching to {profile}, for the oracle")
    try:
        await fresh.change(paths.socket, profile)
    except asyncio.CancelledError:
        # The order goes on without whoever gave it, and must not be what stays.
        await switch_back(paths.socket, before, tell, replace=True)
        raise
    try:
        # A place that is a file is the measurement's own: the oracle's record gets a name of its own beside it.
        folder = asked.place.parent if asked.place.suffix == ".json" else asked.place
        oracle = await _once(replace(asked, place=folder), None, paths, tell)
        tell(f"the oracle: {oracle.path}")
    finally:
        await switch_back(paths.socket, before, tell)
    return await _once(asked, oracle, paths, tell)


async def switch_back(socket: Path, before: str, tell: Progress, *, replace: bool = False) -> None:
    """To the profile that ran before the oracle's. Whoever does not want to wait for it is told where he is left."""
    tell(f"switching back to {before}")
    try:
        await fresh.change(socket, before, replace=replace)
    except asyncio.CancelledError:
        tell(f"not waited for: `arcops status` shows what runs; `arcops switch {before}` brings it back if need be")
        raise


async def _once(asked: Asked, oracle: Stored | None, paths: Paths, tell: Progress) -> Stored:
    target = await asyncio.to_thread(target_of, asked.url, asked.api_key_file, paths)
    bench = asked.bench if oracle is None else asked.bench.like(_run_of(oracle).workload.options)
    async with BenchServer(target.url, model=asked.model, api_key=target.api_key) as server:
        facts = await server.open()
        tell(f"measuring {facts.model} at {facts.url}, vLLM {facts.version or 'of an unknown version'}")
        server.begin()
        began = time.time()
        async with Witness(facts, target.socket, server.now) as witness:
            course = _Course(asked, oracle, began, witness, paths.environments)
            found = await run_bench(
                bench,
                server,
                tell,
                ready=course.ready,
                fresh=_fresh(target, witness, tell),
                own_oracle=oracle is None,
            )
        now = await known_now(witness, target.socket, tell)
        setting = await asyncio.to_thread(_completed, witness.setting(), found, now)
        record = course.record(found, setting)
        identity = await _identified(record, found, course.items, oracle, server, tell)
    record = msgspec.structs.replace(record, ended=max(began, time.time()), identity=identity)
    return await asyncio.to_thread(shelf.write, asked.place, record)


class _Course:
    """What has to be known before it begins, and is told afterwards."""

    def __init__(self, asked: Asked, oracle: Stored | None, began: float, witness: Witness, environments: Path) -> None:
        self._asked = asked
        self._oracle = oracle
        self._began = began
        self._witness = witness
        self._environments = environments
        self.items: Sequence[Item] = ()

    def ready(self, workload: Workload, items: Sequence[Item]) -> None:
        """Refuses an oracle that is none for what will be asked, before an hour is spent on it. Raises ArcopsError."""
        self.items = items
        if self._oracle is None:
            return
        setting = self._witness.setting()
        theirs = self._oracle.record.setting
        if theirs is not None:
            # The first look at the cards may not be over yet; they are compared at the end.
            setting = replace(setting, cards=theirs.cards)
        reason = unfit_as_oracle(self.record(Run(workload, (), {}), setting), self._oracle.record)
        if reason:
            raise ArcopsError(
                f"{self._oracle.path.name} cannot be the oracle here: {reason}",
                hint="an oracle is a run of the same workload and configuration, without speculation",
                exit_code=ExitCode.USAGE,
            )

    def record(self, run: Run, setting: Setting) -> Record:
        """As far as it is known."""
        return Record(
            arcops_record=FORMAT,
            kind=self._asked.bench.name,
            arcops=__version__,
            began=self._began,
            ended=max(self._began, time.time()),
            command=concealed(self._asked.command),
            note=self._asked.note,
            run=run,
            setting=setting,
            environment=_environment(setting, self._environments),
        )


def _environment(setting: Setting, folder: Path) -> Environment | None:
    """What the daemon recorded of the launch: a record is whole only with it. None where it has recorded nothing."""
    digest = setting.configuration.environment_digest
    if digest is None:
        return None
    try:
        return kept.read(folder, digest)
    except ArcopsError:
        return None


def _fresh(target: Target, witness: Witness, tell: Progress) -> Fresh | None:
    """How the suite gets its servers; None where the server is not the daemon's."""
    socket = target.socket
    if socket is None or not witness.known.by_daemon:
        return None

    async def bring_up(number: int) -> None:
        tell(f"bringing up server {number} with empty compile caches")
        with witness.ordering():
            empty = await fresh.renew(socket)
        if not empty:
            tell(f"the compile caches of server {number} were NOT empty: is arcopsd an older one?")
            witness.note(STALE_CACHES, f"the compile caches of server {number} were not empty")

    return bring_up


async def _identified(
    record: Record, run: Run, items: Sequence[Item], oracle: Stored | None, server: BenchServer, tell: Progress
) -> Identity:
    """The answers beside the oracle's, with the margins of what differs."""
    if oracle is not None:
        reason = unfit_as_oracle(record, oracle.record)
        if reason:
            return Identity(oracle.digest, (), not_compared=reason)
        name, answers = oracle.digest, by_another(_run_of(oracle)).answers
    else:
        name, answers = ITSELF, by_itself(run).answers
        # A warm-up's answers are answers, and no oracle of anything that is measured.
        if not any(request.item in answers for stage in measured(run) for request in stage.requests):
            speculates = server.facts.speculates
            return Identity(name, (), not_compared=NO_ORACLE_HERE if speculates is False else NO_ORACLE)
    stages = compare(run, answers)
    margins = await _margins(stages, answers, items, server, tell)
    return Identity(name, with_margins(stages, margins))


async def _margins(
    stages: Sequence[StageIdentity],
    answers: Mapping[str, tuple[int, ...]],
    items: Sequence[Item],
    server: BenchServer,
    tell: Progress,
) -> dict[Divergence, Margin]:
    """How near the two tokens were at the first place where an answer differs; of a few of each stage."""
    prompts = {item.name: item.prompt for item in items}
    found: dict[Divergence, Margin] = {}
    for stage in stages:
        for one in open_questions((stage,))[:MARGINS]:
            if one in found or one.oracle_token is None or one.token is None:
                continue
            tell(f"asking for the margin of {one.item} at token {one.position}")
            shared = answers[one.item][: one.position]
            found[one] = await server.margin(prompts[one.item], shared, one.oracle_token, one.token)
    return found


def _run_of(oracle: Stored) -> Run:
    run = oracle.record.run
    if run is None:
        raise ArcopsError(f"{oracle.path.name} has no run", exit_code=ExitCode.USAGE)
    return run


def _oracle(word: str, kind: str, paths: Paths) -> Stored:
    """The record that a person means. Raises ArcopsError: none, damaged, or of another benchmark."""
    stored = shelf.read(shelf.named(paths.records, word))
    if stored.record.kind != kind:
        raise ArcopsError(
            f"{stored.path.name} is a record of {stored.record.kind}, and no oracle for {kind}",
            hint=f"an oracle is a run of `arcops bench {kind}` without speculation",
            exit_code=ExitCode.USAGE,
        )
    return stored


async def known_now(witness: Witness, socket: Path | None, tell: Progress) -> Configuration:
    """The server's configuration at the end. The suite's servers are other launches than the one that it began with;
    and of each launch the daemon records the environment while it serves already, which is waited for."""
    before = witness.known.configuration
    if not witness.known.by_daemon or socket is None:
        return before
    loop = asyncio.get_running_loop()
    ends = loop.time() + ENVIRONMENT_WITHIN
    said = False
    while True:
        found = await asyncio.to_thread(known, witness.setting().server, socket)
        now = found.configuration
        same = now.launch_id == before.launch_id or witness.ordered
        if not found.by_daemon or not same or (now.profile, now.argv) != (before.profile, before.argv):
            return before
        if now.environment_digest is not None or not found.recording or loop.time() > ends:
            return now
        if not said:
            said = True
            tell("waiting for the daemon to have recorded the server's environment")
        await asyncio.sleep(fresh.LOOK_EVERY)


def _completed(setting: Setting, run: Run, configuration: Configuration) -> Setting:
    """With what is known only afterwards: how fast the cards could decode at the run's depths, and `configuration`.
    Blocking."""
    depths = [stage.depth for stage in measured(run) if stage.depth is not None]
    steps = [found for stage in measured(run) if (found := of_stage(stage).tokens_per_step) is not None]
    mean = sum(steps) / len(steps) if steps else None
    return replace(setting, configuration=configuration, ceilings=ceilings(configuration, setting.cards, depths, mean))
