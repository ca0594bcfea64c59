"""What the kernel's lines mean, on every recorded one, and what a diagnosis makes of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.cards.incidents import Incident, Kind, Source
from arcops.core.diagnosis import Cause, Diagnosis, Evidence, diagnose
from arcops.core.diagnosis.kernel import (
    MAX_LINE,
    KernelLine,
    Word,
    event_of,
    events,
    of_launch,
    parse_journal,
    parse_record,
)
from arcops.core.phase import Phase
from tests.core.test_diagnosis import engine, log_of

SAMPLES = Path(__file__).parents[1] / "data" / "kmsg"
B70, OTHER, WEDGED = "0000:03:00.0", "0000:3d:00.0", "0000:0c:00.0"
OOM = "Out of memory: Killed process 4711 (VLLM::EngineCor) total-vm:221356kB, anon-rss:32512kB"
VICTIM = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/user.slice,"
    "task_memcg=/user.slice/app.slice/arcops-main-L1.scope,task=VLLM::EngineCor,pid=4711,uid=1000"
)
END = 5000.0


def sample(name: str) -> list[KernelLine]:
    """The lines of a sample, without the times that dmesg or a person put in front."""
    found: list[KernelLine] = []
    for number, text in enumerate((SAMPLES / f"{name}.txt").read_text().splitlines()):
        start = text.find("xe ")
        found.append(KernelLine(END - 10 + number / 100, text[start:] if start >= 0 else text))
    return found


def words_of(name: str) -> list[Word]:
    return [event.word for event in events(sample(name))]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("xe_b580_probe", []),
        ("xe_b70_engine_reset", [Word.RESET, Word.JOB_TIMEOUT, Word.RESET]),
        (
            "xe_b70_kernel_job_timeout_gt_reset",
            [Word.JOB_TIMEOUT, Word.JOB_TIMEOUT, Word.COREDUMP, Word.RESET, Word.RESET],
        ),
        ("xe_b70_page_fault_block", []),
        ("xe_cat_error", [Word.PAGE_FAULT, Word.PAGE_FAULT, Word.RESET, Word.PAGE_FAULT]),
        ("xe_wedged_llama_server", [Word.JOB_TIMEOUT, Word.WEDGED, Word.WEDGED]),
        ("xe_wedged_runtime_survivability", [Word.MEMORY_ERROR, Word.WEDGED, Word.WEDGED, Word.WEDGED]),
    ],
)  # fmt: skip
def test_every_recorded_line_has_its_word(name: str, words: list[Word]) -> None:
    assert words_of(name) == words


def test_a_line_says_which_card_and_whose_job_it_was() -> None:
    reset, job, _ = events(sample("xe_b70_engine_reset"))
    assert (reset.card, reset.driver, reset.pid) == (OTHER, "xe", None)
    assert (job.card, job.pid) == (OTHER, 2693)
    assert [event.card for event in events(sample("xe_cat_error"))] == [None] * 4


@pytest.mark.parametrize(
    ("text", "word", "card"),
    [
        ("NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
         Word.GONE, "0000:01:00.0"),
        ("NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", Word.GONE, "0000:01:00.0"),
        ("NVRM: GPU at PCI:0000:01:00: GPU-1234", None, None),
        ("NVRM: Xid (PCI:0000:c1:00): 48, pid=77, name=python, DBE", Word.MEMORY_ERROR, "0000:c1:00.0"),
        ("NVRM: Xid (PCI:0000:c1:00): 94, pid=77, name=python, Contained: SM", Word.MEMORY_ERROR, "0000:c1:00.0"),
        ("NVRM: Xid (PCI:0000:c1:00): 95, pid=77, name=python, Uncontained", Word.WEDGED, "0000:c1:00.0"),
        ("NVRM: Xid (PCI:00000000:C1:00): 119, pid=77, name=python, Timeout waiting for RPC from GSP",
         Word.GONE, "0000:c1:00.0"),
        ("NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
         Word.WEDGED, "0000:c1:00.0"),
        ("NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
         Word.WEDGED, "0000:c1:00.0"),
        ("NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
         Word.WEDGED, "0000:c1:00.0"),
        ("NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
         Word.RECOVERY, "0000:c1:00.0"),
        ("NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)",
         None, None),
        ("NVRM: Xid (PCI:0000:c1:00): 120, pid=77, GSP task exception", Word.GONE, "0000:c1:00.0"),
        ("NVRM: Xid (PCI:0000:c1:00): 31, pid=77, name=python, MMU Fault", Word.PAGE_FAULT, "0000:c1:00.0"),
        ("NVRM: Xid (PCI:0000:c1:00): 999, pid=77, something new", None, None),
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", Word.RESET, B70),
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset(2) succeeded!", Word.RESET, B70),
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset end with ret = -110", Word.WEDGED, B70),
        ("amdgpu 0000:03:00.0: [drm] device wedged, but recovered through reset", Word.RESET, B70),
        ("amdgpu 0000:03:00.0: amdgpu: ring comp_1.0.0 timeout, signaled seq=1, emitted seq=2", Word.JOB_TIMEOUT, B70),
        ("amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8)", Word.PAGE_FAULT, B70),
        ("amdgpu 0000:03:00.0: amdgpu: device lost from bus!", Word.GONE, B70),
        ("i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb, in python [1234]", Word.JOB_TIMEOUT, "0000:00:02.0"),
        ("i915 0000:00:02.0: [drm] Resetting chip for stopped heartbeat on rcs0", Word.RESET, "0000:00:02.0"),
        ("i915 0000:00:02.0: [drm] Failed to initialize GPU, declaring it wedged!", Word.WEDGED, "0000:00:02.0"),
        ("xe 0000:03:00.0: [drm] *ERROR* Tile0: GT0: reset failed (-EIO)", Word.WEDGED, B70),
        ("usb 1-1: reset started by the user", None, None),
        # A user's program that crashes: its name, and its file's at the end, are what the user likes.
        ("xe 0000:03:00.0[4711]: segfault at 0 ip 1 sp 2 error 4 in as wedged[55d0c0ffe000+1000]", None, None),
        ("amdgpu[4711]: segfault at 0 ip 1 sp 2 error 4 in device lost from bus[55d0c0ffe000+1000]", None, None),
        ("traps: x[4711] trap divide error in Out of memory: Killed process 7[55d0c0ffe000+1000]", None, None),
        ("NVRM: GPU[4711]: segfault at 0 ip 1 sp 2 error 4 in has fallen off the bus[55d0c0ffe000+1000]", None, None),
        ("xenbus 0000:03:00.0: as wedged", None, None),
        (OOM, Word.OOM_KILL, None),
        (VICTIM, Word.OOM_KILL, None),
        ("Memory cgroup out of memory: Killed process 3279 (python3) total-vm:1kB", Word.OOM_KILL, None),
        ("python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0", None, None),
    ],
)  # fmt: skip
def test_drivers_words_are_known(text: str, word: Word | None, card: str | None) -> None:
    event = event_of(text)
    assert (word, card) == (None, None) if event is None else (event.word, event.card) == (word, card)


def test_a_real_kill_in_a_cgroup_is_read_from_the_kernels_records() -> None:
    records = (SAMPLES / "oom_memcg.kmsg").read_text().splitlines()
    lines = [line for line in map(parse_record, records) if line is not None]
    assert len(lines) == len(records) == 80
    victim, killed = events(lines)
    assert (victim.pid, victim.cgroup) == (3279, "/arcops-test")
    assert (killed.pid, killed.cgroup, killed.at) == (3279, None, 11373.681021)
    assert of_launch((victim, killed), frozenset({3279}), "") == (victim, killed)
    assert of_launch((victim, killed), frozenset(), "arcops-test") == (victim,)
    assert of_launch((victim, killed), frozenset({3280}), "arcops") == ()


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ("6,344,1318237,-;EXT4-fs (vda): mounted", KernelLine(1.318237, "EXT4-fs (vda): mounted")),
        ("3,5,2000000,c,caller=T7;xe 0000:03:00.0: x\n SUBSYSTEM=pci\n DEVICE=+pci:0000:03:00.0\n",
         KernelLine(2.0, "xe 0000:03:00.0: x")),
        (r"6,1,5,-;a\x09b\x5cn\x1b[1m", KernelLine(5e-6, "a b\\n [1m")),
        ("12,9,5,-;Out of memory: Killed process 1 (x)", None),
        ("30,9,5,-;systemd[1]: x", None),
        (" SUBSYSTEM=pci", None),
        ("", None),
        ("6,344,x,-;y", None),
    ],
)  # fmt: skip
def test_a_record_is_taken_apart_and_only_the_kernels_own_count(record: str, line: KernelLine | None) -> None:
    assert parse_record(record) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[ 11373.681021] box kernel: Memory cgroup", KernelLine(11373.681021, "Memory cgroup")),
        ("[    0.000000] box kernel: Linux version", KernelLine(0.0, "Linux version")),
        ("[    5.000000] box systemd[1]: Out of memory: Killed process 1 (x)", None),
        ("-- No entries --", None),
        ("", None),
    ],
)
def test_a_line_of_the_journal_is_taken_apart(text: str, line: KernelLine | None) -> None:
    assert parse_journal(text) == line


@given(st.one_of(st.text(), st.binary().map(lambda raw: "6,1,2,-;" + raw.decode("latin-1"))))
def test_no_line_breaks_it(text: str) -> None:
    for line in (parse_record(text), parse_journal(text)):
        assert line is None or (line.text.isprintable() and len(line.text) <= MAX_LINE)
    event_of(text)


@pytest.mark.parametrize("text", ["(" * 100_000, "oom-kill:constraint=A," + "," * 100_000, "xe " + "in [" * 50_000])
def test_a_huge_line_takes_no_time(text: str) -> None:
    assert events([KernelLine(0.0, text)] * 20) == ()


def judged(
    lines: list[KernelLine] | None,
    code: int | None = -9,
    log: list[str] | None = None,
    *,
    cards: tuple[str, ...] = (B70,),
    pids: frozenset[int] = frozenset({4711, 4712}),
    unread: str = "",
    phase: Phase = Phase.SERVING,
) -> Diagnosis:
    return diagnose(
        Evidence(
            exit_code=code,
            phase=phase,
            log=log or [],
            kernel=lines,
            kernel_unread=unread,
            kernel_recent=END - 120,
            pids=pids,
            cgroup="arcops-main-L1.scope",
            cards=cards,
        )
    )


def at(text: str, seconds_before: float = 1.0) -> KernelLine:
    return KernelLine(END - seconds_before, text)


@pytest.mark.parametrize("code", [-9, 0, 1, None])
@pytest.mark.parametrize("log", ["startup_dense1", "death_killengine_streaming"])
def test_a_process_that_the_kernel_killed_for_memory_is_the_cause_whoever_of_the_launch_it_was(
    code: int | None, log: str
) -> None:
    got = judged([at(VICTIM), at(OOM)], code, log_of(log))
    assert (got.cause, got.deterministic, got.evidence) == (Cause.OOM_KILLER, False, OOM)
    assert got.summary == "the kernel killed process 4711 of the backend for want of memory"
    assert "more memory" in got.hint


def test_a_kill_in_the_launchs_own_cgroup_counts_even_where_pids_mean_others() -> None:
    assert judged([at(VICTIM), at(OOM)], pids=frozenset()).cause is Cause.OOM_KILLER
    assert judged([at(VICTIM), at(OOM)], pids=frozenset()).evidence == OOM


def test_a_kill_of_somebody_else_or_long_ago_is_not_the_cause() -> None:
    for lines in ([at(OOM.replace("4711", "99"))], [at(OOM, 3600)], []):
        got = judged(lines)
        assert (got.cause, got.summary) == (Cause.KILLED_BY_SIGNAL, "killed by SIGKILL, which nobody here sent")
        assert "names none of its processes" in got.hint


def test_sigkill_stays_a_guess_where_the_kernels_log_was_not_read_and_says_why() -> None:
    got = judged(None, unread="the kernel's log cannot be read: Operation not permitted")
    assert (got.cause, got.deterministic) == (Cause.OOM_KILLER, False)
    assert "journalctl -k" in got.hint
    assert "Operation not permitted" in got.hint
    assert judged([], pids=frozenset()).cause is Cause.OOM_KILLER


@pytest.mark.parametrize("name", ["xe_wedged_llama_server", "xe_wedged_runtime_survivability"])
def test_a_wedged_card_of_the_launch_is_the_cause_and_is_not_tried_again(name: str) -> None:
    card = WEDGED if "llama" in name else B70
    log = [engine("RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)")]
    got = judged(sample(name), 0, log, cards=(card,))
    assert (got.cause, got.deterministic) == (Cause.GPU_WEDGED, True)
    assert got.summary == f"card {card} is wedged: the driver has given the card up"
    assert f"echo {card} > /sys/bus/pci/drivers/xe/unbind" in got.hint
    assert "reboot" in got.hint
    assert got.evidence in [line.text for line in sample(name)]
    assert judged(sample(name), 0, log, cards=("0000:99:00.0",)).cause is Cause.DEVICE_LOST, "another card's trouble"


def test_a_card_off_the_bus_is_wedged_and_nvidia_has_another_remedy() -> None:
    got = judged([at("NVRM: GPU 0000:03:00.0: GPU has fallen off the bus.")], 0)
    assert (got.cause, got.deterministic) == (Cause.GPU_WEDGED, True)
    assert "nvidia-smi --gpu-reset" in got.hint


def test_a_lost_device_has_the_kernels_line_as_its_evidence() -> None:
    log = [engine("RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)")]
    lines = sample("xe_b70_engine_reset")
    got = judged(lines, 0, log, cards=(OTHER,))
    assert (got.cause, got.deterministic, got.evidence) == (Cause.DEVICE_LOST, False, lines[0].text)
    assert "UR_RESULT_ERROR_DEVICE_LOST" in got.summary
    assert "reset the card" in got.summary
    assert "max_num_batched_tokens" in got.hint
    assert judged(lines, 0, log).evidence == log[0].partition("] ")[2], "another card's reset proves nothing"


def test_a_silent_death_beside_a_reset_of_its_card_is_a_lost_device() -> None:
    lines = sample("xe_b70_engine_reset")
    got = judged(lines, -6, log_of("startup_dense1"), cards=(OTHER,))
    assert (got.cause, got.deterministic) == (Cause.DEVICE_LOST, False)
    old = [KernelLine(line.at - 3600, line.text) for line in lines]
    assert judged(old, -6, log_of("startup_dense1"), cards=(OTHER,)).cause is Cause.KILLED_BY_SIGNAL


def test_what_vllm_says_itself_stands_beside_a_reset_that_it_survived() -> None:
    log = log_of("bad_badflag")
    got = judged(sample("xe_b70_engine_reset"), 2, log, cards=(OTHER,), phase=Phase.STARTING)
    assert got.cause is Cause.UNKNOWN_FLAG


def befell(kind: Kind, *, source: Source = Source.UEVENT, ago: float = 1.0) -> Incident:
    return Incident(END - ago, B70, kind, f"{source.value}: {kind.label}", source, "xe", reset=kind is Kind.RESET)


def judged_with(*incidents: Incident, lines: list[KernelLine] | None = None, log: list[str] | None = None) -> Diagnosis:
    lost = [engine("RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)")]
    evidence = Evidence(
        exit_code=0,
        phase=Phase.SERVING,
        log=lost if log is None else log,
        kernel=lines,
        kernel_recent=END - 120,
        cards=(B70,),
        incidents=incidents,
    )
    return diagnose(evidence)


def test_where_nobody_may_read_the_log_what_was_noticed_otherwise_is_the_word() -> None:
    got = judged_with(befell(Kind.WEDGED))
    assert (got.cause, got.deterministic, got.evidence) == (Cause.GPU_WEDGED, True, "uevent: wedged")
    assert f"echo {B70} > /sys/bus/pci/drivers/xe/unbind" in got.hint


def test_a_wedge_of_which_nobody_named_the_driver_has_a_remedy_all_the_same() -> None:
    hint = judged_with(replace(befell(Kind.WEDGED), driver="")).hint
    assert f"`echo {B70} > /sys/bus/pci/devices/{B70}/driver/unbind`" in hint
    assert f"`echo {B70} > /sys/bus/pci/drivers_probe`" in hint


def test_a_line_that_was_followed_and_is_read_again_is_one_word() -> None:
    line = at(f"xe {B70}: [drm] GT0: Engine reset: engine_class=ccs")
    noticed = befell(Kind.WEDGED, source=Source.KERNEL_LOG)
    assert judged_with(noticed, lines=[line]).cause is Cause.DEVICE_LOST, "the log itself says no such thing"
    assert judged_with(noticed).cause is Cause.GPU_WEDGED


def test_a_card_that_was_brought_back_is_not_wedged_and_that_alone_explains_nothing() -> None:
    got = judged_with(befell(Kind.WEDGED, ago=9.0), befell(Kind.RECOVERY))
    assert (got.cause, got.card_fault) == (Cause.DEVICE_LOST, True)
    alone = judged_with(befell(Kind.RECOVERY))
    assert (alone.cause, alone.card_fault) == (Cause.DEVICE_LOST, False)
    assert "UR_RESULT_ERROR_DEVICE_LOST" in alone.evidence
    assert judged_with(befell(Kind.RECOVERY), log=[]).cause is Cause.ENGINE_DIED


@pytest.mark.parametrize(
    ("kind", "is_the_cards"),
    [
        (Kind.RESET, True),
        (Kind.JOB_TIMEOUT, True),
        (Kind.MEMORY_ERROR, True),
        (Kind.PAGE_FAULT, False),
        (Kind.COREDUMP, False),
    ],
)
def test_whether_a_lost_device_is_the_cards_failure(kind: Kind, is_the_cards: bool) -> None:
    got = judged_with(befell(kind))
    assert (got.cause, got.card_fault) == (Cause.DEVICE_LOST, is_the_cards)
    assert kind.words in got.summary, "the reason says both"
    assert "UR_RESULT_ERROR_DEVICE_LOST" in got.summary
