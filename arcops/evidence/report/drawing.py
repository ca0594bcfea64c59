"""A plot as SVG that a page holds inline: no script, no style, no address in it; the page's stylesheet gives colours.

pygal lays it out. What it writes is taken apart again, and only shapes and words are kept.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, cast
from xml.etree import ElementTree

import pygal
from markupsafe import Markup
from pygal.style import Style

from arcops.evidence.report.scales import Scale, bounded

COLOURS: Final = 8
"""The stylesheet has so many; what comes after them begins anew."""
_WIDTH: Final = 520
_HEIGHT: Final = 300
_SVG: Final = "{http://www.w3.org/2000/svg}"
_RADIUS: Final = "3.5"


# pygal hooks into every import of the program for plug-ins that are not used here, in a way that Python warns of.
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != pygal.__name__]


class Stroke(Enum):
    """What a line means."""

    SOLID = "solid"
    DASHED = "dashed"
    """Measured, not qualified."""
    BOUND = "bound"
    """A ceiling: reckoned, not measured."""


class Fill(Enum):
    """What a dot means."""

    FULL = "full"
    HALF = "half"
    """Exact, and awaits a second run."""
    HOLLOW = "hollow"
    """Measured, not qualified."""
    SPOILED = "spoiled"
    """Shown, and in no median."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One value."""

    x: float
    y: float
    words: str
    """Shown where the pointer rests on it."""
    fill: Fill = Fill.FULL


@dataclass(frozen=True, slots=True)
class Series:
    """Dots and lines of one colour, in the axes' own coordinates."""

    colour: int
    dots: tuple[Dot, ...] = ()
    lines: tuple[tuple[Stroke, tuple[tuple[float, float], ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of the x axis: a stage."""

    began: float
    ended: float
    words: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the x axis where something befell the run."""

    at: float
    words: str
    bad: bool


@dataclass(frozen=True, slots=True)
class Plot:
    """What is drawn."""

    title: str
    """With the unit of y."""
    description: str
    """What it shows, for whoever cannot see it."""
    x_title: str
    x: Scale
    y: Scale
    series: tuple[Series, ...]
    bands: tuple[Band, ...] = ()
    marks: tuple[Mark, ...] = ()


class _Chart(Protocol):
    """What is used of pygal, which has no types."""

    def add(self, title: str, values: Sequence[object], **options: object) -> object: ...

    def render(self, *, is_unicode: bool) -> str: ...


@dataclass(frozen=True, slots=True)
class _Layer:
    """What is handed to pygal as one series of its own."""

    name: str
    """The class that it has in the page."""
    points: tuple[tuple[float, float], ...]
    titles: tuple[str, ...]
    """Of the dots, in their order; of a line or a band, one at most."""
    classes: tuple[str, ...] = ()
    """Of the dots; empty for a line or a band."""
    filled: bool = False


def svg(plot: Plot, name: str) -> Markup:
    """`name` is unique in the page: what labels the picture is found by it."""
    layers = tuple(_layers(plot))
    chart = _chart(plot)
    for layer in layers:
        dots = bool(layer.classes)
        chart.add(
            "", [(bounded(x), bounded(y)) for x, y in layer.points], stroke=not dots, show_dots=dots, fill=layer.filled
        )
    # What is parsed is pygal's own output of numbers and of our words, from which control characters are gone.
    root = ElementTree.fromstring(chart.render(is_unicode=True))  # noqa: S314
    bare = _bare(root, layers)
    _label(bare, plot, name)
    return Markup(ElementTree.tostring(bare, encoding="unicode"))  # noqa: S704  ElementTree has escaped all words


def _chart(plot: Plot) -> _Chart:
    options: Mapping[str, object] = {
        "js": (),
        "css": (),
        "no_prefix": True,
        "disable_xml_declaration": True,
        "show_legend": False,
        "width": _WIDTH,
        "height": _HEIGHT,
        "margin": 8,
        "margin_right": 14,
        "x_title": plot.x_title,
        "range": (plot.y.low, plot.y.high),
        "xrange": (plot.x.low, plot.x.high),
        "x_labels": [{"value": at, "label": words} for at, words in plot.x.ticks],
        "y_labels": [{"value": at, "label": words} for at, words in plot.y.ticks],
        "show_x_guides": False,
        # Only room is reckoned from these: the stylesheet has the fonts.
        "style": Style(label_font_size=12, major_label_font_size=12, title_font_size=12),
    }
    return cast("_Chart", pygal.XY(**options))


def _layers(plot: Plot) -> Iterator[_Layer]:
    """From back to front."""
    low, high = plot.y.low, plot.y.high
    for number, band in enumerate(plot.bands):
        box = ((band.began, low), (band.began, high), (band.ended, high), (band.ended, low))
        yield _Layer(f"band b{number % 2}", box, (band.words,), filled=True)
    for mark in plot.marks:
        name = "mark bad" if mark.bad else "mark"
        yield _Layer(name, ((mark.at, low), (mark.at, high)), (mark.words,))
    for series in plot.series:
        for stroke, points in series.lines:
            yield _Layer(f"s{series.colour % COLOURS} {stroke.value}", points, ())
    for series in plot.series:
        if series.dots:
            yield _Layer(
                f"s{series.colour % COLOURS}",
                tuple((dot.x, dot.y) for dot in series.dots),
                tuple(dot.words for dot in series.dots),
                tuple(f"dot {dot.fill.value}" for dot in series.dots),
            )


def _bare(root: ElementTree.Element, layers: Sequence[_Layer]) -> ElementTree.Element:
    """Of pygal's picture the axes, the lines and the dots, with our own classes and words."""
    groups = {group.attrib.get("class", ""): group for group in root.iter(f"{_SVG}g")}
    plot, overlay = groups["plot"], groups["plot overlay"]
    bare = ElementTree.Element("svg", {"viewBox": root.attrib["viewBox"], "class": "plot"})
    inner = ElementTree.SubElement(bare, "g", {"transform": plot.attrib["transform"]})
    for axis in ("x", "y"):
        found = next((group for kind, group in groups.items() if kind.startswith(f"axis {axis}")), None)
        if found is not None:
            _axis(found, inner, axis)
    for number, layer in enumerate(layers):
        wanted = f"series serie-{number} color-{number}"
        _layer(layer, inner, (group for part in (plot, overlay) for group in part if group.attrib["class"] == wanted))
    for text in groups["titles"].iter(f"{_SVG}text"):
        place = {"class": "x-title", "x": text.attrib["x"], "y": text.attrib["y"]}
        ElementTree.SubElement(bare, "text", place).text = text.text
    return bare


def _axis(axis: ElementTree.Element, into: ElementTree.Element, name: str) -> None:
    group = ElementTree.SubElement(into, "g", {"class": f"axis {name}"})
    for path in axis.iter(f"{_SVG}path") if name == "y" else ():
        kind = "base" if path.attrib["class"].startswith("axis") else "guide"
        ElementTree.SubElement(group, "path", {"class": kind, "d": path.attrib["d"]})
    for text in axis.iter(f"{_SVG}text"):
        place = {"x": _short(text.attrib["x"]), "y": _short(text.attrib["y"])}
        ElementTree.SubElement(group, "text", place).text = text.text


def _layer(layer: _Layer, into: ElementTree.Element, groups: Iterable[ElementTree.Element]) -> None:
    shapes = [shape for group in groups for shape in group.iter() if shape.tag in (f"{_SVG}path", f"{_SVG}circle")]
    group = ElementTree.SubElement(into, "g", {"class": layer.name})
    classes = iter(layer.classes)
    titles = iter(layer.titles)
    for shape in shapes:
        if shape.tag == f"{_SVG}path":
            drawn = ElementTree.SubElement(group, "path", {"d": shape.attrib["d"]})
        else:
            place = {"cx": _short(shape.attrib["cx"]), "cy": _short(shape.attrib["cy"]), "r": _RADIUS}
            drawn = ElementTree.SubElement(group, "circle", {"class": next(classes, "dot"), **place})
        title = next(titles, "")
        if title:
            ElementTree.SubElement(drawn, "title").text = title


def _label(picture: ElementTree.Element, plot: Plot, name: str) -> None:
    """What a screen reader says in place of the picture."""
    title, description = (
        ElementTree.Element("title", {"id": f"{name}-t"}),
        ElementTree.Element("desc", {"id": f"{name}-d"}),
    )
    title.text, description.text = plot.title, plot.description
    picture.insert(0, title)
    picture.insert(1, description)
    picture.set("role", "img")
    picture.set("aria-labelledby", f"{name}-t {name}-d")


def _short(number: str) -> str:
    """A coordinate to a tenth of a pixel."""
    return f"{float(number):.1f}"
