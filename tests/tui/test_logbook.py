"""The lines that are kept of a log: levels, the filter, what is searched, and what a line costs."""

import time
from statistics import median

import pytest

from arcops.tui.logs.book import Level, Levels, Logbook, after

ENGINE_FAILS = (
    "(EngineCore pid=14837) INFO 11-30 09:37:11 [cpu.py:90] Using the KV cache layout LBHNC.",
    "(EngineCore pid=14837) ERROR 11-30 09:37:11 [core.py:1374] EngineCore failed to start.",
    '(EngineCore pid=14837) ERROR 11-30 09:37:11 [core.py:1374]   File "/opt/vllm/engine/core.py", line 1336, in run',
    "(EngineCore pid=14837) Process EngineCore:",
    "(EngineCore pid=14837) Traceback (most recent call last):",
    '(EngineCore pid=14837)   File "/usr/lib/python3/multiprocessing/process.py", line 314, in _bootstrap',
    "(APIServer pid=10593) INFO 11-30 09:37:12 [launcher.py:38] Route: /metrics, Methods: GET",
    "(EngineCore pid=14837)     self.run()",
    "(EngineCore pid=14837) ValueError: To serve at least one request with the model's max seq len (32768), ...",
)


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("INFO 11-30 09:36:07 [importing.py:74] Triton is installed", Level.ALL),
        ("(APIServer pid=1) WARNING 11-30 09:37:12 [system_utils.py:299] Found ulimit of 20000", Level.WARNING),
        ("(Worker_TP0 pid=9) CRITICAL 11-30 09:37:12 [worker.py:1] gone", Level.ERROR),
        ("(APIServer pid=1) ERROR 11-30 09:37:12.123 [async_llm.py:7] AsyncLLM output_handler failed.", Level.ERROR),
        ('(APIServer pid=1) INFO:     127.0.0.1:39244 - "POST /v1/completions HTTP/1.1" 200 OK', Level.ALL),
        ("(APIServer pid=1) ERROR:    Exception in ASGI application", Level.ERROR),
        ("[W1130 09:37:30.857864916 utils.cpp:68] Warning: NUMA binding", Level.WARNING),
        ("[rank0]:[E1130 10:59:15.749844827 ProcessGroupNCCL.cpp:1575] watchdog", Level.ERROR),
        ("/usr/lib/python3/multiprocessing/resource_tracker.py:254: UserWarning: leaked", Level.WARNING),
        ("vllm serve: error: argument --max-num-seqs: invalid int value: 'abc'", Level.ERROR),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB.", Level.ERROR),
        ("Exception: WorkerProc initialization failed due to an exception", Level.ERROR),
        ("18:08:14 [info     ] phase                          phase=serving", Level.ALL),
        ("18:08:14 [warning  ] journal                        lost='a b'", Level.WARNING),
        ("18:08:14 [error    ] fault", Level.ERROR),
        ("WARNING 11-30 18:05:01 [arcopsd] journal: lost an event", Level.WARNING),
        ("Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]", Level.ALL),
        ("he said ERROR and WARNING in the middle", Level.ALL),
        ("", Level.ALL),
    ],
)
def test_each_kind_of_line_has_the_level_that_it_says(line: str, level: Level):
    assert Levels().of(line) is level


def test_a_traceback_has_the_level_of_its_error_even_where_another_process_writes_in_between():
    levels = Levels()
    found = [levels.of(line) for line in ENGINE_FAILS]
    assert found == [
        Level.ALL,
        Level.ERROR,
        Level.ERROR,
        Level.ALL,
        Level.ERROR,
        Level.ERROR,
        Level.ALL,
        Level.ERROR,
        Level.ERROR,
    ]


def test_text_from_outside_is_kept_harmless():
    book = Logbook()
    book.add(["\x1b[31mred\x1b[0m [b]bold[/b] \x1b]0;title\x07 and a bell \x07"])
    assert book[0].text == "red [b]bold[/b]  and a bell �"


def texts(book: Logbook) -> list[str]:
    return [book[number].text for number in book.shown]


def test_the_filter_shows_what_is_at_least_as_bad_and_what_comes_later_as_well():
    book = Logbook()
    book.add(["INFO 11-30 09:36:07 [a.py:1] one", "WARNING 11-30 09:36:07 [a.py:1] two"])
    book.filter(Level.WARNING)
    book.add(["ERROR 11-30 09:36:07 [a.py:1] three", "INFO 11-30 09:36:07 [a.py:1] four"])
    assert [text.rpartition(" ")[2] for text in texts(book)] == ["two", "three"]
    book.filter(Level.ERROR)
    assert [text.rpartition(" ")[2] for text in texts(book)] == ["three"]
    book.filter(Level.ALL)
    assert len(book.shown) == book.kept == 4


def test_a_search_finds_only_in_what_is_shown_and_goes_on_with_what_comes():
    book = Logbook()
    book.add(["INFO 11-30 09:36:07 [a.py:1] KV cache", "WARNING 11-30 09:36:07 [a.py:1] kv Cache", "else"])
    book.search("kv cache")
    assert list(book.found) == [0, 1]
    book.filter(Level.WARNING)
    assert list(book.found) == [1]
    book.add(["ERROR 11-30 09:36:07 [a.py:1] KV CACHE"])
    assert list(book.found) == [1, 3]
    assert book.match(1, forward=True) == 3
    assert book.match(3, forward=True) == 1
    assert book.match(1, forward=False) == 3
    book.search("")
    assert book.match(0, forward=True) is None


def test_the_first_error_and_the_one_after_it():
    book = Logbook()
    assert book.first_error() is None
    book.add(ENGINE_FAILS)
    assert book.first_error() == 1
    assert book.next_error(1) == 4
    assert book.next_error(7) is None


def test_the_oldest_lines_go_and_numbers_stay_what_they_are():
    book = Logbook(most=100)
    book.search("7")
    for number in range(1000):
        book.add([f"line {number}"])
    assert 50 <= book.kept <= 100
    assert book[999].text == "line 999"
    assert book.shown[-1] == 999
    assert book.shown[0] == 1000 - book.kept
    assert all("7" in book[number].text for number in book.found)
    with pytest.raises(IndexError):
        book[0]


def test_more_lines_at_once_than_are_kept():
    book = Logbook(most=100)
    book.add([f"line {number}" for number in range(1000)])
    assert book.kept <= 100
    assert texts(book)[-1] == "line 999"


@pytest.mark.parametrize(
    ("tail", "read", "new"),
    [
        ([], ["a", "b"], ["a", "b"]),
        (["a", "b"], ["a", "b", "c"], ["c"]),
        (["a", "b"], ["b", "c"], ["c"]),
        (["a", "b"], ["a", "b"], []),
        (["a", "b", "b"], ["a", "b", "b", "b"], ["b"]),
        (["a", "b"], ["c", "d"], None),
        (["a", "b"], ["x", "b", "c"], None),
    ],
)
def test_what_is_read_anew_goes_on_where_the_last_reading_ended(
    tail: list[str], read: list[str], new: list[str] | None
):
    assert after(tail, read) == new


def test_after_a_break_nothing_is_told_twice_and_what_may_lack_is_known():
    book = Logbook()
    book.add(["one", "\x1b[31mtwo\x1b[0m"])
    assert book.unread(["one", "\x1b[31mtwo\x1b[0m", "three"]) == ["three"]
    assert book.unread(["eight", "nine"]) is None


def test_a_divider_is_a_line_of_its_own():
    book = Logbook()
    book.add(["one"])
    book.divide("launch [b]2[/b]\x1b[31m")
    assert texts(book) == ["one", "──── launch [b]2[/b] ────"]


def cost_of_a_line(kept: int) -> float:
    """Seconds for a line, in a book that has so many: the median of twenty seconds' worth of fifty."""
    book = Logbook()
    book.search("cache")
    line = "(EngineCore pid=4311) INFO 01-15 08:10:{:02d} [loggers.py:257] Engine 000: KV cache usage: 62.4%, line {}"
    book.add([line.format(number % 60, number) for number in range(kept)])
    found: list[float] = []
    for second in range(20):
        began = time.perf_counter()
        for part in range(4):
            book.add([line.format(second, number) for number in range(part * 13, part * 13 + 13)])
        found.append((time.perf_counter() - began) / 52)
    return median(found)


def test_a_line_costs_the_same_however_many_are_kept():
    few = min(cost_of_a_line(100) for _ in range(3))
    many = min(cost_of_a_line(20_000) for _ in range(3))
    assert many < 4 * few
