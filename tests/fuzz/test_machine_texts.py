"""What the machine says: the files of /proc, the driver's fdinfo, logs, the launch record, the keeper's status."""

import json
import os
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import msgspec
import pytest

from arcops.core.diagnosis import diagnose, kernel
from arcops.core.diagnosis.judge import Evidence
from arcops.core.enclosure import Enclosure, EnclosureKind
from arcops.core.launch import Launch
from arcops.core.metrics import parse as parse_metrics
from arcops.core.phase import Phase
from arcops.core.progress import StartProgress, advance
from arcops.core.rates import Timed, rates
from arcops.core.world import ProcessId
from arcops.machine import backend_log, keeper_status, proc, record
from arcops.machine.gpu import drm
from arcops.report.hiding import Hider
from tests.fuzz import mutate
from tests.fuzz.harness import fuzz

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(900)]


DATA = Path(__file__).parents[1] / "data"
METRICS = [path.read_text() for path in sorted((DATA / "metrics").glob("*.txt"))]
LOGS = [path.read_text(errors="replace") for path in sorted((DATA / "vllm-logs").glob("*.log"))]
FDINFO = [path.read_text() for path in sorted((DATA / "fdinfo").glob("*.txt"))]
KERNEL = [path.read_text(errors="replace") for path in sorted((DATA / "kmsg").iterdir())]
STATS = (
    "4711 (python (x) y) S 1 4711 4711 0 -1 4194304 100 0 0 0 12 3 0 0 20 0 7 0 5000 1000 200 184467440737095 1 1 0 0",
    Path("/proc/self/stat").read_text(),
)
STATUS = Path("/proc/self/status").read_text()
RECORD = record.LaunchRecord(
    launch_id="20261130-104802-ab12",
    boot_id="boot",
    instance="main",
    launch=Launch(
        profile="dflash2",
        argv=("/opt/vllm/bin/vllm", "serve", "/models/q", "--port", "8000"),
        environment=(("A", "1"), ("HF_TOKEN", "x")),
        setup=None,
        host="127.0.0.1",
        port=8000,
        served_name="q",
        api_key_file=None,
        locks=("/sys/bus/pci/devices/0000:03:00.0",),
        cards=("0000:03:00.0",),
    ),
    enclosure=Enclosure(EnclosureKind.SCOPE, "arcops-main-L1.scope"),
    status_path="/run/s",
    log_path="/var/l",
    spawned_at=1.5,
    spawned_monotonic=2.5,
    keeper=ProcessId(1, 2),
    main=ProcessId(3, 4),
)
STATUSES = (
    '{"launch":"L1","boot_id":"b","keeper":{"pid":1,"start":2},"main":{"pid":3,"start":4},"exit":null,"error":null}',
    '{"launch":"L1","boot_id":"b","keeper":{"pid":1,"start":2},"main":null,"exit":127,"error":"no file","errno":2}',
)


def test_metrics_and_the_rates_over_them() -> None:
    def make(random: Random) -> list[str]:
        one = mutate.window(random, random.choice(METRICS), 60)
        return [one, mutate.text(random, one, METRICS)]

    def feed(texts: list[str]) -> None:
        samples = [Timed(float(at), parse_metrics(text), "launch") for at, text in enumerate(texts)]
        msgspec.json.encode(rates(samples, 60.0))

    fuzz("metrics", make, feed)


def test_whole_scrapes() -> None:
    fuzz("scrapes", lambda random: mutate.text(random, random.choice(METRICS), METRICS), parse_metrics, share=0.05)


def test_log_lines_of_a_start() -> None:
    def make(random: Random) -> list[str]:
        return mutate.text(random, mutate.window(random, random.choice(LOGS), 12), LOGS).splitlines()

    def feed(lines: list[str]) -> None:
        progress = StartProgress()
        for line in lines:
            later = advance(progress, line)
            assert later.stage.order >= progress.stage.order
            progress = later

    fuzz("progress", make, feed)


def test_the_log_of_an_end() -> None:
    def make(random: Random) -> Evidence:
        lines = mutate.text(random, mutate.window(random, random.choice(LOGS), 40), LOGS).splitlines()
        code = random.choice((None, 0, 1, -9, -11, 137, 255, -(2**31)))
        return Evidence(code, random.choice(list(Phase)), lines, random.random() < 0.5)

    def feed(evidence: Evidence) -> None:
        found = diagnose(evidence)
        for text in (found.summary, found.hint, found.evidence):
            assert "\n" not in text
            assert len(text) < 2_000

    fuzz("diagnosis", make, feed)


def test_a_log_that_is_written_as_it_is_read(memory: Path) -> None:
    path = memory / "a.log"

    def make(random: Random) -> tuple[list[bytes], int]:
        pieces = [mutate.octets(random, mutate.window(random, random.choice(LOGS), 6), LOGS) for _ in range(3)]
        return pieces, random.randrange(50)

    def feed(one: tuple[list[bytes], int]) -> None:
        pieces, lines = one
        path.write_bytes(b"")
        follower = backend_log.LogFollower(str(path))
        for piece in pieces:
            with path.open("ab") as file:
                file.write(piece)
            for line in (*follower.read_new(), *backend_log.tail(str(path), lines)):
                assert "\n" not in line

    fuzz("log files", make, feed)


def test_launch_records(memory: Path) -> None:
    path = memory / "launch.json"
    plain = cast("mutate.Tree", json.loads(msgspec.json.encode(RECORD)))
    full = msgspec.json.encode(replace(RECORD, proven=True, ready_at=3.0)).decode()

    def make(random: Random) -> bytes:
        if random.random() < 0.6:
            return json.dumps(mutate.tree(random, plain)).encode("utf-8", "surrogatepass")
        return mutate.octets(random, full, STATUSES)

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        found = record.read(str(path), "boot")
        assert isinstance(found, (record.LaunchRecord, record.Unbelievable))
        if isinstance(found, record.LaunchRecord):
            assert found.boot_id == "boot"
            assert found.schema == record.SCHEMA
            msgspec.json.encode(found)

    fuzz("launch records", make, feed)


def test_keeper_statuses(memory: Path) -> None:
    path = memory / "status.json"

    def make(random: Random) -> bytes:
        sample = random.choice(STATUSES)
        if random.random() < 0.6:
            changed = mutate.tree(random, cast("mutate.Tree", json.loads(sample)))
            return json.dumps(changed).encode("utf-8", "surrogatepass")
        return mutate.octets(random, sample, STATUSES)

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        keeper_status.read(str(path))

    fuzz("keeper statuses", make, feed)


def test_fdinfo() -> None:
    def feed(text: str) -> None:
        found = drm.parse(text)
        assert found is None or min(found.resident_bytes or 0, found.total_bytes or 0, found.shared_bytes) >= 0

    fuzz("fdinfo", lambda random: mutate.text(random, random.choice(FDINFO), FDINFO), feed)


def test_proc_stat() -> None:
    fuzz("stat", lambda random: mutate.text(random, random.choice(STATS), STATS), proc.parse_stat)


def test_proc_status(memory: Path) -> None:
    folder = memory / "1"
    folder.mkdir()

    def feed(content: bytes) -> None:
        (folder / "status").write_bytes(content)
        proc.describe(1, os.fspath(memory))

    fuzz("status", lambda random: mutate.octets(random, STATUS, STATS), feed)


def test_the_kernels_log() -> None:
    def feed(text: str) -> None:
        lines = [
            line for row in text.splitlines() for line in (kernel.parse_record(row), kernel.parse_journal(row)) if line
        ]
        found = kernel.events(lines)
        kernel.of_launch(found, frozenset({1, 18821}), "arcops-main-L1.scope")
        kernel.of_cards(found, ("0000:03:00.0",))

    def make(random: Random) -> str:
        sample = mutate.window(random, random.choice(KERNEL), 6)
        prefix = random.choice(("6,1234,5678901,-;", "[   12.345678] ", "", "[12.3] xe 0000:03:00.0: "))
        return prefix + mutate.text(random, sample, KERNEL)

    fuzz("kernel log", make, feed)


def test_a_report_hides_what_it_knows_whatever_stands_around_it() -> None:
    secret = "rhubarb-and-custard-0815"
    hider = Hider([secret, "something-else"])
    places = (
        f"HF_TOKEN={secret}",
        f'{{"api_key": "{secret}"}}',
        f"Authorization: Bearer {secret}",
        f"https://x:{secret}@y/",
        f"--api-key {secret}",
        f"  PASSWORD: |\n    {secret}\n",
    )

    def make(random: Random) -> str:
        rows = [*mutate.text(random, mutate.window(random, random.choice(LOGS), 8), [*LOGS, *places]).splitlines(), ""]
        rows.insert(random.randrange(len(rows)), random.choice(places))
        return "\n".join(rows)

    def feed(text: str) -> None:
        assert secret not in hider.text(text)
        assert secret not in hider.yaml(text)

    fuzz("hiding", make, feed, share=0.5)
