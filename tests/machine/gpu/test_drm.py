from pathlib import Path

import pytest

from arcops.machine.gpu import Client, DrmReader
from arcops.machine.gpu.drm import holders, parse
from tests.machine.processes import as_nobody

FDINFO = Path(__file__).parents[2] / "data" / "fdinfo"
B70 = "0000:03:00.0"
SECOND = "0000:08:00.0"
MIB = 1024**2


def sample(name: str) -> str:
    return (FDINFO / name).read_text()


def open_node(root: Path, pid: int, number: int, text: str, target: str = "/dev/dri/renderD128") -> None:
    """Give a process of a recorded tree one descriptor."""
    for name in ("fd", "fdinfo"):
        (root / str(pid) / name).mkdir(parents=True, exist_ok=True)
    (root / str(pid) / "fd" / str(number)).symlink_to(target)
    (root / str(pid) / "fdinfo" / str(number)).write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "1" / "fd").mkdir(parents=True)
    (tmp_path / "self").symlink_to("1")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "driver", "pdev", "client", "resident"),
    [
        ("CONSTRUCTED_xe_b70_worker_t0.txt", "xe", B70, 41, 30171 * MIB),
        ("CONSTRUCTED_xe_b70_idle_open.txt", "xe", SECOND, 42, 0),
        ("xe_kernel_doc.txt", "xe", B70, 3, 23992 * 1024),
        ("xe_two_vram_pvc.txt", "xe", "0000:4d:00.0", 173, (65072580 + 63753540) * 1024),
        ("amdgpu_dgpu_fixture.txt", "amdgpu", "0000:11:00.0", 185, 60060 * 1024),
        ("i915_igpu_manpage.txt", "i915", "0000:00:02.0", 39, 6044 * 1024),
    ],
)
def test_every_sample_is_read(name: str, driver: str, pdev: str, client: int, resident: int) -> None:
    found = parse(sample(name))
    assert found is not None
    assert (found.driver, found.pdev, found.client_id) == (driver, pdev, client)
    assert found.resident_bytes == resident
    assert found.total_bytes == resident


def test_what_names_no_client_of_a_card_is_nothing() -> None:
    assert parse(sample("amdgpu_apu_llm_partial.txt")) is None
    assert parse("") is None
    assert parse("pos:\t0\nflags:\t02\n") is None
    assert parse(f"drm-pdev: {B70}\ndrm-client-id: x\n") is None


def test_every_suffix_is_honoured_and_nonsense_is_not_memory() -> None:
    text = (
        f"drm-pdev:{B70}\ndrm-client-id:  7\ndrm-total-vram0:\t4097\ndrm-total-vram1: 3 KiB\ndrm-resident-vram0: many\n"
    )
    found = parse(text)
    assert found is not None
    assert found.total == (("vram0", 4097), ("vram1", 3 * 1024))
    assert found.resident == ()


def test_older_amdgpu_says_only_what_is_resident() -> None:
    found = parse(f"drm-pdev:\t{B70}\ndrm-client-id:\t7\ndrm-memory-vram:\t5348 KiB\ndrm-memory-gtt: \t9 KiB\n")
    assert found is not None
    assert found.resident_bytes == found.total_bytes == 5348 * 1024


def test_a_clients_memory_counts_once_for_all_its_descriptors_and_processes(tree: Path) -> None:
    worker = sample("CONSTRUCTED_xe_b70_worker_t0.txt")
    open_node(tree, 100, 5, worker)
    open_node(tree, 100, 6, worker)
    open_node(tree, 200, 5, sample("CONSTRUCTED_xe_b70_worker_t1.txt"))
    assert holders([B70], str(tree)) == ((Client(B70, 41, (100, 200), 30171 * MIB, 30171 * MIB),), 0)


def test_the_same_client_id_on_two_cards_is_two_clients(tree: Path) -> None:
    worker = sample("CONSTRUCTED_xe_b70_worker_t0.txt")
    open_node(tree, 100, 5, worker)
    open_node(tree, 300, 5, worker.replace(B70, SECOND))
    found, _ = holders([B70, SECOND], str(tree))
    assert [(client.pdev, client.pids) for client in found] == [(B70, (100,)), (SECOND, (300,))]
    assert [client.pdev for client in holders([SECOND], str(tree))[0]] == [SECOND]


def test_an_open_card_without_memory_is_not_held(tree: Path) -> None:
    open_node(tree, 100, 7, sample("CONSTRUCTED_xe_b70_idle_open.txt"))
    assert holders([SECOND], str(tree)) == ((), 0)


def test_evicted_memory_is_held_all_the_same(tree: Path) -> None:
    evicted = sample("CONSTRUCTED_xe_b70_worker_t0.txt").replace(
        "drm-resident-vram0:\t30171 MiB", "drm-resident-vram0:\t0"
    )
    open_node(tree, 100, 5, evicted)
    assert holders([B70], str(tree))[0] == (Client(B70, 41, (100,), 0, 30171 * MIB),)


def test_descriptors_of_other_devices_are_not_looked_at(tree: Path) -> None:
    open_node(tree, 100, 5, sample("CONSTRUCTED_xe_b70_worker_t0.txt"), target="/dev/null")
    assert holders([B70], str(tree)) == ((), 0)


def test_processes_that_vanish_while_they_are_read_are_left_out(tree: Path) -> None:
    (tree / "100").mkdir()
    (tree / "200" / "fd").mkdir(parents=True)
    (tree / "200" / "fd" / "5").symlink_to("/dev/dri/renderD128")
    assert holders([B70], str(tree)) == ((), 0)


def test_hidden_processes_of_others_count_as_one_unreadable(tmp_path: Path) -> None:
    open_node(tmp_path, 100, 5, sample("CONSTRUCTED_xe_b70_worker_t0.txt"))
    found, unreadable = holders([B70], str(tmp_path))
    assert len(found) == 1
    assert unreadable == 1


@pytest.mark.processes
def test_a_user_who_may_not_look_counts_more_processes_as_unreadable_than_root() -> None:
    found, unreadable = DrmReader().holders(["0000:ff:1f.7"])
    assert found == ()
    assert int(as_nobody(lambda: str(DrmReader().holders(["0000:ff:1f.7"])[1]))) > unreadable
