"""Profiles and site settings as people might write them: everything that is wrong is one ArcopsError."""

import json
from pathlib import Path
from random import Random
from typing import cast

import pytest
import yaml

from arcops.config import Config
from arcops.config.library import shipped_profiles
from arcops.core.errors import ArcopsError
from arcops.core.launch import Launch
from tests.fuzz import mutate
from tests.fuzz.harness import fuzz
from tests.sites import CARDS, MadeUpSite

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(900)]


SHIPPED = [path.read_text() for path in sorted(shipped_profiles().glob("*.yaml"))]
FULL = """\
description: everything at once
device: {kind: cpu}
model: {path: tiny/hybrid, served_name: tiny, dtype: bfloat16, trust_remote_code: false}
server: {host: 127.0.0.1, port: 8123, uvicorn_log_level: info}
scheduling: {max_model_len: 4096, max_num_seqs: 4, max_num_batched_tokens: 2048, enable_chunked_prefill: true}
cache: {enable_prefix_caching: true}
speculation: {method: dflash, model: tiny/dflash, num_tokens: 3}
limits: {drain: 60s, shutdown_timeout: 5s, stop_grace: 1m, start_stall: 600s, stall_after: 60s, probe: 2m}
restart: {first_delay: 2s, factor: 2, longest_delay: 5m, per_hour: 6}
checks: {first_answer: true}
runtime: {env: {A: "1", B: x y}}
extra_args: [--seed, "1"]
"""
SAMPLES = [*SHIPPED, FULL, "extends: target-only\nspeculation: {method: mtp, num_tokens: 2}\n"]
SITE = f"""\
runtime: {{vllm: /opt/vllm/bin/vllm, setup: /opt/setvars.sh}}
runtimes: {{cpu: {{vllm: /opt/cpu/bin/vllm}}}}
models_dir: /opt/models
cards: ['{CARDS[0]}', '{CARDS[1]}']
instances: {{second: {{port: 8001, cards: ['{CARDS[1]}']}}}}
"""
TREES = {sample: cast("mutate.Tree", yaml.safe_load(sample)) for sample in (*SAMPLES, SITE)}


@pytest.fixture
def site(memory: Path) -> MadeUpSite:
    return MadeUpSite(memory)


def _text(random: Random, samples: list[str], share: float) -> bytes:
    """A sample with its tree changed (`share` of them), or its text."""
    sample = random.choice(samples)
    if random.random() >= share:
        return mutate.octets(random, sample, samples, most=6_000)
    data = mutate.tree(random, TREES[sample])
    # JSON is YAML, and, unlike a YAML writer, takes any depth.
    return json.dumps(data, ensure_ascii=random.random() < 0.5, indent=random.choice((None, 1))).encode(
        "utf-8", "surrogatepass"
    )


def test_profiles(site: MadeUpSite) -> None:
    config = Config.load(site.env, sysfs=site.sysfs)
    path = site.profiles / "fuzzed.yaml"
    found: set[bool] = set()

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        problems = config.check("fuzzed")
        found.add(bool(problems))
        assert all(str(problem).strip() for problem in problems)
        if not problems:
            launch = config.launch("fuzzed")
            assert isinstance(launch, Launch)
            assert all("\0" not in argument for argument in launch.argv)

    fuzz("profiles", lambda random: _text(random, SAMPLES, 0.7), feed, declared=(ArcopsError,))
    assert found == {True, False}, "some are right, some are wrong"


def test_site_settings(site: MadeUpSite) -> None:
    path = site.config / "site.yaml"

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        Config.load(site.env, sysfs=site.sysfs)

    fuzz("site settings", lambda random: _text(random, [SITE], 0.6), feed, declared=(ArcopsError,), share=0.5)
