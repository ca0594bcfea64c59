"""Profiles as a machine may have them, and what a daemon may know of them; times are those of the scenes."""

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
