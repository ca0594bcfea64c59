"""What the doctor looks at in these tests: planted trees for /proc, /sys and /dev, and managers that are scripts."""

import os
from dataclasses import replace
from pathlib import Path

from arcops.doctor import Finding, Report, Roots, Sight, examine
from arcops.doctor.checks import CHECKS
from tests.fakes.systemd import FakeSystemd
from tests.sites import MadeUpSite

USER = "ann"
UID = 4711
RENDER = 105


class Patient:
    """A machine of user `ann`, with whatever a test plants. `short` is where sockets are."""

    def __init__(self, root: Path, short: Path) -> None:
        self.site = MadeUpSite(root)
        self.systemd = FakeSystemd(root)
        self.proc, self.dev = root / "proc", root / "dev"
        self.group = root / "group"
        for directory in (self.proc / "self", self.proc / "sys/kernel", self.dev / "dri"):
            directory.mkdir(parents=True)
        (self.proc / "1").mkdir()
        (self.proc / "self/mounts").write_text("")
        (self.proc / "sys/kernel/osrelease").write_text("6.18.0\n")
        self.group.write_text("root:x:0:\n")
        (short / "arcops/main").mkdir(parents=True)
        (short / "arcops").chmod(0o700)
        self.runtime = short / "arcops"
        self.site.write_site("")
        self.env = {**self.site.env, "XDG_RUNTIME_DIR": str(short), "PATH": self.systemd.path}

    @property
    def unit(self) -> Path:
        return Path(self.env["HOME"]) / ".config/systemd/user/arcops.service"

    def sight(self, *, uid: int | None = None) -> Sight:
        roots = Roots(
            proc=str(self.proc),
            sys=str(self.site.sysfs),
            dev=str(self.dev),
            linger=str(self.systemd.linger),
            group=str(self.group),
            units=str(self.systemd.root),
        )
        made = replace(Sight.of("main", self.env, roots), user=USER)
        return made if uid is None else replace(made, uid=uid)

    def ask(self, name: str, *, uid: int | None = None) -> Finding:
        """The finding of one check."""
        return self.report(name, uid=uid).findings[0]

    def report(self, *names: str, uid: int | None = None) -> Report:
        chosen = [check for check in CHECKS if not names or check.name in names]
        return examine(self.sight(uid=uid), chosen)

    def profile(self, name: str, text: str = "") -> None:
        """A profile that can run here, on the CPU unless it says otherwise."""
        device = "" if "device:" in text else "device: {kind: cpu}\n"
        self.site.write_site(f"runtime: {{vllm: {self.site.vllm}}}\nmodels_dir: {self.site.models}\n")
        self.site.write_profile(name, f"{device}model: {{path: tiny/hybrid, served_name: demo}}\n{text}")

    def card(self, address: str = "0000:09:00.0", driver: str | None = "xe", node: str | None = "renderD128") -> Path:
        """A card that the site names, with its render node (a plain file)."""
        folder = self.site.add_card(address, driver)
        if node is not None:
            (folder / "drm" / node).mkdir(parents=True)
            (self.dev / "dri" / node).write_text("")
        self.site.write_site(f"cards: ['{address}']\n")
        return folder

    def process(self, pid: int, *arguments: str, groups: str = "") -> Path:
        """A process of this user in the planted /proc."""
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "fdinfo").mkdir()
        (folder / "cmdline").write_bytes(b"\0".join(map(os.fsencode, arguments)) + b"\0")
        name = os.path.basename(arguments[0])
        (folder / "status").write_text(
            f"Name:\t{name}\nUid:\t{os.getuid()}\nGid:\t4711\t4711\t4711\t4711\nGroups:\t{groups}\n"
        )
        fields = ["S", "1", "1", "1", "0", "-1", "0", *["0"] * 10, "1", "0", "100", *["0"] * 30]
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
        return folder
