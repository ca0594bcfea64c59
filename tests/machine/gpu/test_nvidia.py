"""Who holds an NVIDIA card, by a library that says what it is told, and processes in a planted /proc."""

import errno
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from arcops.core.cards.attribution import unattributed
from arcops.core.cards.holders import Census
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine import proc
from arcops.machine.gpu import CardIdentity, ask_nvidia, nvml, question, reader_for
from arcops.machine.gpu.base import Roots
from arcops.machine.gpu.nvidia import NvidiaReader
from arcops.machine.gpu.nvml import NvmlError

ADDRESS = "0000:06:00.0"
H200 = CardIdentity(ADDRESS, 0x10DE, 0x2335, "nvidia", None, None)
GIB = 1024**3


class Refusal(Exception):  # noqa: N818 - it stands for NVML's own
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


@dataclass
class Process:
    pid: int
    usedGpuMemory: int | None  # noqa: N815 - NVML's name


@dataclass
class MemoryInfo:
    total: int = 139 * GIB
    reserved: int = 644_939_776
    free: int = 0
    used: int = 0


@dataclass
class Value:
    uiVal: int = 0  # noqa: N815 - NVML's name


@dataclass
class Answer:
    nvmlReturn: int = 0  # noqa: N815 - NVML's name
    value: Value = field(default_factory=Value)


@dataclass
class Library:
    """NVML as it is told to be; counts how often it was opened and closed."""

    compute: Sequence[Process] = ()
    graphics: Sequence[Process] = ()
    memory: MemoryInfo = field(default_factory=MemoryInfo)
    recovery: Answer = field(default_factory=Answer)
    refuses: dict[str, int] = field(default_factory=dict[str, int])
    """NVML_ERROR_* by function."""
    visits: int = 0
    open: int = 0
    NVMLError: type[Exception] = Refusal
    nvmlMemory_v2: int = 0x02000028  # noqa: N815 - NVML's name

    def _may(self, function: str) -> None:
        if function in self.refuses:
            raise Refusal(self.refuses[function])

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name, and those below
        self._may("init")
        self.visits, self.open = self.visits + 1, self.open + 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByPciBusId(self, address: bytes) -> object:  # noqa: N802
        self._may("handle")
        return address

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> Sequence[Process]:  # noqa: N802
        self._may("compute")
        return self.compute

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: object) -> Sequence[Process]:  # noqa: N802
        return self.graphics

    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: object) -> Sequence[Process]:  # noqa: N802
        raise Refusal(nvml.NOT_SUPPORTED)

    def nvmlDeviceGetMemoryInfo(self, handle: object, version: int) -> MemoryInfo:  # noqa: N802
        self._may("memory")
        assert version == self.nvmlMemory_v2, "the first version counts the driver's reserve as used"
        return self.memory

    def nvmlDeviceGetMinorNumber(self, handle: object) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetFieldValues(self, handle: object, fields: Sequence[int]) -> Sequence[Answer]:  # noqa: N802
        self._may("fields")
        assert list(fields) == [nvml.RECOVERY_ACTION]
        return [self.recovery]


class Processes:
    """A /proc with the processes that it is told of."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, pid: int, *, state: str = "S", node: bool = False, maps: bool = False) -> None:
        folder = self.root / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} (x) {state} 1 {pid} {pid} 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 100 0 0\n")
        if node:
            (folder / "fd" / "3").symlink_to("/dev/nvidia0")
        mapped = "7f00-7f01 rw-s 00000000 00:06 10    /dev/nvidia0\n" if maps else ""
        (folder / "maps").write_text(
            f"5500-5600 r-xp 00000000 08:01 7  /usr/bin/python3.11\n7000-7001 rw-p 0 00:00 0\n{mapped}"
        )


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def taken(
    library: Library,
    processes: Processes,
    *,
    ours: Collection[int] = (),
    among: Collection[int] | None = None,
) -> Census:
    def never(card: CardIdentity) -> Reading[int]:
        raise AssertionError(f"what is in use of {card.address} is asked in the same visit")

    (found,) = NvidiaReader(library).census(
        [H200], 1.0, lambda: frozenset(ours), never, among, Roots(proc=str(processes.root))
    )
    assert (found.address, found.at, found.idle) == (ADDRESS, 1.0, ())
    return found


def held(library: Library, processes: Processes) -> tuple[dict[tuple[int, ...], int | None], int]:
    found = taken(library, processes)
    return {tuple(user.pid for user in one.users): one.resident for one in found.holdings}, found.unreadable


def test_the_real_library_has_every_name_that_is_used_of_it() -> None:
    real = nvml.load()
    for name in (name for name in dir(Library) if name.startswith(("nvml", "NVML"))):
        assert hasattr(real, name), name
    assert real.nvmlMemory_v2 == Library.nvmlMemory_v2
    codes = {
        "NOT_SUPPORTED": nvml.NOT_SUPPORTED,
        "NO_PERMISSION": nvml.NO_PERMISSION,
        "NOT_FOUND": nvml.NOT_FOUND,
        "DRIVER_NOT_LOADED": nvml.DRIVER_NOT_LOADED,
        "LIBRARY_NOT_FOUND": nvml.LIBRARY_NOT_FOUND,
        "GPU_IS_LOST": nvml.GPU_IS_LOST,
        "RESET_REQUIRED": nvml.RESET_REQUIRED,
    }
    for name, code in codes.items():
        assert getattr(real, f"NVML_ERROR_{name}") == code
    assert getattr(real, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", nvml.RECOVERY_ACTION) == nvml.RECOVERY_ACTION


def test_nvidia_has_a_reader() -> None:
    assert isinstance(reader_for("nvidia"), NvidiaReader)


def test_a_process_in_two_lists_counts_once_with_the_larger_size(processes: Processes) -> None:
    processes.add(7)
    library = Library(compute=[Process(7, 2 * GIB)], graphics=[Process(7, 3 * GIB)])
    assert held(library, processes) == ({(7,): 3 * GIB}, 0)
    assert (library.visits, library.open) == (1, 0)


def test_a_size_that_the_driver_does_not_say_is_unknown_and_held_all_the_same(processes: Processes) -> None:
    processes.add(7)
    found = taken(Library(compute=[Process(7, None)], memory=MemoryInfo(used=GIB)), processes)
    assert [(one.client, one.resident, one.holds) for one in found.holdings] == [(7, None, True)]
    rest = unattributed(found)
    assert isinstance(rest, Unknown)
    assert "does not say how much pid 7" in rest.reason


def test_an_idle_card_is_free_and_its_reserve_is_not_in_use(processes: Processes) -> None:
    assert held(Library(), processes) == ({}, 0)


def test_memory_that_nobody_is_named_for_is_not_free(processes: Processes) -> None:
    """As in a container, where the driver's pids are not ours."""
    found = taken(Library(memory=MemoryInfo(used=9 * GIB)), processes)
    assert (found.holdings, found.unreadable) == ((), 1)
    assert unattributed(found) == Known(9 * GIB, 1.0)
    assert any("NVML names nobody" in note for note in found.notes)


def test_what_nobody_is_named_for_is_what_is_in_use_beyond_the_holders(processes: Processes) -> None:
    processes.add(7)
    found = taken(Library(compute=[Process(7, 2 * GIB)], memory=MemoryInfo(used=3 * GIB)), processes)
    assert (found.used, unattributed(found)) == (Known(3 * GIB, 1.0), Known(GIB, 1.0))
    assert found.notes == ()


def test_holders_that_have_more_than_is_in_use_are_a_contradiction_that_is_said(processes: Processes) -> None:
    processes.add(7)
    found = taken(Library(compute=[Process(7, 3 * GIB)], memory=MemoryInfo(used=GIB)), processes)
    assert unattributed(found) == Known(0, 1.0)
    assert [note for note in found.notes if "contradicts itself" in note]


def test_a_holder_is_ours_by_its_own_pid_or_by_who_inherited_its_memory(processes: Processes) -> None:
    processes.add(8, node=True, maps=True)
    processes.add(11)
    library = Library(compute=[Process(7, 2 * GIB), Process(11, GIB)])
    assert [one.ours for one in taken(library, processes).holdings] == [False, False]
    found = taken(library, processes, ours=(8,))
    assert [(one.client, one.ours) for one in found.holdings] == [(7, True), (11, False)]
    assert [note for note in found.notes if "pid 7" in note and "pid 8 has the card open from it" in note]


def test_what_this_very_process_holds_is_ours(processes: Processes) -> None:
    processes.add(os.getpid())
    assert [one.ours for one in taken(Library(compute=[Process(os.getpid(), GIB)]), processes).holdings] == [True]


def test_where_only_some_are_looked_at_the_others_are_left_out(processes: Processes) -> None:
    processes.add(7)
    processes.add(8)
    library = Library(compute=[Process(7, GIB), Process(8, GIB)], memory=MemoryInfo(used=2 * GIB))
    found = taken(library, processes, among=[8])
    assert ([one.client for one in found.holdings], found.everybody) == ([8], False)
    assert isinstance(unattributed(found), Unknown), "the rest is not nobody's: nobody has looked"


@pytest.mark.parametrize("state", ["gone", "Z"])
def test_a_holder_that_has_ended_is_traced_to_who_still_maps_the_card(processes: Processes, state: str) -> None:
    if state == "Z":
        processes.add(7, state="Z")
    processes.add(8, node=True, maps=True)
    processes.add(9, node=True)
    processes.add(10)
    processes.add(11, node=True, maps=True)
    library = Library(compute=[Process(7, 2 * GIB), Process(11, GIB)])
    assert held(library, processes) == ({(8,): 2 * GIB, (11,): GIB}, 0)


def test_where_nobody_maps_the_card_those_who_have_it_open_are_named(processes: Processes) -> None:
    processes.add(9, node=True)
    assert held(Library(compute=[Process(7, GIB)]), processes) == ({(9,): GIB}, 0)


def test_who_only_has_the_card_open_is_not_named_where_somebody_else_may_not_be_looked_into(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.add(9, node=True)
    processes.add(10)
    descriptors = proc.descriptors

    def refused(pid: int, root: str) -> tuple[tuple[str, str], ...]:
        if pid == 10:
            raise PermissionError(errno.EACCES, "not for this user")
        return descriptors(pid, root)

    monkeypatch.setattr(proc, "descriptors", refused)
    assert held(Library(compute=[Process(7, GIB)]), processes) == ({(7,): GIB}, 0)
    processes.add(11, node=True, maps=True)
    assert held(Library(compute=[Process(7, GIB)]), processes) == ({(11,): GIB}, 0)


def test_a_holder_that_nobody_can_be_named_for_is_the_drivers_pid(processes: Processes) -> None:
    processes.add(10)
    assert held(Library(compute=[Process(7, GIB)]), processes) == ({(7,): GIB}, 0)


@pytest.mark.parametrize("function", ["init", "handle", "compute", "memory"])
def test_what_nvml_refuses_is_unknown_and_nothing_stays_open(processes: Processes, function: str) -> None:
    library = Library(refuses={function: 999})
    with pytest.raises(OSError, match="error 999"):
        held(library, processes)
    assert library.open == 0


@pytest.mark.parametrize(
    ("library", "said", "words"),
    [
        (Library(), "", ""),
        (Library(refuses={"fields": nvml.NOT_SUPPORTED}), "", ""),
        (Library(recovery=Answer(nvmlReturn=nvml.NOT_SUPPORTED, value=Value(1))), "", ""),
        (Library(recovery=Answer(value=Value(1))), "recovery 1", "needs to be recovered: `nvidia-smi --gpu-reset`"),
        (Library(recovery=Answer(value=Value(2))), "recovery 2", "reboot the machine"),
        (Library(recovery=Answer(value=Value(9))), "recovery 9", "recovery action 9"),
        (Library(refuses={"handle": nvml.GPU_IS_LOST}), "nvml 15", "has fallen off the bus"),
        (Library(refuses={"memory": nvml.RESET_REQUIRED}), "nvml 16", "is wedged (NVML: reset required)"),
        (Library(refuses={"init": nvml.DRIVER_NOT_LOADED}), "nvml 9", "NVIDIA's driver or its library"),
        (Library(refuses={"init": nvml.LIBRARY_NOT_FOUND}), "nvml 12", "NVIDIA's driver or its library"),
        (Library(refuses={"init": nvml.NO_PERMISSION}), "nvml 4", "this user may not ask it"),
        (Library(refuses={"handle": nvml.NOT_FOUND}), "nvml 6", "is not one of NVML's"),
        (Library(refuses={"memory": 999}), "nvml 999", "does not answer: NVML error 999"),
    ],
)
def test_every_answer_of_a_card_has_its_words(library: Library, said: str, words: str) -> None:
    assert ask_nvidia.ask(ADDRESS, library) == said
    if said:
        fault = question.NvmlQuestion().fault(H200, said)
        assert fault is not None
        assert words in fault.words


@pytest.mark.parametrize(
    ("said", "wedged"),
    [
        *((f"recovery {action}", action != 3) for action in (1, 2, 3, 4, 9)),
        *((f"nvml {code}", code in (15, 16)) for code in (4, 6, 9, 12, 15, 16, 999)),
        ("missing 0", False),
    ],
)
def test_a_card_is_wedged_where_no_end_of_a_holder_brings_it_back(said: str, wedged: bool) -> None:
    fault = question.NvmlQuestion().fault(H200, said)
    assert fault is not None
    assert fault.wedged is wedged


def test_a_missing_library_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(nvml.importlib, "import_module", nothing)
    assert ask_nvidia.ask(ADDRESS) == "missing 0"
    fault = question.NvmlQuestion().fault(H200, "missing 0")
    assert fault is not None
    assert "pip install 'arcops[nvidia]'" in fault.words
    with pytest.raises(NvmlError, match="not installed"):
        NvidiaReader().census([H200], 1.0, frozenset[int], lambda _: Unknown("not asked", 1.0))


@pytest.mark.parametrize("said", ["", "nvml", "nvml x", "Traceback", "open 3"])
def test_what_is_not_understood_is_no_word(said: str) -> None:
    assert question.NvmlQuestion().fault(H200, said) is None


def test_an_nvidia_card_is_asked_by_its_address_and_needs_no_render_node() -> None:
    asked = question.question_for("nvidia")
    assert asked.standing(H200) is None
    assert asked.command(H200)[-1] == ADDRESS
