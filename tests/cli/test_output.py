"""What arcops says, to whom, and with which exit code."""

import io
import os
import subprocess
import sys

import pytest

from arcops.cli import output
from arcops.core.errors import ArcopsError, ExitCode, InvalidProfileError


def test_data_goes_to_stdout_and_remarks_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output.data("data")
    output.json_data({"a": [1, None, "ä"]})
    output.note("note")
    output.warn("careful")
    said = capsys.readouterr()
    assert said.out == 'data\n{\n  "a": [\n    1,\n    null,\n    "ä"\n  ]\n}\n'
    assert said.err == "note\nwarning: careful\n"


def test_a_failure_is_one_message_one_hint_and_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        output.fail(InvalidProfileError("bad", hint="do better"))
    assert ended.value.code == 6
    assert capsys.readouterr().err == "arcops: bad\nhint: do better\n"


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (ArcopsError("x"), 1),
        (ArcopsError("x", exit_code=ExitCode.NO_DAEMON), 8),
        (KeyboardInterrupt(), 130),
        (SystemExit(5), 5),
    ],
)
def test_the_guard_gives_every_error_its_exit_code(raised: BaseException, code: int) -> None:
    @output.guard
    def command() -> None:
        raise raised

    with pytest.raises(SystemExit) as ended:
        command()
    assert ended.value.code == code


def test_the_guard_hides_no_fault_of_ours() -> None:
    @output.guard
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        command()


def test_control_characters_are_not_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    output.report(ArcopsError("a\x1b]0;title\x07b\nc"))
    assert capsys.readouterr().err == "arcops: a\ufffd]0;title\ufffdb\nc\n"


def in_a_process(code: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", f"from arcops.cli import output\n{code}"],
        capture_output=True,
        check=False,
        env={**os.environ, **environment},
        timeout=60,
    )


def test_a_reader_that_has_gone_ends_the_program_quietly() -> None:
    code = (
        "import os, sys\n"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
        "@output.guard\n"
        "def run():\n"
        "    for _ in range(100_000): output.data('x' * 100)\n"
        "run()\n"
    )
    ended = in_a_process(code)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_full_disk_is_a_failure_in_words() -> None:
    ended = in_a_process("import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\noutput.data('x')")
    assert ended.returncode == 1
    assert b"cannot write to standard output: No space left" in ended.stderr


def test_a_closed_stdout_is_no_crash() -> None:
    ended = subprocess.run(
        ["sh", "-c", '"$0" -c "from arcops.cli import output; output.data(1 * \'x\')" >&-', sys.executable],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_what_the_terminal_cannot_spell_is_escaped() -> None:
    ended = in_a_process("output.data('ä\\u2026')", PYTHONIOENCODING="ascii")
    assert ended.stdout == b"\\xe4\\u2026\n"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_picture_is_drawn_over_the_last_one_and_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "4")
    output.redraw("one\ntwo\nthree\nfour\nfive")
    drawn = screen.getvalue()
    assert drawn.startswith("\x1b[H"), "from the top"
    assert [word for word in ("one", "two", "three", "four", "five") if word in drawn] == ["one", "two", "three"]
    assert drawn.count("\x1b[K") == 3, "what was longer before is cleared"
    assert "\x1b[J" in drawn, "so is what was below"


def test_pictures_that_are_piped_are_set_apart_by_an_empty_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LINES", "2")
    output.redraw("one\ntwo\nthree")
    assert capsys.readouterr().out == "one\ntwo\nthree\n\n"


@pytest.mark.parametrize(
    ("environment", "colours"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(
    environment: dict[str, str], colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Terminal())
    painted = output.paint("x", output.Style.BOLD)
    assert painted == ("\x1b[1mx\x1b[0m" if colours else "x")
