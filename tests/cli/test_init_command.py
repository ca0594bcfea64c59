"""`arcops init`: finding what there is, writing it down, and never over something."""

from collections.abc import Callable
from pathlib import Path

import pytest

from arcops.config import discover
from arcops.config.library import Config
from tests.cli.conftest import Ran
from tests.sites import CARDS, MadeUpSite

Arcops = Callable[..., Ran]


@pytest.fixture
def bare(site: MadeUpSite, monkeypatch: pytest.MonkeyPatch) -> MadeUpSite:
    """The made-up machine without a configuration; its cards are an integrated one and two B70s."""
    (site.config / "site.yaml").unlink()
    site.profiles.rmdir()
    site.add_card("0000:00:02.0", "i915", device="0x7d67")
    site.add_card("0000:0b:00.0", "ast", vendor="0x1a03", device="0x2000")
    (site.add_card("0000:05:00.0", None) / "class").write_text("0x020000\n")
    monkeypatch.setattr("arcops.config.locate.SYSFS", site.sysfs)
    monkeypatch.setattr(discover, "ONEAPI", str(site.setup))
    return site


def add_runtime(root: Path, version: str) -> Path:
    """A virtual environment with a vllm, and a torch of this version."""
    vllm = root / "bin/vllm"
    torch = root / "lib/python3.12/site-packages/torch"
    torch.mkdir(parents=True)
    vllm.parent.mkdir()
    (torch / "version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\n")
    vllm.write_text("#!/bin/sh\n")
    vllm.chmod(0o755)
    return vllm


def test_what_is_found_is_written_and_can_be_read_again(arcops: Arcops, bare: MadeUpSite) -> None:
    home = Path(bare.env["HOME"])
    xpu, cpu = add_runtime(home / ".venv-xpu", "2.13.0+xpu"), add_runtime(home / ".venv-cpu", "2.13.0+cpu")
    (home / "models").symlink_to(bare.models)
    said = arcops("init")
    assert said.code == 0, said.err
    assert f"vllm      {xpu} (xpu)" in said.out
    assert f"card      {CARDS[0]} (xe)" in said.out
    assert "card      0000:00:02.0 (i915, not used: part of the processor)" in said.out
    assert "card      0000:0b:00.0 (ast, not used: vLLM has no use for its driver)" in said.out
    assert "          tiny/hybrid" in said.out
    config = Config.load(bare.env, sysfs=bare.sysfs)
    assert config.machine.site.runtime.vllm is None
    runtimes = config.machine.site.runtimes
    assert (runtimes["xpu"].vllm, runtimes["xpu"].setup) == (str(xpu), str(bare.setup))
    assert (runtimes["cpu"].vllm, runtimes["cpu"].setup) == (str(cpu), None)
    assert f"oneAPI    {bare.setup}" in said.out
    assert "lacking" not in said.out
    assert config.machine.site.cards == CARDS
    assert config.machine.site.models_dir == str(home / "models")
    assert [path.stem for path in config.sources("first")] == ["first", "target-only"]


def test_what_is_said_is_taken_instead_of_searching(arcops: Arcops, bare: MadeUpSite) -> None:
    said = arcops("init", "--vllm", str(bare.vllm), "--models", str(bare.models), "--card", CARDS[1])
    assert said.code == 0, said.err
    site = Config.load(bare.env, sysfs=bare.sysfs).machine.site
    assert (site.runtime.vllm, site.models_dir, site.cards) == (str(bare.vllm), str(bare.models), (CARDS[1],))
    assert f"card      {CARDS[0]} (xe, not used: not chosen)" in said.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vllm", "/no/vllm"], "is not an executable file"),
        (["--models", "/no/models"], "is not a directory"),
        (["--card", "0000:99:00.0"], "there is no such card"),
        (["--card", "../../etc"], "there is no such card"),
    ],
)
def test_what_is_said_and_not_there_is_refused(
    arcops: Arcops, bare: MadeUpSite, arguments: list[str], message: str
) -> None:
    said = arcops("init", *arguments)
    assert (said.code, said.out) == (6, "")
    assert message in said.err
    assert not (bare.config / "site.yaml").exists()


def test_a_machine_with_nothing_gets_a_configuration_that_says_what_is_missing(
    arcops: Arcops, bare: MadeUpSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcops.config.locate.SYSFS", bare.root / "none")
    monkeypatch.setattr(discover, "find_runtimes", no_runtimes)
    monkeypatch.setattr(discover, "find_models_dir", no_models)
    said = arcops("init")
    assert said.code == 0, said.err
    for line in (
        "vllm      none found",
        "models    no directory found",
        "card      none found",
        "lacking   demo-dflash2: runtime.vllm: no vllm is named",
        "no profile was written",
    ):
        assert line in said.out
    assert list(bare.config.iterdir()) == [bare.config / "site.yaml"]
    assert arcops("profile", "check").code == 0


def test_after_make_demo_the_demo_can_be_switched_to(
    arcops: Arcops, bare: MadeUpSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcops.config.locate.SYSFS", bare.root / "none")
    cache = Path(bare.env["HOME"]) / ".cache/arcops"
    for name in ("hybrid", "dflash"):
        (cache / "tiny-models-1" / name).mkdir(parents=True)
        (cache / "tiny-models-1" / name / "config.json").write_text("{}")
    half = add_runtime(cache / "vllm-cpu-2", "2.13.0+cpu")
    vllm = add_runtime(cache / "vllm-cpu-1", "2.13.0+cpu")
    for name in ("tiny-models-1", "vllm-cpu-1"):
        (cache / name / ".complete").write_text("")
    said = arcops("init")
    assert said.code == 0, said.err
    assert str(half) not in said.out
    assert "tiny      tiny/dflash" in said.out
    config = Config.load(bare.env)
    assert config.launch("demo-dflash2").argv[:3] == (str(vllm), "serve", str(cache / "tiny-models-1/hybrid"))
    assert [path.stem for path in config.sources("first")][:2] == ["first", "demo-dflash2"]
    assert config.check("first") == []


def test_a_vllm_is_chosen_by_the_kind_of_the_chosen_cards(arcops: Arcops, bare: MadeUpSite) -> None:
    home = Path(bare.env["HOME"])
    add_runtime(home / ".venv-a-cuda", "2.13.0+cu129")
    xpu = add_runtime(home / ".venv-b-xpu", "2.13.0+xpu")
    assert arcops("init", "--card", CARDS[1], "--card", CARDS[0]).code == 0
    site = Config.load(bare.env, sysfs=bare.sysfs).machine.site
    assert {kind: runtime.vllm for kind, runtime in site.runtimes.items()} == {"xpu": str(xpu)}
    assert site.runtime.vllm is None
    assert site.cards == (CARDS[1], CARDS[0])


def test_a_missing_oneapi_is_said(arcops: Arcops, bare: MadeUpSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "ONEAPI", "/no/setvars.sh")
    said = arcops("init")
    assert "oneAPI    no setvars.sh in /opt/intel/oneapi" in said.out
    assert "setup" not in (bare.config / "site.yaml").read_text()


def no_runtimes(env: object) -> list[discover.FoundRuntime]:
    return []


def no_models(env: object) -> None:
    return None


def test_nothing_is_overwritten_without_being_told(arcops: Arcops, bare: MadeUpSite) -> None:
    file = bare.write_site("models_dir: /mine\n")
    said = arcops("init")
    assert (said.code, said.out) == (1, "")
    assert str(file) in said.err
    assert "--force" in said.err
    assert file.read_text() == "models_dir: /mine\n"
    assert arcops("init", "--force", "--models", str(bare.models)).code == 0
    assert str(bare.models) in file.read_text()


def test_a_place_that_cannot_be_written_is_named(arcops: Arcops, bare: MadeUpSite) -> None:
    bare.config.rmdir()
    bare.config.write_text("a file")
    said = arcops("init")
    assert said.code == 1
    assert "cannot write" in said.err


def test_odd_names_are_written_so_that_they_are_read_again(arcops: Arcops, bare: MadeUpSite) -> None:
    models = bare.root / 'od"d: #\\ \U0001f600'
    (models / "m").mkdir(parents=True)
    (models / "m/config.json").write_text("{}")
    assert arcops("init", "--models", str(models)).code == 0
    assert Config.load(bare.env, sysfs=bare.sysfs).machine.site.models_dir == str(models)


@pytest.mark.parametrize(
    ("version", "kind"),
    [("2.13.0+xpu", "xpu"), ("2.13.0+cpu", "cpu"), ("2.13.0+cu129", "cuda"), ("2.13.0", "cuda"), ("2.1+rocm6", None)],
)
def test_the_kind_of_a_runtime_is_its_torchs(tmp_path: Path, version: str, kind: str | None) -> None:
    assert discover.torch_kind(str(add_runtime(tmp_path / "venv", version))) == kind


def test_a_runtime_without_torch_is_of_no_known_kind(tmp_path: Path) -> None:
    assert discover.torch_kind(str(tmp_path / "bin/vllm")) is None


def test_models_in_the_hugging_face_cache_are_named(arcops: Arcops, bare: MadeUpSite) -> None:
    snapshot = Path(bare.env["HOME"]) / ".cache/huggingface/hub/models--org--na--me/snapshots/abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert "cached    org/na--me" in arcops("init").out
