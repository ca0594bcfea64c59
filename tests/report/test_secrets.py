"""Secrets planted wherever one can be, with a daemon and a backend that run; then the archive is searched for them."""

import json
import tarfile
from pathlib import Path

import pytest

from arcops.machine.store import Store, StoredEvent
from tests.daemon.rig import Rig

pytestmark = pytest.mark.processes

KEY = "arcops-key-4711-rhubarb"
OLD_KEY = "sk-oldkey0123456789abcdef"
HUB = "hf_ZyXwVuTsRqPoNmLkJiHgFeDcBa98765432"
ENV = "planted/in the env-0815"
OTHERS = "somebody-elses-bearer-word"
PROXY = "proxy-pass-1234"
SITE = "planted-in-the-site"
BROKEN = "planted-in-a-broken-profile"
FROM_OPERATOR = "planted-in-my-own-shell"
HISTORY = "planted-in-the-history"
PLANTED = (KEY, OLD_KEY, HUB, ENV, OTHERS, PROXY, SITE, BROKEN, FROM_OPERATOR, HISTORY)


def plant(rig: Rig) -> None:
    key_file = rig.root / "key"
    key_file.write_text(f"{KEY}\n")
    key_file.chmod(0o600)
    rig.profile(
        "guarded",
        extends="target-only",
        server={"api_key_file": str(key_file)},
        runtime={"env": {"HF_TOKEN": HUB, "MY_PASSWORD": ENV, "HTTPS_PROXY": f"http://me:{PROXY}@proxy.example:3128"}},
    )
    profiles = rig.root / "config" / "profiles"
    (profiles / "broken.yaml").write_text(f"runtime: [\n  env:\n    API_TOKEN: |\n      {BROKEN}\n  x: {{\n")
    (profiles / "unused.yaml").write_text(f"extends: guarded\nextra_args: ['--hf-token', '{HUB}']\n# {KEY}\n")


def plant_in_what_runs(rig: Rig) -> None:
    with next(rig.paths.log_dir.glob("*.log")).open("a") as log:
        log.write(f"started with {KEY}, {ENV} and {OLD_KEY}\nheaders {{'authorization': 'Bearer {OTHERS}'}}\n")
        log.write(f"GET https://me:{PROXY}@host/?access_token={OTHERS} HF_TOKEN={HUB} {FROM_OPERATOR}\n")
    kept = rig.paths.state_dir / "evidence" / "a-hang"
    kept.mkdir(parents=True)
    (kept / f"{KEY}.txt").write_text(f"vllm serve --api-key {KEY} {json.dumps(ENV)}\n")
    site = rig.root / "config" / "site.yaml"
    site.write_text(f"{site.read_text()}# mirror: https://me:{SITE}@mirror.example\n")


def test_no_planted_secret_is_in_the_archive(tmp_path: Path) -> None:
    with Rig(tmp_path, environment={"DEPLOY_SECRET": FROM_OPERATOR}) as rig:
        plant(rig)
        rig.paths.make()
        store = Store.open(str(rig.paths.database))
        store.add_event(StoredEvent(0, 1.0, "trouble", "stopped", None, None, f"cannot reach http://x:{HISTORY}@y/"))
        store.close()
        rig.start()
        assert rig.arcops("switch", "guarded").code == 0
        plant_in_what_runs(rig)
        archive = tmp_path / "out.tar.gz"
        done = rig.arcops("report", "--to", str(archive))
        assert done.code == 0, done.err
        folder = tmp_path / "unpacked"
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        (inside,) = folder.iterdir()
        files = {str(path.relative_to(inside)): path.read_text() for path in inside.rglob("*") if path.is_file()}
        for secret in PLANTED:
            assert [name for name, text in files.items() if secret in text or secret in name] == [], secret
        assert rig.phase() == "serving", "nothing was disturbed"

    assert "evidence/a-hang/(hidden).txt" in files
    for wanted in (
        "status.json",
        "events.jsonl",
        "launch.json",
        "environment.json",
        "metrics/arcops.txt",
        "cards.json",
    ):
        assert files[wanted].strip(), wanted
    assert "vllm:num_requests_running" in files["metrics/vllm.txt"]
    assert json.loads(files["status.json"])["phase"] == "serving"
    argv = json.loads(files["launch.json"])["launch"]["argv"]
    assert argv[argv.index("--max-num-seqs") + 1] == "4", "what is no secret stays"
    assert "arcops" in files["processes.txt"]
    assert "0.29" in files["runtime/version.txt"]
    assert "API_TOKEN: (hidden)" in files["config/profiles/broken.yaml"]
    assert "Max open files" in files["host/limits.txt"]
