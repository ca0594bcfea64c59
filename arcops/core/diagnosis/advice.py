"""What to do about each cause in general, for when the hint of the one failure is not at hand any more."""

from collections.abc import Mapping
from typing import Final

from arcops.core.world import Cause

ADVICE: Final[Mapping[Cause, str]] = {
    Cause.OUT_OF_MEMORY: "see who else holds memory of the card; else a smaller scheduling.max_model_len, "
    "scheduling.max_num_seqs or cache.gpu_memory_utilization",
    Cause.KV_CACHE_TOO_SMALL: "a smaller scheduling.max_model_len (the reason names what fits), or more memory",
    Cause.PORT_TAKEN: "`arcops status` names the listener; stop it, or set another server.port in the profile",
    Cause.MODEL_NOT_FOUND: "check model.path in the profile; nothing is downloaded while vLLM is offline",
    Cause.CORRUPT_WEIGHTS: "compare the files' sizes with their origin, and fetch the model again",
    Cause.DRAFT_INCOMPATIBLE: "another draft, or the same profile without one",
    Cause.UNKNOWN_FLAG: "correct the profile; `vllm serve --help=all` lists what this vLLM knows",
    Cause.BAD_VALUE: "correct the value in the profile",
    Cause.CONTEXT_TOO_LONG: "a smaller scheduling.max_model_len; the reason names what the model was made for",
    Cause.UNSUPPORTED: "another vLLM, or another model",
    Cause.DEVICE_LOST: "`journalctl -k` says whether the card was reset; if it happens again, reboot",
    Cause.GPU_WEDGED: "rebind the card's driver or reboot, then `arcops restart`",
    Cause.OOM_KILLER: "give the machine more memory or swap, or let the backend take less of it",
    Cause.KILLED_BY_SIGNAL: "somebody ended it, or native code crashed: `coredumpctl` may hold more",
    Cause.ENGINE_DIED: "look at the backend's log around that time; `journalctl -k` may say more",
    Cause.START_STALLED: "look at the backend's log; raise limits.start_stall where the model only takes long to load",
    Cause.WRONG_IDENTITY: "another server answers on the port, or the profile's served name is not what vLLM serves",
    Cause.WRONG_ANSWER: "look at the backend's log; does the model work without the draft?",
    Cause.WRONG_LISTENER: "another program took the port: `arcops status` names it",
    Cause.SPAWN_FAILED: "`arcops profile check` and `arcops doctor` say whether the command can be run here",
    Cause.HANG: "`arcops events` names the folder with the evidence; look there for where it hung",
    Cause.LOST: "the record of the launch was gone; nothing is to be done unless it happens again",
    Cause.UNKNOWN: "look at the backend's log around that time: `arcops logs`",
}


def advice(cause: str) -> str | None:
    """For a cause's word, as events tell it; None for a word that another version made up."""
    return next((text for known, text in ADVICE.items() if known.value == cause), None)
