"""Names of lines at their ends, moved apart where they would overlap."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.text import Text


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
