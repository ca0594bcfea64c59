"""Bad profiles, bad options, taken ports: one clear error each, and the backend that runs goes on untouched."""

import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.daemon.rig import Result, Rig
from tests.helpers import free_port

pytestmark = pytest.mark.processes

NO_CARD = "0000:ff:1f.7"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Generator[Rig]:
    """One arcops that serves target-only all along: no test here may disturb it."""
    with Rig(tmp_path_factory.mktemp("bad-input")) as rig:
        rig.start()
        assert rig.arcops("switch", "target-only").code == 0
        yield rig


@contextmanager
def untouched(rig: Rig) -> Generator[None]:
    """Whatever is tried inside: the same launch, the same order, and an answer afterwards."""
    before = rig.status()
    yield
    after = rig.status()
    assert before.backend is not None
    assert after.backend is not None
    assert (after.phase, after.order) == ("serving", before.order)
    assert (after.backend.launch_id, after.backend.pid) == (before.backend.launch_id, before.backend.pid)
    assert rig.complete(tokens=1)["usage"]


def refused(result: Result, code: int, *words: str) -> None:
    """The error is one or two lines and a hint at most, on stderr, with the right exit code and these words in it."""
    assert (result.code, result.out) == (code, ""), result
    assert all(word in result.err for word in words), result.err
    lines = result.err.splitlines()
    assert lines[0].startswith("arcops: ")
    assert len([line for line in lines if not line.startswith("hint: ")]) <= 2
    assert "Traceback" not in result.err


# -- profiles ---------------------------------------------------------------------------------------------------------
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "only-a-comment": (b"# nothing\n", "is empty"),
    "binary": (bytes(range(256)) * 16, "is not text"),
    "latin-1": (b"description: caf\xe9\n", "is not text in UTF-8"),
    "a-list": (b"- a\n- b\n", "a-list.yaml"),
    "broken-yaml": (b"model: {path: target\n", "broken-yaml.yaml"),
    "itself": (b"extends: itself\n", "circle: itself -> itself"),
    "one": (b"extends: other\n", "circle: one -> other -> one"),
    "other": (b"extends: one\n", "circle: other -> one -> other"),
    "orphan": (b"extends: no-such-parent\n", "there is no profile 'no-such-parent'"),
    "typing-error": (b"extends: target-only\nschedulling: {max_num_seqs: 1}\n", "did you mean scheduling?"),
    "key-elsewhere": (b"extends: target-only\nmax_num_seqs: 1\n", "scheduling.max_num_seqs"),
    "twice": (b"extends: target-only\nserver: {port: 1}\nserver: {port: 2}\n", "is written twice"),
    "a-tag": (b"extends: !!python/object/apply:os.system ['true']\n", "tags are not taken"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_profile_that_cannot_be_read_is_refused_by_file_and_reason(serving: Rig, name: str) -> None:
    for each, (content, _) in UNREADABLE.items():
        (serving.root / "config" / "profiles" / f"{each}.yaml").write_bytes(content)
    with untouched(serving):
        refused(serving.arcops("switch", name), 6, UNREADABLE[name][1])


@pytest.mark.parametrize(
    ("name", "words"),
    [("nowhere", "there is no profile"), ("targetonly", "did you mean target-only?"), ("", "letters, digits")]
    + [(name, "letters, digits") for name in ("../target-only", "/etc/passwd", "x" * 300, "a b", "a\nb")],
)
def test_a_profile_that_is_not_there_is_refused_with_a_hint(serving: Rig, name: str, words: str) -> None:
    with untouched(serving):
        result = serving.arcops("switch", name)
    assert result.code == 6
    assert words in result.err
    assert "hint: " in result.err


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "model": ({"model": {"path": "nowhere"}}, "model.path: no such model"),
    "draft": ({"speculation": {"method": "dflash", "model": "gone", "num_tokens": 3}}, "speculation.model: no such"),
    "vllm": ({"runtime": {"vllm": "/nowhere/bin/vllm"}}, "runtime.vllm: /nowhere/bin/vllm does not exist"),
    "relative-vllm": ({"runtime": {"vllm": "bin/vllm"}}, "must be an absolute path"),
    "setup": ({"runtime": {"setup": "/nowhere/setvars.sh"}}, "runtime.setup: /nowhere/setvars.sh does not exist"),
    "port-0": ({"server": {"port": 0}}, "server.port: should be greater"),
    "port-70000": ({"server": {"port": 70000}}, "server.port: should be less"),
    "port-word": ({"server": {"port": "http"}}, "server.port: "),
    "card": ({"device": {"kind": "xpu", "cards": [NO_CARD]}}, f"device.cards: there is no card {NO_CARD}"),
    "any-card": ({"device": {"kind": "xpu"}}, "device.cards: 1 needed"),
    "exposed": ({"server": {"host": "0.0.0.0"}}, "reachable from other machines"),
    "no-key": ({"server": {"host": "0.0.0.0", "expose": True}}, "needs server.api_key_file"),
    "argument": ({"extra_args": ["--port", "1"]}, "extra_args"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_profile_that_names_what_cannot_be_is_refused_by_line_and_key(serving: Rig, name: str) -> None:
    sections, words = WRONG[name]
    file = serving.profile(f"wrong-{name}", extends="target-only", **sections)
    with untouched(serving):
        refused(serving.arcops("switch", f"wrong-{name}"), 6, f"{file}:", words)


def test_a_vllm_that_is_not_executable_is_refused(serving: Rig) -> None:
    script = serving.root / "vllm"
    script.write_text("#!/bin/sh\n")
    serving.profile("not-executable", extends="target-only", runtime={"vllm": str(script)})
    with untouched(serving):
        refused(serving.arcops("switch", "not-executable"), 6, f"{script} is not executable")


def test_every_problem_of_a_profile_is_told_at_once(serving: Rig) -> None:
    serving.profile("many", extends="target-only", server={"port": 0}, scheduling={"max_num_seqs": 0}, nonsense={})
    with untouched(serving):
        result = serving.arcops("switch", "many")
    assert result.code == 6
    assert "3 problems" in result.err
    assert all(key in result.err for key in ("server.port", "scheduling.max_num_seqs", "nonsense"))


def test_a_site_file_that_is_broken_is_refused_and_named(serving: Rig) -> None:
    site = serving.root / "config" / "site.yaml"
    right = site.read_text()
    try:
        site.write_text(right + "model_dir: /x\n")
        with untouched(serving):
            refused(serving.arcops("switch", "dflash2"), 6, "site.yaml:", "did you mean models_dir?")
            refused(serving.arcops("restart"), 6, "site.yaml:")
    finally:
        site.write_text(right)


def test_a_running_profile_whose_file_goes_bad_goes_on_running(serving: Rig) -> None:
    file = serving.root / "config" / "profiles" / "target-only.yaml"
    right = file.read_text()
    try:
        for content in ("", "model: [", right.replace("target\n", "nowhere\n")):
            file.write_text(content)
            with untouched(serving):
                assert serving.arcops("restart").code == 6
                assert serving.arcops("switch", "mtp").code == 6
    finally:
        file.write_text(right)


# -- ports ------------------------------------------------------------------------------------------------------------
@contextmanager
def somebody_on(port: int, *, reuse: bool, listens: bool) -> Generator[int]:
    """Another process that has the port; its pid."""
    code = (
        "import socket,sys\n"
        "s = socket.socket()\n"
        f"s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, {int(reuse)})\n"
        f"s.bind(('127.0.0.1', {port}))\n" + ("s.listen()\n" if listens else "") + "print('there', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"there\n"
        try:
            yield other.pid
        finally:
            other.stdin.close()


@pytest.mark.parametrize("reuse", [False, True])
def test_a_port_that_somebody_listens_on_is_refused_by_pid_command_and_user(serving: Rig, reuse: bool) -> None:
    port = free_port()
    serving.profile("taken", extends="target-only", server={"port": port})
    with untouched(serving), somebody_on(port, reuse=reuse, listens=True) as pid:
        result = serving.arcops("switch", "taken")
        refused(result, 5, f"pid {pid} ", Path(sys.executable).name[:6], " of user ", str(port))
        refused(serving.arcops("switch", "taken", "--dry-run"), 5, f"pid {pid} ")


def test_a_port_that_is_only_bound_is_refused_as_well(serving: Rig) -> None:
    port = free_port()
    serving.profile("bound", extends="target-only", server={"port": port})
    with untouched(serving), somebody_on(port, reuse=False, listens=False):
        refused(serving.arcops("switch", "bound"), 5, str(port))


def test_the_instances_own_settings_count_for_its_daemon(serving: Rig) -> None:
    """A port that site.yaml gives to this instance is the one that is looked at, not the profile's default."""
    site = serving.root / "config" / "site.yaml"
    right, port = site.read_text(), free_port()
    serving.profile("portless", server={"port": None})
    (serving.root / "config" / "profiles" / "portless.yaml").write_text(
        (serving.root / "config" / "profiles" / "portless.yaml").read_text().replace("port: null", "host: 127.0.0.1")
    )
    try:
        site.write_text(right + f"instances: {{test: {{port: {port}}}}}\n")
        plan = serving.arcops("switch", "portless", "--dry-run")
    finally:
        site.write_text(right)
    assert plan.code == 0, plan.err
    assert f"127.0.0.1:{port}" in plan.out


# -- the command line -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("switch dflash2 --drain x", "'x' is no duration"),
        ("switch dflash2 --drain nan", "'nan' is no duration"),
        ("switch dflash2 --drain -5", "'-5' is no duration"),
        ("switch dflash2 --drain 25h", "too long"),
        ("switch dflash2 --drain 5s --now", "contradict"),
        ("stop --drain 5s --now", "contradict"),
        ("stop --drain soon", "no duration"),
        ("restart --drain 1d", "no duration"),
        ("status --window 0", "too short"),
        ("status --window 99999h", "too long"),
        ("status --window x", "no duration"),
        ("logs --launch nowhere", "no log of a launch 'nowhere'"),
        ("logs --launch ../../../etc/passwd", "no log of a launch"),
        ("logs -f --launch a&follow=0", "no log of a launch 'a&follow=0'"),
        ("--instance NoGood status", "instance name"),
        ("--instance a/b stop", "instance name"),
        ("--instance cpu stop", "instance name"),
    ],
)
def test_a_wrong_value_is_refused_and_does_nothing(serving: Rig, arguments: str, words: str) -> None:
    with untouched(serving):
        refused(serving.arcops(*arguments.split()), 2, words)


@pytest.mark.parametrize(
    "arguments",
    ["frobnicate", "switch", "switch a b", "stop now", "status --frob", "logs -n x", "logs -n -1", "events -n 0"],
)
def test_a_wrong_command_line_is_a_usage_error(serving: Rig, arguments: str) -> None:
    result = serving.arcops(*arguments.split())
    assert (result.code, result.out) == (2, "")
    assert "Error: " in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("arguments", [["--frob"], ["extra"], ["-i"], ["-i", "No Good"], ["--instance", "cpu"]])
def test_a_wrong_command_line_of_the_daemon_is_a_usage_error(serving: Rig, arguments: list[str]) -> None:
    result = run_daemon(serving, *arguments)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err


def test_the_daemon_says_what_it_is(serving: Rig) -> None:
    assert run_daemon(serving, "--version").out.startswith("arcopsd ")
    assert run_daemon(serving, "-h").code == 0


def test_a_daemon_without_a_place_for_its_state_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a directory should be")
    with Rig(tmp_path) as rig:
        result = run_daemon(rig)
        assert result.code == 1
        assert result.err.startswith("arcopsd: cannot make the directory ")
        assert "hint: " in result.err


def test_a_daemon_whose_socket_cannot_be_made_says_so_and_ends(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.paths.make()
        rig.paths.socket.mkdir()
        result = run_daemon(rig)
        assert result.code == 1
        assert f"cannot listen on {rig.paths.socket}" in result.err
        assert "Traceback" not in result.err


def run_daemon(rig: Rig, *arguments: str) -> Result:
    """`arcopsd ARGUMENTS...` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "arcops.daemon.main", *arguments],
        env=rig.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


# -- the machine under it ---------------------------------------------------------------------------------------------
def test_no_socket_of_the_bad_profiles_is_left(serving: Rig) -> None:
    """After all of the above only the one backend listens, and it is the one that the status names."""
    with untouched(serving), socket.create_connection(("127.0.0.1", serving.port), timeout=5):
        assert serving.starts() == 1
        assert httpx.get(f"{serving.url}/v1/models", trust_env=False).json()["data"][0]["id"] == "tiny"
