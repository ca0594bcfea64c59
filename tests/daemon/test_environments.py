"""The environment of a launch: recorded once, held against the records, and harmless where it cannot be read."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import msgspec
import pytest

from arcops import wire
from arcops.core.errors import ArcopsError, BlockedError, BusyError
from arcops.core.evidence.environment import digest_of
from arcops.core.phase import Phase
from arcops.core.state import State
from arcops.daemon.environments import KEPT_AS, MOST_LAUNCHES, Environments, Pace, Ran
from arcops.daemon.loop import Loop
from arcops.daemon.wiring import Parts
from arcops.evidence.standing import kept
from tests.core.simulated import launch
from tests.daemon.test_footprints import daemon, on_the_cpu
from tests.daemon.waiting import until
from tests.evidence.standing.surveyed import PATCHED, PLAIN, Survey, edit, qualify

SOON = Pace(after=0.0, within=60.0, hurried=60.0, look=0.05, turn=0.05, answered=60.0)
PROFILE = launch().profile


@dataclass(slots=True)
class Watch:
    """A daemon's parts, none of which runs, and the environments beside them."""

    parts: Parts
    environments: Environments
    survey: Survey

    def serves(self, launch_id: str = "launch-1") -> None:
        """A launch has come to serve."""
        self.lives(launch_id)
        assert self.parts.actor.live is not None
        self.environments.served(self.parts.actor.live)

    def lives(self, launch_id: str = "launch-1") -> None:
        live = on_the_cpu(self.parts.paths.state_dir)
        live.record = replace(live.record, launch_id=launch_id)
        self.parts.actor.live = live
        self.parts.loop.state = replace(self.parts.loop.state, phase=Phase.SERVING)

    def info(self) -> wire.EnvironmentInfo:
        info = self.environments.info()
        assert info is not None
        return info

    def told(self) -> list[str]:
        """What the history has of environments."""
        return [event.reason for event in self.parts.journal.events(0, 100) if event.kind == "environment"]

    async def known(self, condition: Callable[[wire.EnvironmentInfo], object] = lambda info: info.digest) -> None:
        await until(lambda: bool(condition(self.info())), within=60.0)


@asynccontextmanager
async def watch(root: Path, pace: Pace = SOON) -> AsyncGenerator[Watch]:
    """One supervisor; the next one in the same folder finds what this one has kept."""
    survey = Survey.there(root / "survey")
    async with daemon(root) as parts:

        def reader() -> tuple[str, ...]:
            # As a daemon's own child has it.
            return ("/usr/bin/env", f"XDG_STATE_HOME={root}", f"XDG_RUNTIME_DIR={root}", *survey.command())

        environments = Environments(parts.paths, parts.journal, parts.loop, parts.actor, pace, reader)
        try:
            yield Watch(parts, environments, survey)
        finally:
            environments.close()


@pytest.mark.asyncio
async def test_a_launch_that_serves_is_recorded_once_and_kept(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        assert one.environments.info() is None, "nothing runs"
        one.lives()
        assert (one.info().digest, one.info().qualified, one.info().unread) == (None, None, ())
        one.serves()
        await one.known()
        assert (one.info().launch_id, one.info().digest) == ("launch-1", digest_of(PLAIN))
        assert (one.info().qualified, one.info().qualified_in) == (False, None)
        assert one.survey.readings() == [PROFILE]
        assert kept.read(one.parts.paths.environments, digest_of(PLAIN)) == PLAIN
        assert one.told() == [], "what never qualified has not changed since"


@pytest.mark.asyncio
async def test_the_reader_has_the_lowest_priority(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        one.serves()
        await one.known()
        line = (one.survey.folder / "readings").read_text()
        assert line.split() == [PROFILE, "19"]


@pytest.mark.asyncio
async def test_a_new_supervisor_takes_it_up_and_reads_nothing_again(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        one.serves()
        await one.known()
        one.survey.says(PATCHED)
    async with watch(tmp_path) as two:
        qualify(two.parts.paths.records, PROFILE, PLAIN)
        two.lives()
        two.environments.begin()
        await two.known()
        assert two.survey.readings() == [PROFILE]
        assert (two.info().digest, two.info().qualified) == (digest_of(PLAIN), True)


@pytest.mark.asyncio
async def test_what_it_was_taken_to_have_kept_and_is_gone_is_read_again(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        one.serves()
        await one.known()
        kept.path_of(one.parts.paths.environments, digest_of(PLAIN)).unlink()
    async with watch(tmp_path) as two:
        two.lives()
        two.environments.begin()
        await two.known()
        assert two.survey.readings() == [PROFILE, PROFILE]
        assert kept.read(two.parts.paths.environments, digest_of(PLAIN)) == PLAIN


@pytest.mark.asyncio
async def test_an_adopted_launch_that_nobody_recorded_is_recorded(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        one.lives()
        one.environments.begin()
        await one.known()
        assert one.survey.readings() == [PROFILE]


@pytest.mark.asyncio
async def test_a_file_that_changed_is_told_of_at_the_next_launch_once(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        qualify(one.parts.paths.records, PROFILE, PLAIN)
        one.serves()
        await one.known()
        assert one.info().qualified is True
        one.survey.says(PATCHED)
        one.serves("launch-2")
        await one.known(lambda info: info.launch_id == "launch-2" and info.digest)
        assert (one.info().qualified, one.info().changes) == (False, 1)
        assert "vllm/dflash.py" in one.info().since_qualified[0]
        since, before = one.told()
        assert since.startswith(f"the environment is not that in which {PROFILE} last qualified: 1 thing has changed: ")
        assert before.startswith(f"the environment is not that of the launch of {PROFILE} before (launch-1): 1 thing")
    async with watch(tmp_path) as two:
        two.lives("launch-2")
        two.environments.begin()
        await two.known()
        assert len(two.told()) == 2, "a launch is told of once, however many supervisors see it"


@pytest.mark.asyncio
async def test_another_profile_is_no_launch_before(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        one.serves()
        await one.known()
        one.survey.says(PATCHED)
        one.lives("launch-2")
        live = one.parts.actor.live
        assert live is not None
        live.record = replace(live.record, launch=replace(live.record.launch, profile="another"))
        one.environments.served(live)
        await one.known(lambda info: info.launch_id == "launch-2" and info.digest)
        assert one.told() == []


@pytest.mark.asyncio
async def test_a_qualification_while_it_runs_counts_and_one_that_is_edited_does_no_more(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        one.serves()
        await one.known()
        path = qualify(one.parts.paths.records, PROFILE, PLAIN)
        await one.known(lambda info: info.qualified)
        edit(path)
        await one.known(lambda info: not info.qualified)
        assert any("not believed" in words for words in one.info().unread)
        assert one.survey.readings() == [PROFILE], "the machine is not read again for it"
        assert one.told() == [
            f"{PROFILE} has qualified in the environment that it runs in",
            f"{PROFILE} does not count as qualified any more in the environment that it runs in",
        ]


@pytest.mark.parametrize(
    ("how", "pace", "why"),
    [
        ("hang", replace(SOON, within=3.0), "not done within 3 s"),
        ("crash", SOON, "exit code -9"),
        ("rubbish", SOON, "cannot be understood"),
        ("flood", SOON, "says more than"),
    ],
)
@pytest.mark.asyncio
async def test_a_reader_that_misbehaves_is_said_and_costs_only_what_it_was_to_find(
    tmp_path: Path, how: str, pace: Pace, why: str
) -> None:
    async with watch(tmp_path, pace) as one:
        one.survey.misbehaves(how)
        one.serves()
        await one.known(lambda info: info.unread)
        assert (one.info().digest, one.info().qualified) == (None, None)
        assert one.info().unread[0].startswith("the environment could not be recorded: ")
        assert why in one.info().unread[0]
        assert one.told() == [one.info().unread[0]]
        assert all(gone(pid) for pid in one.survey.pids())
        one.survey.behaves()
        one.serves("launch-2")
        await one.known()
        assert one.info().qualified is False, "the next launch is recorded"


@pytest.mark.asyncio
async def test_a_reader_is_ended_with_its_launch(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        one.survey.misbehaves("hang")
        one.serves()
        await until(lambda: bool(one.survey.pids()), within=60.0)
        one.parts.actor.live = None
        await until(lambda: all(gone(pid) for pid in one.survey.pids()), within=60.0)
        assert one.environments.info() is None
        assert one.told() == []


@pytest.mark.asyncio
async def test_a_reader_is_ended_with_the_supervisor(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        one.survey.misbehaves("hang")
        one.serves()
        await until(lambda: bool(one.survey.pids()), within=60.0)
        one.environments.close()
        await until(lambda: all(gone(pid) for pid in one.survey.pids()), within=60.0)


@pytest.mark.asyncio
async def test_nothing_is_read_before_it_serves_quietly_unless_somebody_asks(tmp_path: Path) -> None:
    async with watch(tmp_path, replace(SOON, after=600.0)) as one:
        one.serves()
        doubted = Looked(replace(one.parts.loop.state, phase=Phase.SUSPECT))
        one.environments._loop = cast("Loop", doubted)  # pyright: ignore[reportPrivateUsage] - to see it wait
        asking = asyncio.create_task(one.environments.page())
        await until(lambda: doubted.looks >= 5)
        assert one.survey.pids() == [], "a backend in doubt is left alone"
        one.environments._loop = one.parts.loop  # pyright: ignore[reportPrivateUsage]
        page = await asyncio.wait_for(asking, 60.0)
        assert page.read() == PLAIN
        assert page.info == one.info()
        assert wire_again(page).read() == PLAIN


@pytest.mark.asyncio
async def test_without_a_backend_or_while_it_comes_up_there_is_no_page_to_wait_for(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        assert await one.environments.page() == wire.EnvironmentPage(info=None)
        one.lives()
        assert one.parts.actor.live is not None
        one.parts.actor.live.record = replace(one.parts.actor.live.record, proven=False)
        page = await asyncio.wait_for(one.environments.page(), 60.0)
        assert page.info is not None
        assert (page.info.digest, page.read()) == (None, None)


@pytest.mark.asyncio
async def test_a_page_does_not_wait_longer_than_its_reader_will(tmp_path: Path) -> None:
    async with watch(tmp_path, replace(SOON, answered=0.2)) as one:
        one.survey.misbehaves("hang")
        one.serves()
        page = await asyncio.wait_for(one.environments.page(), 60.0)
        assert page.read() is None


@pytest.mark.asyncio
async def test_an_order_is_told_how_the_environment_of_a_launch_stands_now(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        qualify(one.parts.paths.records, "dflash2", PLAIN)
        wanted = replace(launch(), profile="dflash2")
        assert (await one.environments.standing_of(wanted)).qualified is True
        one.survey.says(PATCHED)
        found = await one.environments.standing_of(wanted)
        assert found.qualified is False
        assert found.since_qualified is not None
        assert (one.survey.folder / "readings").read_text() == "dflash2 0\ndflash2 0\n", "whoever waits is not kept"
        assert not one.parts.paths.environments.exists(), "nothing was launched"


@pytest.mark.asyncio
async def test_an_order_is_refused_where_the_environment_cannot_be_read(tmp_path: Path) -> None:
    async with watch(tmp_path) as one:
        one.survey.misbehaves("crash")
        with pytest.raises(BlockedError, match="cannot be read"):
            await one.environments.standing_of(launch())
        one.survey.behaves()
        one.survey.misbehaves("hang")
        first = asyncio.create_task(one.environments.standing_of(launch()))
        await until(lambda: len(one.survey.pids()) == 2, within=60.0)
        with pytest.raises(BusyError, match="cannot be read now"):
            await one.environments.standing_of(launch())
        one.environments.close()
        with pytest.raises(ArcopsError):
            await first


@pytest.mark.asyncio
async def test_an_order_whose_giver_has_gone_meanwhile_is_none(tmp_path: Path) -> None:
    async def gone_meanwhile() -> bool:
        return True

    async with watch(tmp_path) as one:
        orders, wanted = one.parts.orders, replace(launch(), profile="dflash2")
        qualify(one.parts.paths.records, "dflash2", PLAIN)
        orders._environments = one.environments  # pyright: ignore[reportPrivateUsage] - whose machine is the survey's
        with pytest.raises(ArcopsError, match="has gone meanwhile"):
            await orders._qualified(wanted, gone_meanwhile)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.asyncio
async def test_only_so_many_launches_are_remembered_and_rubbish_is_not(tmp_path: Path) -> None:
    long_ago = [Ran(f"launch-{number}", "another", digest_of(PATCHED)) for number in range(MOST_LAUNCHES)]
    async with watch(tmp_path) as one:
        one.parts.journal.keep(KEPT_AS, msgspec.json.encode(long_ago).decode())
    async with watch(tmp_path) as two:
        two.serves("the newest")
        await two.known()
    async with watch(tmp_path) as three:
        remembered = msgspec.json.decode(three.parts.journal.kept(KEPT_AS) or "", type=list[Ran])
        assert [ran.launch_id for ran in remembered] == [*(one.launch_id for one in long_ago[1:]), "the newest"]
        three.parts.journal.keep(KEPT_AS, '[{"launch_id": 1}]')
    async with watch(tmp_path) as four:
        four.serves()
        await four.known()


def test_a_daemon_loads_nothing_of_what_measures_and_reports() -> None:
    heavy = ("arcops.bench", "arcops.evidence.shelf", "arcops.evidence.record", "aiohttp", "jinja2", "pygal")
    code = f"import sys, arcops.daemon.main; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


class Looked:
    """A loop whose state is only looked at, and how often that was."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.looks = 0

    @property
    def state(self) -> State:
        self.looks += 1
        return self._state


def gone(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True


def wire_again(page: wire.EnvironmentPage) -> wire.EnvironmentPage:
    """As a client has it."""
    return msgspec.json.decode(wire.encode(page), type=wire.EnvironmentPage)
