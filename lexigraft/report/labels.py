"""Label marks and the ends of lines so that it is clear what each label refers to.

Labels of a figure do not overlap: they are moved apart, with a thin line if they are distant.
adjustText and textalloc may place labels closest to another mark or draw lines through other
labels, and do not stack the labels of overlapping marks.
"""

from itertools import chain
from math import dist
from typing import TYPE_CHECKING, Any, NamedTuple

from lexigraft.report.style import lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation, Text
    from matplotlib.transforms import Bbox

Place = tuple[float, float]

# Lengths are in points. Candidate positions of a label around its mark: right, left, above, below,
# the corners, then the same at larger distances.
_PLACES: list[Place] = [
    (x * reach, y * reach)
    for reach in (7, 11, 16, 22, 29, 37, 46, 56)
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8),
                 (-0.8, -0.8))
]  # fmt: skip
_FAR = 12  # distance above which a label needs a line to its mark
_REACH = 5  # half the width of a mark
_HIDDEN = 7  # marks that are closer than this overlap
_GLYPH = 9  # room for a mark before a label in a stack
_STEP = 1.3  # line height of a stack, relative to the font size
_SAMPLES = 12  # points of a line that are checked


class Named(NamedTuple):
    """A mark, its position in data coordinates, and its name."""

    x: float
    y: float
    text: str
    colour: str
    marker: str = "o"


def label_points(
    axis: "Axes", points: "Sequence[tuple]", cross: Place | None = None, size: float = 7.5
) -> "list[Annotation]":
    """Label marks `(x, y, text, colour, marker)`, each at the nearest free position around it.

    Labels avoid each other, all marks, the frame and the lines through `cross`. A distant label has
    a thin line to its mark; a label without a line is closer to its mark than to any other. The
    labels of overlapping marks are stacked next to them, the highest mark first; each follows a
    copy of its mark and has a line to it. The axis limits must be final, and the figure laid out.
    """
    marks = [Named(*point) for point in points]
    plane = _Plane(axis, marks, cross)
    scale = plane.scale
    notes = [_note(axis, mark, mark.text, fontsize=size, va="bottom") for mark in marks]
    for together in _clusters(plane.at, _HIDDEN * scale):
        together.sort(key=lambda i: -plane.at[i][1])
        boxes = [notes[i].get_window_extent() for i in together]
        stack = len(together) > 1
        glyph = _GLYPH * scale if stack else 0.0
        height = _STEP * size * scale if stack else boxes[0].height
        places = [place for place in _PLACES if not stack or (place[0] and _is_far(place))]
        width = glyph + max(box.width for box in boxes)
        place, lines = plane.take(together, places, width, height)
        for i, box, line in zip(together, boxes, lines, strict=True):
            # A label to the left of its mark is right-aligned.
            left, beside = line.x0 + glyph, line.x0 + glyph / 2
            if place[0] < 0:
                left, beside = line.x1 - glyph - box.width, line.x1 - glyph / 2
            notes[i].xyann = plane.offset(i, (left, line.y0 + (line.height - box.height) / 2))
            if stack:
                _draw_glyph(axis, marks[i], plane.offset(i, (beside, (line.y0 + line.y1) / 2)))
            if _is_far(place):
                arrow = {"arrowstyle": "-", "color": marks[i].colour, "lw": 0.5, "shrinkA": 0,
                         "shrinkB": 3}  # fmt: skip
                leader = _note(axis, marks[i], "", arrowprops=arrow)
                leader.xyann = plane.offset(i, _end(line, plane.at[i], stack))
    return notes


def label_marks(
    figure: "Figure", panels: "Sequence[tuple[Axes, Sequence[tuple], Place | None]]"
) -> None:
    """Lay out the figure for the last time and label the marks of each panel (`label_points`)."""
    lay_out(figure)
    for axis, points, cross in panels:
        label_points(axis, points, cross)


def spread(values: "Sequence[float]", gap: float) -> list[float]:
    """Positions closest to `values` (least squares) with the same order and a minimum `gap`.

    Isotonic regression (pool adjacent violators) of the values minus their minimal positions.
    """
    import numpy as np
    from scipy.optimize import isotonic_regression

    order = np.argsort(values, kind="stable")
    steps = gap * np.arange(len(values))
    placed = np.empty(len(values))
    placed[order] = isotonic_regression(np.asarray(values, float)[order] - steps).x + steps
    return placed.tolist()


def label_ends(
    axis: "Axes", ends: "Sequence[tuple[float, float, str, str]]", size: float = 7.5
) -> "list[Text]":
    """Label lines at their right ends, `(x, y, text, colour)` each, spread so that none overlap.

    The axis limits must be final, and the figure laid out.
    """
    if not ends:
        return []
    scale = axis.figure.dpi / 72
    at = [axis.transData.transform(end[:2]) / scale for end in ends]  # in points
    places = spread([float(point[1]) for point in at], gap=_STEP * size)
    frame = axis.get_window_extent()
    low, high = frame.y0 / scale + 0.8 * size, frame.y1 / scale - 0.5 * size
    slack = max(0.0, max(places) - high) or min(0.0, min(places) - low)
    right = max(float(point[0]) for point in at) + 12
    texts: list[Text] = []
    for end, point, place in zip(ends, at, places, strict=True):
        mark = Named(*end)
        line = {"arrowstyle": "-", "color": mark.colour, "lw": 0.5, "shrinkA": 1, "shrinkB": 2,
                "relpos": (0, 0.5)}  # fmt: skip
        note = _note(axis, mark, mark.text, fontsize=size, va="center", arrowprops=line)
        note.xyann = (right - point[0], place - slack - point[1])
        texts.append(note)
    return texts


def label_room(axis: "Axes", names: "Sequence[str]", size: float = 7.5) -> float:
    """Share of the axis's width that `label_ends` needs for these names."""
    widths = [0.0]
    for name in names:
        note = axis.text(0, 0, name, fontsize=size)
        widths.append(note.get_window_extent().width)
        note.remove()
    return (max(widths) + 18 * axis.figure.dpi / 72) / axis.get_window_extent().width


class _Plane:
    """The content of an axis in pixels: marks, the lines through `cross`, and the labels so far."""

    def __init__(self, axis: "Axes", marks: list[Named], cross: Place | None) -> None:
        from matplotlib.transforms import Bbox

        self.scale = axis.figure.dpi / 72  # pixels per point
        self.frame = axis.get_window_extent()
        reach = _REACH * self.scale
        places = [axis.transData.transform(mark[:2]) for mark in marks]
        self.at: list[Place] = [(float(x), float(y)) for x, y in places]
        self.marks = [Bbox.from_extents(x - reach, y - reach, x + reach, y + reach)
                      for x, y in self.at]  # fmt: skip
        self.rules = []
        if cross is not None:
            (x, y), frame = axis.transData.transform(cross), self.frame
            self.rules = [Bbox.from_extents(frame.x0, y - 1, frame.x1, y + 1),
                          Bbox.from_extents(x - 1, frame.y0, x + 1, frame.y1)]  # fmt: skip
        self.named: list[Bbox] = []
        self.lines: list[Place] = []  # points of the lines to labels

    def offset(self, i: int, place: Place) -> Place:
        """The offset of a position from a mark, in points."""
        (x, y), (left, low) = self.at[i], place
        return (left - x) / self.scale, (low - y) / self.scale

    def take(
        self, own: list[int], places: list[Place], width: float, height: float
    ) -> "tuple[Place, list[Bbox]]":
        """Take the first position around some marks without cost, or the one with the lowest cost.

        Returns it with the boxes of the lines of text, each `width` by `height`, one per mark.
        """
        from matplotlib.transforms import Bbox

        x, y = (sum(self.at[i][axis] for i in own) / len(own) for axis in (0, 1))
        found, least = None, float("inf")
        for place in places:
            left = x + place[0] * self.scale - width * (1 - _sign(place[0])) / 2
            top = y + place[1] * self.scale + len(own) * height * (1 + _sign(place[1])) / 2
            boxes = [Bbox.from_extents(left, top - (line + 1) * height,
                                       left + width, top - line * height)
                     for line in range(len(own))]  # fmt: skip
            ways = [way for i, box in zip(own, boxes, strict=True)
                    for way in _way(self.at[i], _end(box, self.at[i], len(own) > 1))]  # fmt: skip
            cost = self._cost(own, place, Bbox.union(boxes), ways)
            if found is None or cost < least - 1e-6:
                found, least = (place, boxes, ways), cost
            if least < 1e-6:
                break
        assert found is not None
        place, boxes, ways = found
        self.named.append(Bbox.union(boxes).padded(self.scale))
        self.lines += ways if _is_far(place) else []
        return place, boxes

    def _cost(self, own: list[int], place: Place, box: "Bbox", ways: list[Place]) -> float:
        cost = sum(_overlap(box, other) for other in chain(self.marks, self.rules, self.named))
        cost += box.width * box.height - _overlap(box, self.frame)
        others = [i for i in range(len(self.at)) if i not in own]
        # A line through a label or another mark would seem to lead there.
        on_the_way = [*self.named, *(self.marks[i] for i in others)]
        cost += 100 * sum(other.contains(*point) for other in on_the_way for point in ways)
        cost += 100 * sum(box.contains(*point) for point in self.lines)
        if not _is_far(place) and others:
            nearest, mine = (min(_distance(box, self.at[i]) for i in of) for of in (others, own))
            cost += 1000 * (nearest <= mine)
        return cost


def _note(axis: "Axes", mark: Named, text: str, **looks: Any) -> "Annotation":
    note = axis.annotate(text, mark[:2], (0, 0), textcoords="offset points", color=mark.colour,
                         annotation_clip=False, **looks)  # fmt: skip
    note.set_in_layout(False)
    return note


def _draw_glyph(axis: "Axes", mark: Named, offset: Place) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.transforms import offset_copy

    x, y = offset
    beside = offset_copy(axis.transData, axis.figure, x, y, units="points")  # type: ignore[arg-type]
    glyph = Line2D([mark.x], [mark.y], marker=mark.marker, color=mark.colour, ms=4.5, ls="")
    glyph.set(transform=beside, clip_on=False, in_layout=False)
    axis.add_artist(glyph)


def _clusters(at: list[Place], reach: float) -> list[list[int]]:
    """Indices of connected positions, in order; positions closer than `reach` are connected."""
    import numpy as np
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial.distance import cdist

    if not at:
        return []
    count, groups = connected_components(cdist(at, at) < reach)
    return [np.flatnonzero(groups == group).tolist() for group in range(count)]


def _is_far(place: Place) -> bool:
    return max(map(abs, place)) > _FAR


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _end(box: "Bbox", mark: Place, stack: bool = False) -> Place:
    """The point of a label closest to its mark, where its line ends; in a stack, at half height."""
    x, y = (min(max(at, low), high) for at, low, high in zip(mark, box.min, box.max, strict=True))
    return x, (box.y0 + box.y1) / 2 if stack else y


def _way(mark: Place, end: Place) -> list[Place]:
    """Points on the line from a mark to its label."""
    (x, y), (right, top) = mark, end
    steps = [step / _SAMPLES for step in range(1, _SAMPLES + 1)]
    return [(x + (right - x) * step, y + (top - y) * step) for step in steps]


def _overlap(one: "Bbox", other: "Bbox") -> float:
    """Area of the intersection of two boxes, in square pixels."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return max(0.0, width) * max(0.0, height)


def _distance(box: "Bbox", mark: Place) -> float:
    return dist(mark, _end(box, mark))
