"""The report: what it says first, what it never hides, and that nothing in it is fetched, run, or foreign markup."""

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from arcops.core.errors import ArcopsError, ExitCode
from arcops.core.evidence.environment import ChangedFile, Departure, Distribution, Environment, digest_of
from arcops.core.evidence.qualification import Gate, Qualification, Verdict
from arcops.core.evidence.run import ClientLoad, Counters, Run
from arcops.core.evidence.setting import Befallen, CeilingAt
from arcops.core.evidence.soak import Settled, Soak, Span, Trouble
from arcops.evidence.record import Record
from arcops.evidence.report.page import MOST_RECORDS, html
from arcops.evidence.shelf import Stored
from arcops.evidence.standing import kept
from tests.core.evidence.test_comparable import environment
from tests.evidence import made

HOSTILE = (
    "<script>alert(1)</script></style><img src=http://evil.invalid/x onerror=x>\x1b[31m{{ 7 * 7 }}&#x202e;\u202e\"'"
)
PASSIVE = {
    "html", "head", "meta", "title", "link", "style", "body", "header", "main", "nav", "section", "footer", "h1", "h2",
    "h3", "h4", "p", "ul", "li", "a", "strong", "span", "dl", "div", "dt", "dd", "code", "pre", "table", "caption",
    "thead", "tbody", "tr", "th", "td", "details", "summary", "figure", "figcaption", "svg", "g", "path", "circle",
    "text", "desc",
}  # fmt: skip
"""Elements that neither load nor run anything."""


class Parsed(HTMLParser):
    """Which elements and attributes a page has, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


Report = Callable[..., str]


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Of records that were written to a shelf and read from it."""

    def of(*records: Record) -> str:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        return html([made.stored(folder / str(n), one) for n, one in enumerate(records)], folder)

    return of


def before(page: str, first: str, second: str) -> bool:
    return first in page and second in page and page.index(first) < page.index(second)


def soaked() -> Soak:
    """Of which one long prompt went wrong."""
    spans = (Span("short", 0.0, 60.0, 9, 0, ((60, 9),), ((40, 9),)), Span("long", 0.0, 60.0, 3, 1, ((80, 2),)))
    trouble = Trouble(12.0, 3, "long", "HTTP 500", 0.5)
    idle = Settled(1.0, 0.0, 0.0, 0.0)
    load = ClientLoad(60.0, 1.0, 0.0001, 0.0005, 0.002)
    ends = Counters(0.0, made.STARTED), Counters(60.0, made.STARTED)
    return Soak(
        {}, 4, 0.0, 60.0, 60.0, False, spans, {"long: HTTP 500": 1}, (trouble,), (), *ends, (), 120, (), idle, load
    )


def every_kind() -> list[Record]:
    small = made.ladder((1, 2), odd_from=2)
    depths = made.context(depths=(64, 128))
    gates = (Gate("chat", Verdict.FAILED, "said 5", ("2+2 is 5",), 1.0), Gate("tools", Verdict.SKIPPED, "not asked"))
    qualified = msgspec.structs.replace(
        made.record(small),
        kind="qualification",
        run=None,
        identity=None,
        qualification=Qualification("mtp", "sha256:0", gates),
    )
    soak = msgspec.structs.replace(made.record(small), kind="soak", run=None, identity=None, soak=soaked())
    return [made.record(small), made.record(depths), made.record(made.suite()), qualified, soak]


def test_a_soak_says_what_went_wrong(report: Report) -> None:
    page = Parsed(report(every_kind()[-1])).text
    assert "HTTP 500" in page
    assert "errors failed" in page


@pytest.mark.parametrize("record", every_kind(), ids=lambda one: one.kind)
def test_a_report_loads_nothing_runs_nothing_and_closes_what_it_opens(record: Record, report: Report) -> None:
    page = report(record)
    found = Parsed(page)
    assert found.open == []
    assert set(found.tags) <= PASSIVE
    assert not [
        one for one in found.attributes if one[1].startswith("on") or one[1] in ("src", "srcset", "action", "style")
    ]
    links = [value for _, name, value in found.attributes if name in ("href", "xlink:href")]
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert "url(" not in page
    assert "@import" not in page
    assert "http" not in "".join(value for _, name, value in found.attributes if name != "http-equiv")


@pytest.mark.parametrize("record", every_kind()[:3], ids=lambda one: one.kind)
def test_every_plot_has_a_title_a_description_and_its_values_beside_it(record: Record, report: Report) -> None:
    page = report(record)
    figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    assert figures
    names = [re.search(r'aria-labelledby="(\S+) (\S+)"', one) for one in figures]
    for figure, name in zip(figures, names, strict=True):
        assert name is not None
        assert f'<title id="{name[1]}">' in figure
        assert f'<desc id="{name[2]}">' in figure
        assert figure.count("<tr>") > 1
    identities = re.findall(r' id="([^"]+)"', page)
    assert len(identities) == len(set(identities))


def hostile(small: Run) -> Record:
    """With foreign words wherever a server, a file or a person can put some."""
    where = made.setting(small, befallen=(Befallen(1.0, HOSTILE, HOSTILE, spoils=True),))
    where = replace(
        where,
        server=replace(where.server, model=HOSTILE, model_root=HOSTILE, version=HOSTILE, cache={HOSTILE: HOSTILE}),
        configuration=replace(
            where.configuration,
            profile=HOSTILE,
            argv=("vllm", HOSTILE),
            environment=((HOSTILE, HOSTILE),),
            launch_id=HOSTILE,
        ),
        cards=tuple(replace(card, name=HOSTILE, address=HOSTILE) for card in where.cards),
        samples=tuple(replace(look, address=HOSTILE) for look in where.samples),
        unwatched=HOSTILE,
    )
    stages = tuple(
        replace(
            part, name=f"{part.name} {HOSTILE}", requests=tuple(replace(one, finish=HOSTILE) for one in part.requests)
        )
        for part in small.stages
    )
    canaries = tuple(replace(one, question=HOSTILE, text=HOSTILE) for one in small.canaries)
    gate = Gate(HOSTILE, Verdict.FAILED, HOSTILE, (HOSTILE,))
    package = Distribution(HOSTILE, HOSTILE, HOSTILE, files=(ChangedFile(HOSTILE, Departure.CHANGED, None, HOSTILE),))
    environment = Environment(
        HOSTILE, HOSTILE, (package,), ((HOSTILE, HOSTILE),), (), None, None, (), (), {}, (HOSTILE,)
    )
    return msgspec.structs.replace(
        made.record(replace(small, stages=stages, canaries=canaries), where, note=HOSTILE),
        environment=environment,
        qualification=Qualification(HOSTILE, HOSTILE, (gate,)),
        command=("arcops", HOSTILE),
    )


def test_foreign_words_are_shown_and_are_never_markup(report: Report) -> None:
    page = report(hostile(made.ladder((1, 2))), made.record(made.ladder((1, 2))))
    found = Parsed(page)
    assert set(found.tags) <= PASSIVE
    assert not [name for _, name, _ in found.attributes if name.startswith("on") or name == "src"]
    assert "<script" not in page
    assert page.count("</style>") == 1
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "49" not in re.findall(r"alert\(1\).{0,99}", found.text)[0], "a template in the words is not run"
    assert "<script>alert(1)</script>" in found.text


def test_a_spoiled_run_says_so_before_anything_else_and_has_no_median(report: Report) -> None:
    run = made.ladder((1, 2))
    page = report(made.record(run, made.setting(run, befallen=(Befallen(3.0, "reset", "GT0 was reset", spoils=True),))))
    assert before(page, "<strong>spoiled</strong>", "<figure>")
    assert "GT0 was reset" in page
    assert 'class="dot spoiled"' in page
    assert 'class="dot half"' not in page
    curve = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)[0]
    assert 'class="s0 solid"' not in curve, "no line is drawn through what is spoiled"


def test_a_rung_that_is_not_exact_is_drawn_hollow_behind_a_dashed_line_and_named_in_the_verdicts(
    report: Report,
) -> None:
    page = report(made.record(made.ladder((1, 2, 4), odd_from=4)))
    assert before(page, "not exact: measured but not qualified", "<figure>")
    first = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)[0]
    assert first.count('class="dot hollow"') == 2, "one for each pass of the rung of 4"
    assert first.count('class="dot half"') == 4
    assert 'class="s0 dashed"' in first
    assert 'class="s0 solid"' in first
    assert "measured, not qualified" in first
    assert "item-1 at token 30" in page


def test_two_runs_that_are_exact_on_two_starts_are_drawn_full(report: Report) -> None:
    first = made.ladder((1, 2))
    other = replace(
        first,
        stages=tuple(
            replace(
                one,
                before=replace(one.before, server_started=made.STARTED + 50),
                after=replace(one.after, server_started=made.STARTED + 50),
            )
            for one in first.stages
        ),
    )
    page = report(made.record(first), made.record(other, began=made.STARTED + 900))
    assert '<li class="good"><strong>qualified</strong>' in page
    assert 'class="dot full"' in page
    assert 'class="dot half"' not in page


def test_runs_that_compare_share_their_plots_and_others_do_not_and_it_is_said_in_what_they_differ(
    report: Report,
) -> None:
    run = made.ladder((1, 2))
    same = report(made.record(run), made.record(run, began=made.STARTED + 900))
    assert "in the same plots" in same
    assert "not comparable" not in same
    where = made.setting(run)
    other = replace(where, server=replace(where.server, version="0.30.0"))
    apart = report(made.record(run), made.record(run, other, began=made.STARTED + 900))
    assert "in the same plots" not in apart
    assert before(apart, "not comparable", "<figure>")
    assert "vLLM is 0.29.0, then 0.30.0" in Parsed(apart).text


def test_the_same_record_twice_is_one(report: Report) -> None:
    run = made.record(made.ladder((1,)))
    assert Parsed(report(run, run)).tags.count("section") == Parsed(report(run)).tags.count("section")


def test_what_is_not_known_is_called_unknown_and_never_drawn(report: Report) -> None:
    run = made.ladder((1,))
    blind = tuple(
        replace(one, requests=tuple(replace(each, output_tokens=None, chunk_tokens=(0,) * 40) for each in one.requests))
        for one in run.stages
    )
    page = report(made.record(replace(run, stages=blind)))
    assert "Throughput of all users" not in page
    assert "TTFT p50, seconds" in page
    assert 'class="dim n">unknown' in page


def test_the_ceiling_stands_beside_the_measured_decode(report: Report) -> None:
    run = made.context(depths=(64, 128))
    page = report(
        made.record(run, made.setting(run, ceilings=(CeilingAt(64, 160.0, 321.5), CeilingAt(128, 150.0, 300.0))))
    )
    assert "ceiling with speculation" in page
    assert "321" in page or "322" in page
    assert 'class="s0 bound"' in page


def test_a_report_says_how_its_record_is_verified(report: Report, tmp_path: Path) -> None:
    record = made.stored(tmp_path, made.record(made.ladder((1,))))
    page = Parsed(html([record], tmp_path)).text
    assert record.digest in page
    assert f"tail -c +95 {record.path.name} | head -c -2 | sha256sum" in page


def test_every_request_is_in_it(report: Report) -> None:
    run = made.ladder((1, 2, 4))
    page = report(made.record(run))
    table = page[page.index("<caption>Requests</caption>") :]
    assert table.count("<tr>") == 1 + sum(len(one.requests) for one in run.stages)


def test_no_record_and_too_many_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArcopsError) as none:
        html([], tmp_path)
    run = made.ladder((1,))
    many = [made.stored(tmp_path, made.record(run, note=str(n))) for n in range(MOST_RECORDS + 1)]
    with pytest.raises(ArcopsError) as several:
        html(many, tmp_path)
    assert {none.value.exit_code, several.value.exit_code} == {ExitCode.USAGE}


def test_figures_that_nothing_can_have_are_one_sentence(tmp_path: Path) -> None:
    run = made.ladder((1,))
    absurd = tuple(
        replace(one, requests=tuple(replace(each, prompt_tokens=10**400) for each in one.requests))
        for one in run.stages
    )
    stored = made.stored(tmp_path, made.record(run))
    record = msgspec.structs.replace(stored.record, run=replace(run, stages=absurd))
    with pytest.raises(ArcopsError, match="larger than any float"):
        html([replace(stored, record=record)], tmp_path)


def test_two_environments_that_are_kept_are_told_apart_by_what_is_in_them(tmp_path: Path) -> None:
    run = made.ladder((1,))
    records: list[Stored] = []
    for number, torch in enumerate(("2.13.0", "2.14.0")):
        found = environment(torch)
        kept.keep(tmp_path / "environments", found)
        where = made.setting(run)
        launched = replace(where.configuration, environment_digest=digest_of(found))
        records.append(
            made.stored(tmp_path, made.record(run, replace(where, configuration=launched), note=str(number)))
        )
    assert "distribution torch: 2.13.0" in Parsed(html(records, tmp_path / "environments")).text
    assert "distribution torch" not in Parsed(html(records, tmp_path / "nowhere")).text
