"""`arcops doctor`: what it prints, and what it tells the shell."""

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Ran
from tests.fakes.systemd import FakeSystemd
from tests.sites import MadeUpSite

Arcops = Callable[..., Ran]


@pytest.fixture
def systemd(site: MadeUpSite, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    fake = FakeSystemd(site.root)
    monkeypatch.setenv("PATH", fake.path)
    (site.root / "run").mkdir()
    return fake


def test_named_checks_are_shown_with_evidence_and_remedy(arcops: Arcops, systemd: FakeSystemd) -> None:
    said = arcops("doctor", "unit", "session")
    assert said.code == 0, said.err
    assert "warning  unit           arcops.service is not installed: nothing starts arcopsd" in said.out
    assert "do: arcops service install --enable --now --linger" in said.out
    assert "ok       session        the user's systemd answers" in said.out
    assert said.out.endswith("2 checks: 0 problems, 1 warnings, 0 unknown\n")


def test_a_problem_is_exit_code_1_and_json_is_all_there_is_on_stdout(
    arcops: Arcops, systemd: FakeSystemd, site: MadeUpSite
) -> None:
    site.write_site("nosuch: 1\n")
    said = arcops("doctor", "configuration", "--json")
    assert (said.code, said.err) == (1, "")
    found = json.loads(said.out)
    assert (found["ok"], found["instance"]) == (False, "main")
    assert found["findings"][0]["verdict"] == "problem"
    assert "nosuch" in found["findings"][0]["evidence"][0]


def test_an_unknown_check_is_a_usage_error_that_names_them_all(arcops: Arcops, systemd: FakeSystemd) -> None:
    said = arcops("doctor", "nosuch")
    assert (said.code, said.out) == (2, "")
    assert "lingering, unit, service" in said.err


def test_fix_says_what_it_does_and_looks_again(arcops: Arcops, systemd: FakeSystemd) -> None:
    said = arcops("doctor", "lingering", "--fix")
    assert "done: enable lingering" in said.err
    assert any("enable-linger" in call for call in systemd.calls())
    assert "nothing that --fix could do" in arcops("doctor", "versions", "--fix").err


def test_a_fix_that_is_refused_is_told_with_the_way_round(arcops: Arcops, systemd: FakeSystemd) -> None:
    systemd.put("fail-loginctl-enable-linger", "Could not enable linger: Access denied\n")
    said = arcops("doctor", "lingering", "--fix")
    assert "not done: enable lingering" in said.err
    assert "sudo loginctl enable-linger" in said.err
