"""A made-up machine for tests: a vllm that does nothing, models without weights, cards that are empty directories."""

from pathlib import Path

CARDS = ("0000:03:00.0", "0000:07:00.0")

MODELS = (
    "amd/Qwen3.6-35B-A3B-w4a16-llmcompressor",
    "qwen-dflash2",
    "RedHatAI/Qwen3.5-9B-quantized.w4a16",
    "RedHatAI/Qwen3.5-9B-FP8-dynamic",
    "tiny/hybrid",
    "tiny/dflash",
)


class MadeUpSite:
    """Below `root`: `config` (site.yaml, profiles/), `models`, `bin/vllm`, `devices`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "config"
        self.profiles = self.config / "profiles"
        self.models = root / "models"
        self.vllm = root / "bin" / "vllm"
        self.sysfs = root / "sys"
        self.devices = self.sysfs / "bus/pci/devices"
        self.setup = root / "setvars.sh"
        self.env: dict[str, str] = {
            "ARCOPS_CONFIG_DIR": str(self.config),
            "HOME": str(root / "home"),
            "XDG_RUNTIME_DIR": str(root / "run"),
            "PATH": "/usr/bin:/bin",
        }
        for directory in (self.profiles, self.models, self.vllm.parent, root / "home"):
            directory.mkdir(parents=True)
        for name in MODELS:
            self.add_model(name)
        for card in CARDS:
            self.add_card(card)
        self.vllm.write_text("#!/bin/sh\nexit 0\n")
        self.vllm.chmod(0o755)
        self.setup.write_text("export ONEAPI_ROOT=/opt/intel/oneapi\n")
        self.write_site(
            f"runtime: {{vllm: {self.vllm}}}\nmodels_dir: {self.models}\ncards: ['{CARDS[0]}', '{CARDS[1]}']\n"
        )

    def write_site(self, text: str) -> Path:
        file = self.config / "site.yaml"
        file.write_text(text)
        return file

    def write_profile(self, name: str, text: str) -> Path:
        file = self.profiles / f"{name}.yaml"
        file.write_text(text)
        return file

    def add_card(
        self, address: str, driver: str | None = "xe", *, vendor: str = "0x8086", device: str = "0xe223"
    ) -> Path:
        """A display controller in the made-up sysfs; an Arc Pro B70 unless it says otherwise."""
        folder = self.devices / address
        folder.mkdir(parents=True)
        for name, text in (("class", "0x030000"), ("vendor", vendor), ("device", device)):
            (folder / name).write_text(f"{text}\n")
        if driver is not None:
            place = self.sysfs / "bus/pci/drivers" / driver
            place.mkdir(parents=True, exist_ok=True)
            (folder / "driver").symlink_to(place)
        return folder

    def add_model(self, name: str) -> Path:
        directory = self.models / name
        directory.mkdir(parents=True)
        (directory / "config.json").write_text("{}")
        return directory
