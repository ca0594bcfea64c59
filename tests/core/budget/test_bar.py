"""The card as one bar: every cell is somebody's, and what lies beyond the card is seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.budget.bar import Bar, Part, bar_of

USES = ("weights", "cache", "rest")


def made(total: int | None, foreign: int | None, *sizes: int | None, width: int = 10) -> Bar | None:
    """Weights, cache and the rest, of these sizes."""
    return bar_of(zip(USES, sizes, strict=True), total, foreign, width)


def drawn(bar: Bar | None) -> str:
    assert bar is not None
    return "".join(part.value * cells for part, cells in bar.parts)


@pytest.mark.parametrize(
    ("sizes", "looks", "end"),
    [
        ((100, 10, 40, 30, 10), "×████▓▓▓▒·", None),
        ((100, 0, 40, 30, 30), "████▓▓▓▒▒▒", None),
        ((100, None, 40, 30, 10), "████▓▓▓▒··", None),
        ((100, 60, 40, 60, 40), "×××██▓▓▓▒▒", 5),
        ((None, None, 40, 40, 20), "████▓▓▓▓▒▒", None),
        ((100, 0, 0, 0, 0), "··········", None),
    ],
)
def test_each_part_has_its_share_of_the_cells(sizes: tuple[int | None, ...], looks: str, end: int | None) -> None:
    found = made(*sizes)
    assert drawn(found) == looks
    assert found is not None
    assert found.end == end


@pytest.mark.parametrize("sizes", [(100, 0, 40, None, 10), (None, None, 0, 0, 0), (0, 0, 0, 0, 0)])
def test_what_cannot_be_drawn_to_scale_is_not_drawn(sizes: tuple[int | None, ...]) -> None:
    assert made(*sizes) is None
    assert made(100, 0, 1, 1, 1, width=0) is None


sizes = st.integers(0, 1 << 40)


@given(st.none() | sizes, st.none() | sizes, sizes, sizes, sizes, st.integers(1, 200))
def test_cells_add_up_at_any_width(
    total: int | None, foreign: int | None, weights: int, cache: int, rest: int, width: int
) -> None:
    found = made(total, foreign, weights, cache, rest, width=width)
    if found is None:
        return
    assert sum(cells for _, cells in found.parts) == width
    assert all(cells > 0 for _, cells in found.parts)
    assert (found.end is not None) is (total is not None and weights + cache + rest + (foreign or 0) > total)
    assert found.end is None or 0 <= found.end < width
    assert found.end is None or Part.FREE not in dict(found.parts)
