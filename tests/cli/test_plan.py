"""`arcops plan`: what it says, what it tells the shell, and what a hostile user gets."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from arcops import wire
from arcops.cli import plan as command
from arcops.cli.plan_words import lines_of
from arcops.core.budget.plan import MIB, Room
from arcops.core.errors import ExitCode
from arcops.planning.room import Place
from tests.cli.conftest import Ran
from tests.planning.reference import MODELS, write
from tests.sites import CARDS, MadeUpSite

Arcops = Callable[..., Ran]
PROFILE = """\
device: {kind: cpu}
model: {path: tiny/hybrid}
scheduling: {max_model_len: 2048}
cache: {kv_cache_memory: 1073741824}
"""
SPECULATING = PROFILE + "speculation: {method: mtp, num_tokens: 3}\n"
ON_A_CARD = PROFILE.replace("kind: cpu", "kind: xpu")


@pytest.fixture(autouse=True)
def mine(site: MadeUpSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mine` on the CPU and `carded` on a card, of a small hybrid model with a few tensors."""
    shape = json.loads((MODELS / "tiny-hybrid" / "config.json").read_text())
    (site.models / "tiny/hybrid/config.json").unlink()
    (site.models / "tiny/hybrid").rmdir()
    write(site.models / "tiny/hybrid", shape, iter([("model.layers.0.mlp.up_proj.weight", "BF16", (64, 64))]))
    site.write_profile("mine", PROFILE)
    site.write_profile("speculating", SPECULATING)
    site.write_profile("carded", ON_A_CARD)
    monkeypatch.setattr("arcops.config.locate.SYSFS", site.sysfs)


def on_a_card(monkeypatch: pytest.MonkeyPatch, total: int, foreign: int | None = 0) -> None:
    place = Place(f"Arc Pro B70 {CARDS[0]}", Room(total, foreign), 608e9, "")

    def look(*_: object) -> Place:
        return place

    monkeypatch.setattr("arcops.planning.told.place_of", look)


def test_on_the_cpu_sizes_and_cache_are_said_and_the_room_is_not_planned(arcops: Arcops) -> None:
    said = arcops("plan", "mine")
    assert said.code == 0, said.err
    assert said.out.startswith("mine on the CPU: not planned\n")
    assert "KV cache" in said.out
    assert "tokens by vLLM's count" in said.out
    assert "left" not in said.out


def test_json_is_the_whole_plan_and_nothing_else(arcops: Arcops) -> None:
    said = arcops("plan", "mine", "--json")
    assert said.code == 0
    assert said.err == ""
    found = msgspec.json.decode(said.out, type=wire.PlanInfo)
    assert (found.profile, found.fit, found.cards, found.schema) == ("mine", "unknown", (), 1)
    assert said.out == msgspec.json.encode(found).decode() + "\n"


def test_what_fits_a_card_says_so_with_what_is_left(arcops: Arcops, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_card(monkeypatch, 32_656 * MIB)
    said = arcops("plan", "carded")
    assert said.code == 0, said.err
    assert f"carded on Arc Pro B70 {CARDS[0]}: fits" in said.out
    assert "left" in said.out
    assert "decoding at most" in said.out
    assert "\x1b" not in said.out, "a pipe has no colours"


def test_what_does_not_fit_is_exit_five_with_numbers_and_advice(
    arcops: Arcops, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_card(monkeypatch, 1_500 * MIB)
    for flags in ((), ("--json",)):
        said = arcops("plan", "carded", *flags)
        assert said.code == ExitCode.BLOCKED
        assert "1,500 MiB" in said.out
        assert said.err == ""
    on_a_card(monkeypatch, 32_656 * MIB, 32_000 * MIB)
    said = arcops("plan", "carded")
    assert said.code == ExitCode.BLOCKED
    assert "others hold now" in said.out
    assert "end here ▲" in said.out
    assert "what would help" in said.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nonesuch",), ExitCode.INVALID, "nonesuch"),
        (("../mine",), ExitCode.INVALID, ""),
        ((), ExitCode.USAGE, "PROFILE"),
        (("mine", "--max-model-len", "0"), ExitCode.USAGE, "max-model-len"),
        (("mine", "--max-model-len", "-5"), ExitCode.USAGE, "max-model-len"),
        (("mine", "--max-model-len", "32k"), ExitCode.USAGE, "max-model-len"),
        (("mine", "--max-model-len", "9" * 400), ExitCode.USAGE, "max-model-len"),
        (("mine", "--kv-cache-dtype", "nonsense"), ExitCode.USAGE, "cache of type nonsense"),
        (("mine", "--kv-cache-dtype", "\x1b[31m"), ExitCode.USAGE, "KV cache"),
        (("mine", "--kv-cache-dtype", ""), ExitCode.USAGE, "KV cache"),
        (("mine", "--mamba-cache-dtype", "int2"), ExitCode.USAGE, "cache of type int2"),
        (("mine", "--num-speculative-tokens", "2"), ExitCode.USAGE, "does not speculate"),
        (("speculating", "--num-speculative-tokens", "-1"), ExitCode.USAGE, "num-speculative-tokens"),
        (("speculating", "--num-speculative-tokens", "100000"), ExitCode.USAGE, "num-speculative-tokens"),
        (("mine", "--cards", "0"), ExitCode.USAGE, "cards"),
        (("mine", "--cards", "3"), ExitCode.USAGE, "cannot be spread over 3 cards"),
        (("mine", "--accepted", "0.5"), ExitCode.USAGE, "accepted"),
        (("mine", "--accepted", "nan"), ExitCode.USAGE, "accepted"),
        (("mine", "--accepted", "inf"), ExitCode.USAGE, "accepted"),
    ],
)
def test_what_makes_no_sense_is_one_error_with_its_exit_code(
    arcops: Arcops, arguments: tuple[str, ...], code: ExitCode, said: str
) -> None:
    ran = arcops("plan", *arguments)
    assert ran.code == code, ran.err
    assert said in ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert "\x1b" not in ran.err


@pytest.mark.parametrize(
    "flags",
    [
        ("--max-model-len", "1"),
        ("--max-model-len", "4294967296"),
        ("--kv-cache-dtype", "fp8"),
        ("--mamba-cache-dtype", "float16"),
        ("--num-speculative-tokens", "0"),
        ("--num-speculative-tokens", "999"),
        ("--cards", "2"),
        ("--accepted", "1000"),
    ],
)
def test_every_question_has_an_answer_in_words_and_as_json(arcops: Arcops, flags: tuple[str, ...]) -> None:
    in_words = arcops("plan", "speculating", *flags)
    as_json = arcops("plan", "speculating", *flags, "--json")
    assert in_words.code in (0, ExitCode.BLOCKED), in_words.err
    assert as_json.code == in_words.code
    assert msgspec.json.decode(as_json.out, type=wire.PlanInfo).profile == "speculating"
    assert max(len(line) for line in in_words.out.splitlines()) <= 80


def test_a_checkpoint_without_files_or_cut_off_is_exit_six_with_a_hint(arcops: Arcops, site: MadeUpSite) -> None:
    shard = site.models / "tiny/hybrid/model.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    cut = arcops("plan", "mine")
    assert cut.code == ExitCode.INVALID
    assert "was cut off" in cut.err
    assert "hint:" in cut.err
    shard.unlink()
    gone = arcops("plan", "mine")
    assert gone.code == ExitCode.INVALID
    assert "has no safetensors files" in gone.err


def told(**changes: object) -> wire.PlanInfo:
    """The reference deployment's plan, or another with these changes."""
    made = wire.PlanInfo(
        profile="dflash2",
        cards=(CARDS[0],),
        place=f"Intel Arc Pro B70 {CARDS[0]}",
        room=wire.PlanRoom(total=32_656 * MIB, foreign=0, absent=""),
        fit="fits",
        reason="it needs 29,050 MiB, and the card has 32,656 MiB",
        advice=(),
        remarks=(),
        items=(
            wire.PlanItem(
                name="target's weights", bytes=19_946 * MIB, basis="exact", use="weights", words="by the files"
            ),
            wire.PlanItem(
                name="activations", bytes=2_448 * MIB, basis="estimated", use="rest", words="for 8,192 tokens"
            ),
            wire.PlanItem(
                name="KV cache", bytes=6_656 * MIB, basis="exact", use="cache", words="fixed by kv_cache_memory"
            ),
        ),
        total=29_050 * MIB,
        pool=6_656 * MIB,
        cache=wire.PlanCache(
            block_tokens=576,
            block_bytes=1_179_648,
            groups=46,
            blocks_a_request=5_351,
            smallest_pool=6_021 * MIB,
            context=262_144,
            tokens=289_823,
            longest_context=262_144,
            most_sequences=1,
        ),
        ceilings=(wire.PlanCeiling(depth=2_048, tokens_per_second=157.0, speculative=291.0),),
        accepted=2.94,
        decode=wire.PlanDecode(tokens_per_second=108.0, tokens_per_step=2.94, source="history"),
    )
    return msgspec.structs.replace(made, **changes)


def test_the_table_reads_well_at_eighty_columns() -> None:
    assert "\n".join(lines_of(told(), 80)) == (Path(__file__).parents[1] / "data" / "plan-80.txt").read_text().rstrip()


@pytest.mark.parametrize("width", [60, 72, 80, 110])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"total": None, "pool": None},
        {"room": wire.PlanRoom(total=None, foreign=None, absent="arcops cannot read the card")},
        {"room": wire.PlanRoom(total=20_000 * MIB, foreign=9_000 * MIB, absent=""), "fit": "does not fit"},
        {"room": wire.PlanRoom(total=32_656 * MIB, foreign=None, absent=""), "remarks": ("who holds it " * 12,)},
        {"cache": None, "ceilings": (), "decode": None},
        {"advice": ("scheduling.max_model_len: 131072 is the longest context that this cache holds " * 2,)},
    ],
)
def test_no_line_is_wider_than_the_terminal(width: int, changes: dict[str, object]) -> None:
    lines = lines_of(told(**changes), width)
    assert max(len(line) for line in lines) <= width
    assert all(line == line.rstrip() for line in lines)


def test_what_is_unknown_is_said_and_never_zero() -> None:
    text = "\n".join(
        lines_of(told(total=None, pool=None, room=wire.PlanRoom(total=5 * MIB, foreign=None, absent="")), 80)
    )
    assert "unknown, as its size is" in text
    assert [line.split() for line in text.splitlines() if "together" in line] == [["together", "unknown"]]
    assert [line.split() for line in text.splitlines() if "others hold" in line] == [
        ["×", "others", "hold", "now", "unknown"]
    ]
    assert " 0 MiB" not in text


def test_colours_are_left_out_where_nobody_wants_them(arcops: Arcops, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    on_a_card(monkeypatch, 32_656 * MIB)
    assert "\x1b[32mfits" in arcops("plan", "carded").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in arcops("plan", "carded").out


def test_a_narrow_terminal_is_taken_for_sixty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for columns, width in (("20", 60), ("80", 80), ("300", 110)):
        monkeypatch.setenv("COLUMNS", columns)
        assert command._width() == width  # pyright: ignore[reportPrivateUsage] - what a terminal cannot be had for
