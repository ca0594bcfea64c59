"""What a runtime's folders may hold, as somebody else may have written it: RECORD, METADATA, origins, scripts."""

import os
from pathlib import Path
from random import Random

import pytest

from arcops.evidence.environment.distributions import found_in
from arcops.machine import interpreter, platform_facts, wheels
from arcops.machine.hashes import Hashes
from tests.evidence.environment.runtime import CODE, MadeUpRuntime
from tests.fuzz import mutate
from tests.fuzz.harness import fuzz

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(900)]

HASH = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
RECORDS = [
    f'vllm/__init__.py,{HASH},0\nvllm/__pycache__/a.pyc,,\n"a,b.py",{HASH},1\n../../../bin/vllm,{HASH},20\nx/RECORD,,\n',
    f"/etc/passwd,{HASH},1\n../../../../../../etc/shadow,{HASH},1\n./vllm//ops.py,md5=1B2M2Y8AsgTpgAmY7PhCfg,0\n",
]
METADATA = ["Metadata-Version: 2.1\nName: vllm\nVersion: 0.29.0+xpu\nSummary: words\n\nName: not this\n"]
ORIGINS = [
    '{"url": "https://me:pw@host/x.git", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}}',
    '{"url": "file:///src/vllm", "dir_info": {"editable": true}}',
]
SCRIPTS = [
    "#!/opt/vllm/bin/python\nimport vllm\n",
    "#!/usr/bin/env -S python3 -u\n",
    "#!/bin/sh\n'''exec' /opt/a b/bin/python \"$0\" \"$@\"\n' '''\n",
    '#!/bin/bash\nsource /opt/venv/bin/activate\nexec "/opt/venv/bin/vllm" "$@"\n',
]
STATUS = ["Package: libze1\nStatus: install ok installed\nVersion: 1.2\n\nPackage: gcc\nStatus: install ok installed\n"]


def test_any_record_is_files_within_and_a_count_of_strange_lines(memory: Path) -> None:
    """Whatever it names, nothing outside of the runtime is touched, and no line ends the reading."""
    runtime = MadeUpRuntime.at(memory / "venv")
    record = runtime.site / "vllm-0.29.0.dist-info" / "RECORD"
    samples = [record.read_text(), *RECORDS]

    def feed(content: bytes) -> None:
        record.write_bytes(content)
        found = found_in((str(runtime.site),), str(runtime.prefix), Hashes(str(memory / "hashes")))
        assert len(found.distributions) == 2
        for file in (file for one in found.distributions for file in one.files):
            place = os.path.normpath(runtime.site / file.path)
            assert place.startswith(f"{runtime.prefix}/"), file

    fuzz("records", lambda random: mutate.octets(random, random.choice(samples), samples), feed, share=0.1)


def test_any_text_of_a_record_is_read_without_an_error() -> None:
    def feed(text: str) -> None:
        for named in wheels.parse(text, "/venv/lib/python3.12/site-packages").files:
            assert named.path
            assert (named.digest is None) == (named.algorithm is None)

    fuzz("texts of records", lambda random: mutate.text(random, random.choice(RECORDS), RECORDS), feed)


def test_any_origin_is_words_without_credentials() -> None:
    def feed(text: str) -> None:
        words, _ = wheels.origin_of(text)
        assert words is not None
        assert len(words) < 1200

    fuzz("origins", lambda random: mutate.text(random, random.choice(ORIGINS), ORIGINS), feed)


def test_any_metadata_is_a_name_and_a_version(memory: Path) -> None:
    info = memory / "vllm-0.29.0.dist-info"
    info.mkdir()

    def feed(contents: tuple[bytes, bytes]) -> None:
        (info / "METADATA").write_bytes(contents[0])
        (info / "direct_url.json").write_bytes(contents[1])
        (found,) = wheels.distributions_in(str(memory))
        assert found.name
        assert found.version

    def make(random: Random) -> tuple[bytes, bytes]:
        return mutate.octets(random, METADATA[0], METADATA), mutate.octets(random, random.choice(ORIGINS), ORIGINS)

    fuzz("metadata", make, feed, share=0.3)


def test_any_executable_is_followed_to_an_end(memory: Path) -> None:
    path = memory / "vllm"

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        found = interpreter.program_of(str(path), "/nowhere")
        assert found.prefix
        assert len(found.scripts) <= interpreter.LONGEST_CHAIN

    fuzz("executables", lambda random: mutate.octets(random, random.choice(SCRIPTS), SCRIPTS), feed, share=0.3)


def test_any_database_of_packages_is_read_without_an_error(memory: Path) -> None:
    status = memory / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)

    def feed(content: bytes) -> None:
        status.write_bytes(content)
        assert platform_facts.packages(str(memory)) is not None

    fuzz("package databases", lambda random: mutate.octets(random, STATUS[0], STATUS), feed, share=0.3)


def test_any_memory_of_hashes_is_believed_or_not(memory: Path) -> None:
    file, path = memory / "a.py", memory / "hashes"
    file.write_bytes(CODE)
    written = Hashes(str(path), clock=lambda: 4e9)
    expected = written.of(str(file))
    written.keep()
    sample = path.read_text()

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        assert Hashes(str(path)).of(str(file)) == expected

    fuzz("memories of hashes", lambda random: mutate.octets(random, sample, [sample]), feed, share=0.3)
