"""The supervisor's own log as the screen shows it: the last lines, with time and level, from wherever they come."""

import logging
import threading
from collections.abc import Generator
from datetime import datetime

import pytest
import structlog

from arcops import words
from arcops.daemon.main import configure_logging
from arcops.daemon.own_log import LINES, LONGEST, OwnLog

NOON = datetime(2026, 11, 30, 12, 0, 5)  # noqa: DTZ001 - the log's own time is the local one


@pytest.fixture
def own_log() -> Generator[OwnLog]:
    """As the daemon has it; what it changes for the whole process is put back."""
    root, before = logging.getLogger(), list(logging.getLogger().handlers)
    try:
        yield configure_logging()
    finally:
        structlog.reset_defaults()
        for handler in [one for one in root.handlers if one not in before]:
            root.removeHandler(handler)


def lines(own_log: OwnLog) -> list[str]:
    return list(own_log.tail(LINES)[1])


def test_a_line_carries_level_time_and_text_in_the_form_of_vllms(own_log: OwnLog) -> None:
    structlog.get_logger().warning("phase", phase="failed", reason="out of memory")
    (line,) = lines(own_log)
    assert line.startswith("WARNING ")
    assert line.endswith(" [arcopsd] phase phase=failed reason=out of memory")
    short = words.short_log_line(line)
    assert short.split(" ", 1)[1] == "WARNING phase phase=failed reason=out of memory"


def test_a_fault_is_kept_with_its_traceback_a_line_each(own_log: OwnLog) -> None:
    try:
        int("of ours")
    except ValueError:
        structlog.get_logger().exception("history")
    found = lines(own_log)
    assert found[0].endswith("[arcopsd] history")
    assert found[-1].endswith("[arcopsd] ValueError: invalid literal for int() with base 10: 'of ours'")
    assert all(line.startswith("ERROR ") for line in found)


def test_warnings_of_libraries_are_in_it_and_their_small_talk_is_not(own_log: OwnLog) -> None:
    logging.getLogger("asyncio").error("Task exception was never %s", "retrieved")
    logging.getLogger("httpx").info("HTTP Request: GET /metrics")
    (line,) = lines(own_log)
    assert line.startswith("ERROR ")
    assert line.endswith("[arcopsd] asyncio: Task exception was never retrieved")


def test_only_the_last_thousand_lines_are_kept_and_none_is_endless() -> None:
    own_log = OwnLog(lambda: NOON)
    for number in range(LINES + 5):
        own_log.add("INFO", f"{number} " + "x" * 10_000)
    kept = lines(own_log)
    assert (len(kept), max(map(len, kept))) == (LINES, LONGEST)
    assert kept[0].startswith("INFO 11-30 12:00:05 [arcopsd] 5 ")
    assert own_log.tail(0) == (LINES + 5, ())
    assert len(own_log.tail(3)[1]) == 3


def test_who_reads_on_gets_what_is_new_and_of_a_flood_what_is_left() -> None:
    own_log = OwnLog(lambda: NOON)
    number, found = own_log.tail(10)
    assert found == ()
    own_log.add("INFO", "one")
    number, found = own_log.after(number)
    assert [line.rpartition(" ")[2] for line in found] == ["one"]
    assert own_log.after(number) == (number, ())
    for _ in range(3 * LINES):
        own_log.add("INFO", "flood")
    assert len(own_log.after(number)[1]) == LINES


def test_lines_of_many_threads_are_all_counted() -> None:
    own_log = OwnLog(lambda: NOON)
    threads = [
        threading.Thread(target=lambda: [own_log.add("INFO", "x") for _ in range(200)] and None) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert own_log.after(0) == (1600, own_log.tail(LINES)[1])
