"""An arcops with real vLLM on the CPU, and the shipped demo profiles."""

import threading
from pathlib import Path

import yaml

from tests.daemon.rig import Rig
from tests.fakes.runtime import real_runtime

START_WITHIN = 240.0
"""Seconds that a start may take on a busy machine of two cores; it takes 20 to 35."""


def real_rig(root: Path) -> Rig:
    """A rig whose `demo-*` profiles run real vLLM on a free port."""
    runtime = real_runtime()
    rig = Rig(root, instance="real")
    (root / "models" / "tiny").symlink_to(runtime.models)
    rig.site(runtime={"vllm": str(runtime.vllm)}, models_dir=str(root / "models"))
    for name in ("demo-target-only", "demo-dflash2", "demo-mtp"):
        own = {"extends": name, "server": {"port": rig.port}}
        (root / "config" / "profiles" / f"{name}.yaml").write_text(yaml.safe_dump(own))
    return rig


class Census(threading.Thread):
    """Looks at /proc again and again for API servers of one port, and keeps the most that lived at once."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = str(port).encode()
        self._done = threading.Event()
        self.most = 0
        self.looks = 0

    def run(self) -> None:
        while not self._done.wait(0.05):
            self.looks += 1
            self.most = max(self.most, len(self.servers()))

    def servers(self) -> set[int]:
        """Pids of living `vllm serve ... --port PORT`, the keepers in front of them excepted."""
        found: set[int] = set()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            keeps = any(word.endswith(b"keeper.py") for word in words)
            if b"serve" in words and self._port in words and not keeps:
                found.add(int(entry.name))
        return found

    def end(self) -> int:
        self._done.set()
        self.join()
        return self.most
