"""`arcops gpu`: the cards in words and as JSON; what is unknown says why, and a card that is not there is one error."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from arcops import wire
from arcops.cards import own
from arcops.cli import gpu as command
from arcops.cli.describe_cards import card_lines
from arcops.cli.gpu import lines_of
from arcops.core.cards.measures import Quantity
from arcops.core.errors import ArcopsError, ExitCode, NoDaemonError
from tests.cards import made
from tests.cards.made import FIRST, NOW, SECOND
from tests.cli.conftest import Ran


@dataclass(slots=True)
class Daemon:
    """Tells of these cards, as a client of the daemon does."""

    told: wire.Cards | ArcopsError
    asked: list[bool] = field(default_factory=list[bool])
    """Whether every process was to be looked into, each time."""

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def cards(self, *, everybody: bool) -> wire.Cards:
        self.asked.append(everybody)
        if isinstance(self.told, ArcopsError):
            raise self.told
        return self.told


class Own:
    """What a user sees without a daemon: another card."""

    def __init__(self, _: object) -> None:
        return

    def look(self) -> wire.Cards:
        return made.cards(made.info(SECOND, resets=None))


Tell = Callable[[wire.Cards | ArcopsError], Daemon]


@pytest.fixture
def telling(monkeypatch: pytest.MonkeyPatch) -> Tell:
    """Have the command meet a daemon that tells this."""

    def tell(told: wire.Cards | ArcopsError) -> Daemon:
        def client_of(_: object) -> Daemon:
            return daemon

        daemon = Daemon(told)
        monkeypatch.setattr(command, "client_of", client_of)
        monkeypatch.setattr(own, "OwnLook", Own)
        return daemon

    return tell


BUSY = made.info(
    census=made.looked(
        made.held(16_800, made.process(2693, "VLLM::EngineCor"), made.process(2694, "python"), ours=True),
        made.held(120, made.process(1200, "gnome-shell", "ada"), allowed=True),
        made.held(None, made.process(4711, "evil\x1b[2J", None)),
        idle=(made.held(0, made.process(9)), made.held(0, made.process(10))),
        unreadable=41,
        unattributed=300 * made.MIB,
        notes=("41 processes may not be looked into: memory may be theirs",),
    ),
    incidents=(
        wire.CardIncident(
            at=NOW,
            kind="job_timeout",
            text="Timedout job: seqno=4294967169",
            engine="ccs",
            pid=2693,
            command="python",
            source="kernel log",
        ),
    ),
    resets=1,
)
PICTURE = """\
0000:03:00.0  Intel Arc Pro B70 [8086:e223]
  driver       xe; firmware GuC 70.44.1
  memory       ██████████▋░░░░░░░░░ 17.0 of 32.0 GiB in use, 53.1 %
  held by         16,800 MiB  ours     pid 2693 VLLM::EngineCor of op and 1 more
                     120 MiB  allowed  pid 1200 gnome-shell of ada
                       ? MiB  foreign  pid 4711 evil
                     300 MiB  that nobody can be named for
               ! 41 processes may not be looked into: memory may be theirs
               2 have it only open
  baseline     600 MiB in use while nobody holds any
  clock        gt0 2,400 of 2,800 MHz, gt1 0 MHz
  throttling   none
  busy         gt0 97.0 %
  power        card 183 of 230 W
  temperature  pkg 61 °C, vram 70 °C
  job timeout  ccs 5 s
  link         16 lanes at 32 GT/s; at most x16 at 32 GT/s
  node         /dev/dri/renderD128
  number       0: a launch on it sets ZE_AFFINITY_MASK=0
  lock         this supervisor and its backend
  resets       1 since boot
               WHEN job timeout on ccs, python [2693]: Timedout job:
               seqno=4294967169

  watched by   kernel log (/dev/kmsg), uevents"""


def test_a_card_reads_like_this_at_eighty_columns() -> None:
    lines = lines_of(made.cards(BUSY), 80)
    assert max(map(len, lines)) <= 80
    assert re.sub(r"\d\d-\d\d \d\d:\d\d:\d\d", "WHEN", "\n".join(lines)) == PICTURE


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = made.info(
        name="A Card With A Very Long Name Indeed",
        throttling=("power limit 1", "thermal", "the platform's own, for which there is no word", "voltage regulator"),
        lock_holder="pid 1 (a) of user somebody, pid 2 (b) of user somebody else and 17 more",
        census=None,
        census_absent="who holds it cannot be looked at: " + "a reason " * 12,
    )
    assert max(map(len, card_lines(long, NOW, width))) <= width


def test_what_is_unknown_says_why_and_is_never_nothing() -> None:
    card = made.info(
        measures=(
            made.told(Quantity.MEMORY_USED, None, absent="needs CAP_PERFMON"),
            made.told(Quantity.MEMORY_TOTAL, 32.0 * made.GIB),
            made.told(Quantity.POWER, None, absent="it takes two looks"),
            made.told(Quantity.POWER_LIMIT, 230.0, "card"),
            made.told(Quantity.TEMPERATURE, None, absent="its driver has not come back for 12 s"),
            made.told(Quantity.FAN, None, absent="Permission denied"),
        ),
        throttling=None,
        throttling_absent="not in this driver",
        census=made.looked(unattributed=None, unattributed_absent="memory in use is unknown", unreadable=3),
        baseline=None,
        lock_holder=None,
        lock_absent="who has its lock cannot be looked at: it hangs",
        ordinal=None,
        mask=None,
        resets=None,
    )
    text = "\n".join(card_lines(card, NOW, 100))
    assert "memory       32.0 GiB; in use: unknown: needs CAP_PERFMON" in text
    assert "? MiB  that nobody can be named for: memory in use is unknown" in text
    assert "nobody that could be seen; 3 processes may not be looked into" in text
    assert "power        unknown: it takes two looks; at most card 230 W" in text
    assert "temperature  unknown: its driver has not come back for 12 s" in text
    assert "fan          unknown: Permission denied" in text
    assert "unknown      clock, throttling, busy, link: not in this driver" in text
    assert "lock         unknown: who has its lock" in text
    assert "number       none: no runtime" in text
    assert "resets       unknown" in text
    assert "baseline" not in text


def test_what_is_unknown_for_one_reason_is_told_once() -> None:
    hung = "its driver has not come back for 12 s"
    quantities = (Quantity.CLOCK, Quantity.BUSY, Quantity.POWER)
    measures = (
        *(made.told(one, None, absent=hung) for one in quantities),
        made.told(Quantity.TEMPERATURE, 61.0, "pkg"),
    )
    lines = card_lines(made.info(measures=measures, throttling=None, throttling_absent="Permission denied"), NOW, 80)
    assert "  unknown      clock, busy, power: its driver has not come back for 12 s" in lines
    assert "  throttling   unknown: Permission denied" in lines, "a reason that it shares with none"
    assert "  temperature  pkg 61 °C" in lines
    assert sum("has not come back" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("mib", "holders", "unreadable", "little"),
    [(9, 1, 0, True), (16, 2, 0, True), (17, 1, 0, False), (9, 1, 1, False), (9, 0, 0, False)],
)
def test_a_little_beside_a_holder_is_no_alarm(mib: int, holders: int, unreadable: int, little: bool) -> None:
    held = [made.held(2658, made.process(943 + number)) for number in range(holders)]
    card = made.info(census=made.looked(*held, unattributed=mib * made.MIB, unreadable=unreadable))
    (line,) = [one for one in card_lines(card, NOW, 120) if "nobody can be named" in one]
    assert f"{mib} MiB  that nobody can be named for" in line
    assert line.endswith("(sources may differ)") == little
    assert len(line) <= 80


def test_what_a_card_does_not_have_is_nothing_unknown() -> None:
    card = made.info(measures=(made.told(Quantity.FAN, None, absent="this card has no fan of its own"),))
    assert "  fan          none: this card has no fan of its own" in card_lines(card, NOW, 100)


def test_what_the_driver_keeps_is_a_row_of_its_own_and_not_a_holders() -> None:
    card = made.info(measures=(made.told(Quantity.MEMORY_RESERVED, 615.0 * made.MIB),))
    lines = card_lines(card, NOW, 100)
    assert "  reserved     615 MiB more, which the driver keeps for itself" in lines


def test_a_card_in_order_has_no_word_for_what_is_off_or_never_happened() -> None:
    quiet = made.info(
        details=(made.detail("mig", "disabled"), made.detail("remapped_rows", "0 (0 after uncorrected errors)"))
    )
    loud = made.info(
        details=(made.detail("mig", "enabled"), made.detail("remapped_rows", "2 (1 after uncorrected errors)"))
    )
    assert not any("mig" in line or "remapped" in line for line in card_lines(quiet, NOW, 100))
    assert any("mig enabled; remapped rows 2" in line for line in card_lines(loud, NOW, 100))


def test_a_look_that_is_old_or_at_ours_alone_says_so() -> None:
    old = made.looked(made.held(5, made.process(1), ours=True), at=NOW - 90.0, everybody=False, unattributed=None)
    text = "\n".join(card_lines(made.info(census=old), NOW, 100))
    assert "only our backend was looked at, seen 1 min 30 s ago" in text
    assert "nobody can be named" not in text, "of others nothing is known, and nothing is said"


@pytest.mark.parametrize(
    ("driver", "version", "row"),
    [
        ("nvidia", "580.65.06", "  driver       nvidia 580.65.06"),
        ("xe", "xe of Linux 6.18.2", "  driver       xe of Linux 6.18.2"),
        ("xe", None, "  driver       xe"),
        (None, None, "  driver       none is bound to it"),
    ],
)
def test_a_driver_is_told_with_its_version(driver: str | None, version: str | None, row: str) -> None:
    details = () if version is None else (made.detail("driver", version),)
    assert card_lines(made.info(driver=driver, details=details), NOW, 80)[1] == row


def test_a_card_that_is_gone_is_named_as_such() -> None:
    gone = made.info(vendor=0, device=0, name=None, driver=None, measures=())
    assert card_lines(gone, NOW, 80)[0] == "0000:03:00.0  not in this machine"


def test_the_daemon_looks_into_every_process_once(arcops: Callable[..., Ran], telling: Tell) -> None:
    daemon = telling(made.cards(made.info(), made.info(SECOND, name=None, driver=None)))
    ran = arcops("gpu")
    assert (ran.code, ran.err, daemon.asked) == (0, "", [True])
    assert "0000:04:00.0  a card without a name here [8086:e223]" in ran.out
    assert "none is bound to it" in ran.out
    assert "\x1b" not in ran.out, "nothing is painted where nobody looks"


@pytest.mark.parametrize("name", [SECOND, "04:00.0", "0000:04:00.0".upper()])
def test_one_card_is_shown_by_its_address_or_the_end_of_it(
    arcops: Callable[..., Ran], telling: Tell, name: str
) -> None:
    telling(made.cards(made.info(), made.info(SECOND)))
    ran = arcops("gpu", name, "--json")
    found = msgspec.json.decode(ran.out, type=wire.Cards)
    assert ([one.address for one in found.cards], ran.code) == ([SECOND], 0)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("0000:09:00.0", "there is no card '0000:09:00.0'"), (":00.0", "':00.0' may be more than one"), ("", "'' may be")],
)
def test_a_card_that_is_not_there_or_not_one_is_refused_with_those_there_are(
    arcops: Callable[..., Ran], telling: Tell, name: str, problem: str
) -> None:
    telling(made.cards(made.info(), made.info(SECOND)))
    ran = arcops("gpu", name)
    assert (ran.code, ran.out) == (2, "")
    assert problem in ran.err
    assert f"there are: {FIRST}, {SECOND}" in ran.err


def test_a_machine_without_a_card_is_no_error(arcops: Callable[..., Ran], telling: Tell) -> None:
    telling(made.cards())
    ran = arcops("gpu")
    assert (ran.code, ran.out) == (0, "")
    assert "there is no card in this machine" in ran.err
    assert msgspec.json.decode(arcops("gpu", "--json").out, type=wire.Cards).cards == ()


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (NoDaemonError("no daemon answers on /x"), "no daemon answers: this is what can be seen from here"),
        (
            ArcopsError("there is no GET /v1/cards", exit_code=ExitCode.USAGE),
            "the daemon does not tell of its cards (there is no GET /v1/cards)",
        ),
    ],
    ids=["no daemon", "an older daemon"],
)
def test_without_a_daemon_that_tells_the_cards_are_read_here_and_that_is_said(
    arcops: Callable[..., Ran], telling: Tell, refusal: ArcopsError, words: str
) -> None:
    telling(refusal)
    ran = arcops("gpu")
    assert ran.code == 0
    assert ran.out.startswith(SECOND)
    assert words in ran.err


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_watching_goes_on_until_ctrl_c_and_looks_at_everybody_now_and_then(
    arcops: Callable[..., Ran], telling: Tell, monkeypatch: pytest.MonkeyPatch, extra: tuple[str, ...]
) -> None:
    daemon, pauses = telling(made.cards(made.info())), iter(range(5))

    def sleep(seconds: float) -> None:
        assert 0.0 <= seconds <= command.AGAIN_AFTER
        if next(pauses, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", sleep)
    ran = arcops("gpu", "--watch", *extra)
    assert ran.code == 130
    assert daemon.asked == [True, False, False, False, False, True]
    assert len(re.findall(FIRST, ran.out)) == 6
    if extra:
        assert all(msgspec.json.decode(line, type=wire.Cards) for line in ran.out.splitlines())
