"""The report in a real browser, behind a proxy that answers nobody and writes down who asks."""

import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from arcops.evidence.report.page import html
from tests.evidence import made
from tests.helpers import cannot_run_here

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-features=NetworkTimeServiceQuerying,OptimizationHints,MediaRouter",
    "--no-first-run",
    "--no-pings",
)
"""What a browser asks for of its own accord is switched off: here counts what the page asks for."""
OWN = frozenset({"update", "clients1", "clients2", "accounts", "www", "optimizationguide-pa", "content-autofill"})
MAKER = (".google.com", ".googleapis.com")
"""A few of its maker's hosts a browser asks all the same, for updates and the time, whatever page it shows."""


def host_of(asked: str) -> str:
    """Of a proxy's request line: `GET http://HOST/... HTTP/1.1`, `CONNECT HOST:443 HTTP/1.1`."""
    place = asked.split(" ")[1] if " " in asked else asked
    return place.removeprefix("http://").split("/")[0].split(":")[0]


def of_page(asked: list[str]) -> list[str]:
    """Those that a browser does not ask of its own accord; a font or a script from its maker's is not among these."""
    hosts = [host_of(line) for line in asked]
    return [host for host in hosts if not (host.endswith(MAKER) and host.split(".")[0] in OWN)]


class Proxy:
    """Takes connections, keeps the first line of each, and hangs up."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                try:
                    self.asked.append(connection.recv(4096).split(b"\r\n")[0].decode("latin-1"))
                except OSError:
                    self.asked.append("nothing")

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    return found or cannot_run_here("there is no Chromium; `make packages` installs it")


def seen(browser: str, page: Path, profile: Path) -> tuple[str, list[str]]:
    """What the browser made of the page, and what it asked the network for."""
    proxy = Proxy()
    try:
        command = (
            browser,
            *QUIET,
            f"--user-data-dir={profile}",
            f"--proxy-server=http://127.0.0.1:{proxy.port}",
            "--proxy-bypass-list=<-loopback>",
            "--virtual-time-budget=2000",
            "--dump-dom",
            page.as_uri(),
        )
        ran = subprocess.run(command, capture_output=True, timeout=100, check=False)
        assert ran.returncode == 0, ran.stderr.decode("utf-8", "replace")[-2000:]
        return ran.stdout.decode(), proxy.asked
    finally:
        proxy.close()


@pytest.mark.processes
def test_a_browser_shows_the_report_whole_and_asks_the_network_for_nothing(browser: str, tmp_path: Path) -> None:
    # First a page that does ask: else the silence of the other one would prove nothing.
    loud = tmp_path / "loud.html"
    loud.write_text("<!doctype html><img src='http://probe.invalid/x.png'>")
    _, asked = seen(browser, loud, tmp_path / "first")
    assert of_page(asked) == ["probe.invalid"]

    run = made.ladder((1, 2, 4), odd_from=4)
    record = made.record(run, note="<img src='http://probe.invalid/x.png'><script>document.title='run'</script>")
    quiet = tmp_path / "report.html"
    quiet.write_text(html([made.stored(tmp_path, record)], tmp_path))
    dom, asked = seen(browser, quiet, tmp_path / "second")
    assert of_page(asked) == []
    assert "</footer>" in dom
    assert dom.count("<svg") == quiet.read_text().count("<svg")
    assert "<title>ladder: mtp</title>" in dom
