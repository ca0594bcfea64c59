from pathlib import Path

import pytest

from arcops.core.cards.holders import Census
from arcops.core.quantity import Unknown
from arcops.machine.gpu import CardIdentity
from arcops.machine.gpu.drm import DrmCensus, parse, sightings
from arcops.machine.gpu.scan import Found, Scan
from tests.machine.processes import as_nobody
from tests.trees.procfs import Client

FDINFO = Path(__file__).parents[2] / "data" / "fdinfo"
B70 = "0000:03:00.0"
SECOND = "0000:08:00.0"
MIB = 1024**2


def sample(name: str) -> str:
    return (FDINFO / name).read_text()


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
    assert found.resident == (("vram0", None),)
    assert found.resident_bytes is None, "which is not zero"


def test_older_amdgpu_says_only_what_is_resident() -> None:
    found = parse(f"drm-pdev:\t{B70}\ndrm-client-id:\t7\ndrm-memory-vram:\t5348 KiB\ndrm-memory-gtt: \t9 KiB\n")
    assert found is not None
    assert found.resident_bytes == found.total_bytes == 5348 * 1024


def test_the_names_of_keys_may_be_followed_by_blanks_or_tabs_in_any_order() -> None:
    found = parse(f"drm-resident-vram0 : \t 2  MiB \ndrm-client-id:7\ndrm-pdev :{B70}\ndrm-total-vram0:\t3\tMiB\n")
    assert found is not None
    assert (found.client_id, found.resident_bytes, found.total_bytes) == (7, 2 * MIB, 3 * MIB)


def test_a_driver_that_says_no_sizes_leaves_them_unknown() -> None:
    found = parse(f"drm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t{B70}\n")
    assert found is not None
    assert (found.resident_bytes, found.total_bytes, found.shared_bytes) == (None, None, 0)


def test_what_has_nothing_allocated_has_nothing_there() -> None:
    found = parse(f"drm-client-id:\t7\ndrm-pdev:\t{B70}\ndrm-total-vram0:\t0\n")
    assert found is not None
    assert found.resident_bytes == 0


def test_stolen_memory_of_a_card_of_its_own_is_on_the_card() -> None:
    found = parse(
        f"drm-client-id:\t7\ndrm-pdev:\t{B70}\ndrm-resident-local0:\t5 MiB\ndrm-resident-stolen-local0:\t1 MiB\n"
        "drm-resident-system0:\t9 MiB\ndrm-resident-stolen-system0:\t9 MiB\n"
    )
    assert found is not None
    assert found.resident_bytes == 6 * MIB


def test_the_text_of_a_tree_of_ours_reads_as_the_constructed_sample_does() -> None:
    client = Client(41, resident=30171)
    ours, theirs = parse(client.fdinfo), parse(sample("CONSTRUCTED_xe_b70_worker_t0.txt"))
    assert ours is not None
    assert theirs is not None
    assert (ours.pdev, ours.client_id, ours.resident_bytes, ours.total_bytes, ours.shared_bytes) == (
        theirs.pdev,
        theirs.client_id,
        theirs.resident_bytes,
        theirs.total_bytes,
        theirs.shared_bytes,
    )


@pytest.mark.processes
def test_a_user_who_may_not_look_counts_more_processes_as_unreadable_than_root() -> None:
    nowhere = CardIdentity("0000:ff:1f.7", 0x8086, 0xE223, "xe", None, None)

    def look() -> Census:
        (found,) = DrmCensus().census([nowhere], 1.0, frozenset[int], lambda _: Unknown("not asked", 1.0))
        return found

    found = look()
    assert found.holdings == found.idle == ()
    assert int(as_nobody(lambda: str(look().unreadable))) > found.unreadable


@pytest.mark.parametrize("name", ["CONSTRUCTED_xe_b70_worker_t0.txt", "amdgpu_dgpu_fixture.txt"])
def test_wherever_an_fdinfo_is_cut_off_its_holder_is_never_taken_for_idle(name: str) -> None:
    text = sample(name)
    whole = parse(text)
    assert whole is not None
    for end in range(len(text)):
        scanned = Scan((Found(100, "5", text[:end]),), 0)
        for one in sightings(scanned, {whole.pdev}).get(whole.pdev, ()):
            assert one.resident in (None, whole.resident_bytes), repr(text[:end][-60:])


def test_a_part_of_a_processor_holds_what_it_uses_of_the_hosts() -> None:
    info = "drm-client-id:\t7\ndrm-pdev:\t0000:00:02.0\ndrm-total-system0:\t9 MiB\ndrm-resident-system0:\t8 MiB\n"
    (one,) = sightings(Scan((Found(100, "5", info),), 0), {B70})["0000:00:02.0"]
    assert (one.resident, one.total) == (8 * MIB, 9 * MIB)
