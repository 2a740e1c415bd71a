"""Names of marks and of the ends of lines, each where it is plain what it names.

Labels of one figure never overlap: they are moved apart, with a thin line where they stand away.
"""

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation, Text
    from matplotlib.transforms import Bbox

Place = tuple[float, float]

# All lengths are in points. Where a label may stand around its mark: right, left, above, below, the
# corners, then farther.
_PLACES: list[Place] = [
    (x * reach, y * reach)
    for reach in (7, 11, 16, 22, 29, 37, 46, 56)
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8),
                 (-0.8, -0.8))
]  # fmt: skip
_FAR = 12  # from here on a label needs a line to its mark
_REACH = 5  # of a mark, from its middle
_HIDDEN = 7  # marks nearer to each other than this hide one another
_GLYPH = 9  # room for a mark before a name in a stack
_STEP = 1.3  # from line to line of a stack, by the size of the letters


class Named(NamedTuple):
    """A mark, where it is in the data, and its name."""

    x: float
    y: float
    text: str
    colour: str
    marker: str = "o"


def label_points(
    axis: "Axes",
    points: "Sequence[tuple]",
    cross: Place | None = None,
    size: float = 7.5,
) -> "list[Text]":
    """Name marks `(x, y, text, colour, marker)`, each at the nearest free place around it.

    Labels keep clear of each other, of all marks, of the frame and of the lines through `cross`. A
    label that stands apart has a thin line to its mark, one without stands nearest to its own.
    Marks that hide each other have their names in a stack beside them, the highest first, each
    behind its mark once more and with a line to where that is. The limits must be final, the
    figure laid out.
    """
    renderer = axis.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    scale = axis.figure.dpi / 72
    marks = [Named(*point) for point in points]
    at = [axis.transData.transform(mark[:2]) for mark in marks]
    room = _Room(axis.get_window_extent(renderer), [_around(place, _REACH * scale) for place in at])
    if cross is not None:
        room.keep_clear_of(axis.transData.transform(cross))
    texts: dict[int, Annotation] = {}
    for together in _clusters(at, _HIDDEN * scale):
        together.sort(key=lambda i: -at[i][1])
        for i in together:
            texts[i] = axis.annotate(marks[i].text, marks[i][:2], (0, 0), fontsize=size,
                                     textcoords="offset points", color=marks[i].colour,
                                     annotation_clip=False)  # fmt: skip
            texts[i].set_in_layout(False)
        boxes = [texts[i].get_window_extent(renderer) for i in together]
        stack = len(together) > 1
        step = _STEP * size * scale if stack else boxes[0].height
        glyph = _GLYPH * scale if stack else 0.0
        width, height = max(box.width for box in boxes) + glyph, step * len(together)
        places = [place for place in _PLACES if not stack or (place[0] and _is_far(place))]
        starts = [at[i] for i in together]
        found = room.best(places, starts, (width, height), scale, together)
        for line, i in enumerate(together):
            end = _end(found, line, len(together))
            offset = (end[0] - at[i][0]) / scale, (end[1] - at[i][1]) / scale
            shift = _sign(found.place[0]) * glyph / scale
            _put(texts[i], (offset[0] + shift, offset[1]), found.place, stack)
            if stack:
                _draw_glyph(axis, marks[i], (offset[0] + shift / 2, offset[1]))
            if _is_far(found.place):
                _draw_line(axis, marks[i], offset)
    return [texts[i] for i in range(len(marks))]


def label_marks(
    figure: "Figure", panels: "Sequence[tuple[Axes, Sequence[tuple], Place | None]]"
) -> None:
    """Lay the figure out for the last time and name the marks of each panel, see `label_points`."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis, points, cross in panels:
        label_points(axis, points, cross)


def spread(values: "Sequence[float]", gap: float) -> list[float]:
    """Positions nearest to `values` (least squares) that keep their order and stand `gap` apart.

    Pool adjacent violators on the values less their minimal positions.
    """
    order = sorted(range(len(values)), key=lambda i: values[i])
    blocks: list[list[float]] = []  # each: sum, count
    for rank, i in enumerate(order):
        blocks.append([values[i] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    placed = [total / count for total, count in blocks for _ in range(int(count))]
    out = [0.0] * len(values)
    for rank, i in enumerate(order):
        out[i] = placed[rank] + rank * gap
    return out


def label_ends(
    axis: "Axes", ends: "Sequence[tuple[float, float, str, str]]", size: float = 7.5
) -> "list[Text]":
    """Name lines at their right ends: `(x, y, text, colour)` each, spread so that none overlap.

    The axis limits must be final, and the figure laid out.
    """
    if not ends:
        return []
    scale = axis.figure.dpi / 72
    at = [axis.transData.transform((x, y)) / scale for x, y, *_ in ends]  # in points
    places = spread([float(point[1]) for point in at], gap=1.3 * size)
    frame = axis.get_window_extent()
    low, high = frame.y0 / scale + 0.8 * size, frame.y1 / scale - 0.5 * size
    slack = max(0.0, max(places) - high) or min(0.0, min(places) - low)
    right = max(float(point[0]) for point in at) + 12
    texts: list[Text] = []
    for (x, y, text, colour), point, place in zip(ends, at, places, strict=True):
        line = {"arrowstyle": "-", "color": colour, "lw": 0.5, "shrinkA": 1, "shrinkB": 2,
                "relpos": (0, 0.5)}  # fmt: skip
        note = axis.annotate(text, (x, y), (right - point[0], place - slack - point[1]),
                             textcoords="offset points", color=colour, fontsize=size, va="center",
                             annotation_clip=False, arrowprops=line)  # fmt: skip
        note.set_in_layout(False)
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


@dataclass(frozen=True)
class _Block:
    """Where the names of one or several marks stand, in pixels, and their lines to these."""

    place: Place
    box: "Bbox"
    lines: tuple[tuple[Place, ...], ...]


@dataclass
class _Room:
    """What there is on a plane, in pixels: marks, lines of the plane, and the labels so far."""

    frame: "Bbox"
    marks: "list[Bbox]"
    rules: "list[Bbox]" = field(default_factory=list)
    named: "list[Bbox]" = field(default_factory=list)
    lines: list[Place] = field(default_factory=list)

    def keep_clear_of(self, cross: "np.ndarray") -> None:
        """Keep clear of the lines through a point."""
        from matplotlib.transforms import Bbox

        x, y = cross
        self.rules += [Bbox([[self.frame.x0, y - 1], [self.frame.x1, y + 1]]),
                       Bbox([[x - 1, self.frame.y0], [x + 1, self.frame.y1]])]  # fmt: skip

    def best(
        self,
        places: list[Place],
        starts: "list[np.ndarray]",
        size: Place,
        scale: float,
        own: list[int],
    ) -> _Block:
        """The first of the places around some marks that costs nothing, or the cheapest, taken."""
        found, least = None, float("inf")
        for place in places:
            block = _block(place, starts, size, scale)
            cost = self._cost(block, own)
            if found is None or cost < least - 1e-6:
                found, least = block, cost
            if least < 1e-6:
                break
        assert found is not None
        self.named.append(found.box.padded(1.0 * scale))
        if _is_far(found.place):
            self.lines += chain(*found.lines)
        return found

    def _cost(self, block: _Block, own: list[int]) -> float:
        box = block.box
        cost = sum(_overlap(box, other) for other in [*self.marks, *self.rules, *self.named])
        cost += box.width * box.height - _overlap(box, self.frame)
        others = [mark for i, mark in enumerate(self.marks) if i not in own]
        # A line through a label, or through another mark, reads as if it led there.
        on_the_way = [*self.named, *others]
        cost += 100 * sum(other.contains(*p) for other in on_the_way for p in chain(*block.lines))
        cost += 100 * sum(box.contains(*p) for p in self.lines)
        if not _is_far(block.place) and others:
            nearest = min(_distance(box, mark) for mark in others)
            cost += 1000 * (nearest <= min(_distance(box, self.marks[i]) for i in own))
        return cost


def _block(
    place: Place, starts: "list[np.ndarray]", size: Place, scale: float, samples: int = 12
) -> _Block:
    from matplotlib.transforms import Bbox

    middle = (
        sum(start[0] for start in starts) / len(starts),
        sum(s[1] for s in starts) / len(starts),
    )
    low = [
        middle[axis] + place[axis] * scale - size[axis] * (1 - _sign(place[axis])) / 2
        for axis in (0, 1)
    ]
    block = _Block(place, Bbox([low, [low[0] + size[0], low[1] + size[1]]]), ())
    lines = []
    for line, (x, y) in enumerate(starts):
        right, top = _end(block, line, len(starts))
        steps = [step / samples for step in range(1, samples + 1)]
        lines.append(tuple((x + (right - x) * step, y + (top - y) * step) for step in steps))
    return _Block(place, block.box, tuple(lines))


def _end(block: _Block, line: int, lines: int) -> Place:
    """Where the line to a mark ends at its name: at the near side of it."""
    box = block.box
    x, y = (
        (low + high) / 2 if not sign else low if sign > 0 else high
        for low, high, sign in zip(box.min, box.max, map(_sign, block.place), strict=True)
    )
    if lines > 1:
        y = box.y1 - (line + 0.5) * box.height / lines
    return float(x), float(y)


def _put(note: "Annotation", offset: Place, place: Place, stack: bool) -> None:
    across = {1: "left", -1: "right", 0: "center"}[_sign(place[0])]
    up = {1: "bottom", -1: "top", 0: "center"}[0 if stack else _sign(place[1])]
    note.xyann = offset
    note.set(horizontalalignment=across, verticalalignment=up)


def _draw_glyph(axis: "Axes", mark: Named, offset: Place) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.transforms import offset_copy

    x, y = offset
    beside = offset_copy(axis.transData, axis.figure, x, y, units="points")  # type: ignore[arg-type]
    glyph = Line2D([mark.x], [mark.y], marker=mark.marker, color=mark.colour, ms=4.5, ls="")
    glyph.set(transform=beside, clip_on=False, in_layout=False)
    axis.add_artist(glyph)


def _draw_line(axis: "Axes", mark: Named, offset: Place) -> None:
    style = {"arrowstyle": "-", "color": mark.colour, "lw": 0.5, "shrinkA": 0, "shrinkB": 3}
    axis.annotate("", mark[:2], offset, textcoords="offset points", arrowprops=style)


def _clusters(at: "list[np.ndarray]", reach: float) -> list[list[int]]:
    """Indices of places that are nearer to each other than this, or linked by such; in order."""
    found: list[list[int]] = []
    for i, (x, y) in enumerate(at):
        near = [
            group
            for group in found
            if any((at[j][0] - x) ** 2 + (at[j][1] - y) ** 2 < reach**2 for j in group)
        ]
        found = [group for group in found if group not in near] + [[*chain(*near), i]]
    return sorted(found)


def _is_far(place: Place) -> bool:
    return max(map(abs, place)) > _FAR


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _around(point: "np.ndarray", reach: float) -> "Bbox":
    from matplotlib.transforms import Bbox

    x, y = point
    return Bbox([[x - reach, y - reach], [x + reach, y + reach]])


def _overlap(one: "Bbox", other: "Bbox") -> float:
    """Area that two boxes share, in square pixels."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return max(0.0, width) * max(0.0, height)


def _distance(box: "Bbox", mark: "Bbox") -> float:
    """From a box to the middle of a mark."""
    x, y = (mark.x0 + mark.x1) / 2, (mark.y0 + mark.y1) / 2
    across = max(box.x0 - x, 0, x - box.x1)
    up = max(box.y0 - y, 0, y - box.y1)
    return (across**2 + up**2) ** 0.5
