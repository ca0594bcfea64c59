"""Profiles as a machine may have them, and what a daemon may know of them; times are those of the scenes."""

import msgspec

from arcops import wire
from arcops.tui.profiles import Planned, ProfileChoice
from tests.tui import scenes

ARGV = (
    *("/opt/vllm/bin/vllm", "serve", "/models/qwen", "--host", "127.0.0.1", "--port", "8000"),
    *("--served-model-name", "demo", "--max-model-len", "262144"),
    "--speculative-config",
    '{"method":"dflash","model":"/models/draft","num_speculative_tokens":3}',
)
ENVIRONMENT = (("HF_TOKEN", "(hidden)"), ("OMP_NUM_THREADS", "8"))
LOCKS = ("/sys/bus/pci/devices/0000:03:00.0",)

CHOICES = (
    ProfileChoice("broken", "", "profiles/broken.yaml:3: model.pth: unknown key; did you mean model.path?"),
    ProfileChoice("dflash2", "The 35B with a DFlash2 draft.", planned=Planned(ARGV, ENVIRONMENT, None, LOCKS)),
    ProfileChoice(
        "target-only",
        "The 35B alone. [b]No markup[/b].",
        planned=Planned(
            (*ARGV[:9], "--max-model-len", "8064", "--enforce-eager"),
            (("HF_TOKEN", "(hidden)"), ("OMP_NUM_THREADS", "16"), ("ZE_AFFINITY_MASK", "0")),
            "/opt/intel/oneapi/setvars.sh",
            LOCKS,
        ),
    ),
    ProfileChoice(
        "qwen35-9b-w4a16-users-mtp3-tp2",
        "The 9B on two cards.",
        "qwen35-9b-w4a16-users-mtp3-tp2.yaml:5: device.cards: 2 needed, site.yaml names 1",
        lacking=True,
    ),
)

RUNNING = wire.LaunchInfo(
    launch_id=scenes.LAUNCH, profile="dflash2", argv=ARGV, environment=ENVIRONMENT, setup=None, locks=LOCKS
)
READY = wire.LastResult(at=scenes.NOW - 7_980, ready=True, seconds=30.2, cause=None, summary="serving demo")
FAILED = wire.LastResult(
    at=scenes.NOW - 90_000,
    ready=False,
    seconds=None,
    cause="kv_cache_too_small",
    summary="the KV cache is too small for a context of 262,144 tokens",
)
TOLD = wire.Profiles(
    past=(
        wire.ProfilePast(name="dflash2", usual=31.0, last=READY),
        wire.ProfilePast(name="target-only", usual=None, last=FAILED),
    ),
    running=RUNNING,
)

MIB = 2**20
FITS = wire.PlanInfo(
    profile="dflash2",
    cards=("0000:03:00.0",),
    place="Intel Arc Pro B70 0000:03:00.0",
    room=wire.PlanRoom(total=32_656 * MIB, foreign=212 * MIB, absent=""),
    fit="fits",
    reason="it needs 29,050 MiB, and the card has 32,656 MiB, of which others hold 212 MiB",
    advice=(),
    remarks=(),
    items=(
        wire.PlanItem(name="target's weights", bytes=19_946 * MIB, basis="exact", use="weights", words="by the files"),
        wire.PlanItem(name="draft's weights", bytes=736 * MIB, basis="exact", use="weights", words="by the files"),
        wire.PlanItem(name="activations", bytes=712 * MIB, basis="estimated", use="rest", words="for 8,192 tokens"),
        wire.PlanItem(name="runtime's context", bytes=1_000 * MIB, basis="estimated", use="rest", words="the driver's"),
        wire.PlanItem(name="KV cache", bytes=6_656 * MIB, basis="exact", use="cache", words="fixed"),
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
    ceilings=(wire.PlanCeiling(depth=262_144, tokens_per_second=66.0, speculative=149.0),),
    accepted=2.94,
    decode=wire.PlanDecode(tokens_per_second=108.0, tokens_per_step=2.94, source="history"),
)
"""What the plan of `dflash2` is."""
TOO_MUCH = msgspec.structs.replace(
    FITS,
    profile="target-only",
    room=wire.PlanRoom(total=32_656 * MIB, foreign=6_000 * MIB, absent=""),
    fit="does not fit",
    reason="it needs 27,338 MiB at least, and the card has 32,656 MiB, of which others hold 6,000 MiB",
    advice=("end what else holds memory of the card (6,000 MiB; `arcops gpu` names it)",),
    remarks=("how fast the card reads its memory is not known here, and so no ceiling of decoding",),
    ceilings=(),
    decode=None,
)
"""And that of `target-only`, beside a stranger."""
PLANS = {"dflash2": FITS, "target-only": TOO_MUCH}
