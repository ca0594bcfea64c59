"""arcops with real vLLM on an NVIDIA card: every scene in one go, figures as JSON.

    python -m tools.card --vllm /opt/vllm/bin/vllm --target target.yaml --other other.yaml --out figures.json

`target.yaml` and `other.yaml` are profiles; server and limits are set here. `other` should leave room for a second of
its kind on the card: it is raced for. Needs torch in this Python for the foreign holders, and nobody else on the card.
Beside the figures go `logs.tar.gz` (the daemons' and the backends') and `recorded.tar.gz` (raw outputs, as test data).
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import yaml

from tools.card import card
from tools.card.instance import Instance, write_configuration
from tools.card.record import Records
from tools.card.scenes import SCENES
from tools.card.stage import Stage

SERVER = {"port": 8123}
LIMITS = {"drain": "30s", "shutdown_timeout": "5s", "stop_grace": "30s"}


def main() -> int:
    arguments = _arguments()
    root = Path(tempfile.mkdtemp(prefix="arcops-card-"))
    stage = _stage(arguments, root)
    figures: dict[str, object] = {"card": stage.identity.address, "baseline_mib": stage.baseline}
    deadline = time.monotonic() + arguments.within
    try:
        for instance in stage.both:
            instance.start()
        for name in arguments.scenes or SCENES:
            figures[name] = _played(stage, name, deadline)
            figures["summary"] = summary(figures)
            print(name, json.dumps(figures[name], default=str)[:1500], flush=True)
            arguments.out.write_text(json.dumps(figures, indent=1, default=str), encoding="utf-8")
            stage.records.write(arguments.out.parent / "recorded.tar.gz")
    finally:
        try:
            _end(stage)
        finally:
            _keep(root, arguments.out.parent)
    print("summary", json.dumps(summary(figures)), flush=True)
    return 1 if summary(figures)["failed"] else 0


def summary(figures: Mapping[str, object]) -> Mapping[str, list[str]]:
    """The scenes by how they went."""
    how: dict[str, list[str]] = {"passed": [], "failed": [], "left_out": []}
    for name, scene in figures.items():
        if name in SCENES:
            how[str(cast("Mapping[str, object]", scene)["outcome"])].append(name)
    return how


def _played(stage: Stage, name: str, deadline: float) -> Mapping[str, object]:
    """A scene's figures with its outcome. Whatever it raises fails this scene, and no other."""
    if time.monotonic() > deadline:
        return {"outcome": "left_out", "why": "no time was left"}
    began = time.monotonic()
    try:
        seen = SCENES[name](stage)
    except Exception as error:  # noqa: BLE001 - one scene's mistake, of whatever kind, must not cost the others
        where = traceback.format_exc()[-1500:]
        _stop(stage)
        return {"outcome": "failed", "why": f"{type(error).__name__}: {error}", "where": where}
    return {"outcome": "passed", **seen, "scene_s": round(time.monotonic() - began, 1)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.card", description=__doc__.partition("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--vllm", required=True, help="the vllm executable")
    parser.add_argument("--target", type=Path, required=True, help="a profile")
    parser.add_argument("--other", type=Path, required=True, help="another profile, to switch to")
    parser.add_argument("--out", type=Path, required=True, help="where the figures go (JSON); the rest goes beside it")
    parser.add_argument("--within", type=float, default=3600, help="seconds after which no scene is begun")
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"default: all of {', '.join(SCENES)}")
    arguments = parser.parse_args()
    unknown = set(arguments.scenes) - set(SCENES)
    if unknown:
        parser.error(f"no such scene: {', '.join(sorted(unknown))}")
    return arguments


def _stage(arguments: argparse.Namespace, root: Path) -> Stage:
    identity = card.first_card()
    profiles = {name: profile(path, name) for name, path in (("target", arguments.target), ("other", arguments.other))}
    profiles["crowded"] = {
        "extends": "target",
        "device": {"kind": "cuda", "allow_holders": [Path(sys.executable).name]},
    }
    write_configuration(root, {"runtime": {"vllm": arguments.vllm}, "cards": [identity.address]}, profiles)
    return Stage(
        identity=identity,
        first=Instance(root, "first"),
        second=Instance(root, "second"),
        url=f"http://127.0.0.1:{SERVER['port']}",
        target="target",
        other="other",
        baseline=card.truth().used,
        records=Records(stand_ins(root, arguments.vllm)),
    )


def stand_ins(root: Path, vllm: str) -> Mapping[str, str]:
    """What names this machine in what is kept, and what stands there instead."""
    mine = Path("/proc/self/cgroup").read_text(encoding="utf-8").rpartition("::")[2].strip()
    release = os.uname().release
    found = {
        str(root): "/root-of-the-run",
        str(Path(vllm).parent.parent): "/vllm-of-the-run",
        sys.prefix: "/python-of-the-run",
        mine: "/cgroup-of-the-run",
        release: release.partition("-")[0],
        os.uname().nodename: "host-of-the-run",
    }
    common = {"", "/", "/usr", "/usr/local", "localhost"}
    return {name: instead for name, instead in found.items() if name not in common}


def profile(path: Path, name: str) -> Mapping[str, object]:
    """A profile as it was given, with this run's server and limits, and `name` for its model."""
    given = cast("dict[str, object]", yaml.safe_load(path.read_text(encoding="utf-8")))
    model = {**cast("dict[str, object]", given["model"]), "served_name": name}
    return {**given, "model": model, "server": SERVER, "limits": LIMITS}


def _stop(stage: Stage) -> None:
    """Have nothing run: what a scene left must not fail the next."""
    for instance in stage.both:
        if instance.answers():
            instance.arcops("stop", "--now", within=180)


def _end(stage: Stage) -> None:
    """Stop what runs, and end both daemons, whatever happened before."""
    _stop(stage)
    for instance in stage.both:
        if instance.daemon is not None and instance.daemon.poll() is None:
            instance.end()


def _keep(root: Path, out: Path) -> None:
    """The daemons' and the backends' logs, beside the figures."""
    archive = shutil.make_archive(str(out / "logs"), "gztar", root)
    print(f"logs: {archive} ({os.path.getsize(archive):,} bytes)", flush=True)
    shutil.rmtree(root)


if __name__ == "__main__":
    raise SystemExit(main())
