"""arcops with real vLLM on an NVIDIA card: every scene in one go, figures as JSON.

    python -m tools.card --vllm /opt/vllm/bin/vllm --target target.yaml --other other.yaml --out figures.json

`target.yaml` and `other.yaml` are profiles; server and limits are set here. Needs torch in this Python for the foreign
holders, and nobody else on the card.
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
from tools.card.instance import Instance, NeverError, write_configuration
from tools.card.scenes import SCENES, FailedError, Stage

SERVER = {"port": 8123}
LIMITS = {"drain": "30s", "shutdown_timeout": "5s", "stop_grace": "30s"}


def main() -> int:
    arguments = _arguments()
    root = Path(tempfile.mkdtemp(prefix="arcops-card-"))
    stage = _stage(arguments, root)
    figures: dict[str, object] = {"card": stage.card, "baseline_mib": stage.baseline}
    failed = 0
    deadline = time.monotonic() + arguments.within
    try:
        for instance in (stage.first, stage.second):
            instance.start()
        for name in arguments.scenes or SCENES:
            if time.monotonic() > deadline:
                figures[name] = {"left out": "no time was left"}
                continue
            began = time.monotonic()
            try:
                figures[name] = {**SCENES[name](stage), "scene_s": round(time.monotonic() - began, 1)}
            except (FailedError, NeverError, OSError, AssertionError) as error:
                failed += 1
                _stop(stage)
                figures[name] = {"FAILED": f"{type(error).__name__}: {error}", "where": traceback.format_exc()[-1500:]}
            print(name, json.dumps(figures[name], default=str), flush=True)
            arguments.out.write_text(json.dumps(figures, indent=1, default=str), encoding="utf-8")
    finally:
        _end(stage)
        _keep(root, arguments.out.parent)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.card", description=__doc__.partition("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--vllm", required=True, help="the vllm executable")
    parser.add_argument("--target", type=Path, required=True, help="a profile")
    parser.add_argument("--other", type=Path, required=True, help="another profile, to switch to")
    parser.add_argument("--out", type=Path, required=True, help="where the figures go (JSON); logs go beside it")
    parser.add_argument("--within", type=float, default=3600, help="seconds after which no scene is begun")
    parser.add_argument("scenes", nargs="*", help=f"default: all of {', '.join(SCENES)}")
    return parser.parse_args()


def _stage(arguments: argparse.Namespace, root: Path) -> Stage:
    where = card.address()
    profiles = {name: _profile(path, name) for name, path in (("target", arguments.target), ("other", arguments.other))}
    profiles["crowded"] = {
        "extends": "target",
        "device": {"kind": "cuda", "allow_holders": [Path(sys.executable).name]},
    }
    write_configuration(
        root,
        {"runtime": {"vllm": arguments.vllm}, "cards": [where]},
        profiles,
    )
    return Stage(
        card=where,
        first=Instance(root, "first"),
        second=Instance(root, "second"),
        url=f"http://127.0.0.1:{SERVER['port']}",
        target="target",
        other="other",
        baseline=card.truth().used,
    )


def _profile(path: Path, name: str) -> Mapping[str, object]:
    profile = cast("dict[str, object]", yaml.safe_load(path.read_text(encoding="utf-8")))
    model = {**cast("dict[str, object]", profile["model"]), "served_name": name}
    return {**profile, "model": model, "server": SERVER, "limits": LIMITS}


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
