"""Names of marks stand apart, and it is plain which mark each names: by geometry."""

import itertools
import random

import numpy as np
import pytest
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from lexigraft.report.labels import Named, label_points
from lexigraft.report.style import COLOURS, MARKERS, new_figure
from tests.report.drawing import boxes_of, overlaps

MARK = 5  # points from the middle of a mark to its rim, and a little


@pytest.fixture
def axis():
    """An empty plane from 0 to 10."""
    figure = new_figure(5, 4)
    axis = figure.subplots()
    axis.set_xlim(0, 10)
    axis.set_ylim(0, 10)
    figure.draw_without_rendering()
    return axis


def named(places):
    return [
        Named(x, y, f"model {i}", COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)])
        for i, (x, y) in enumerate(places)
    ]


def lines(axis):
    """The lines that lead to labels, in pixels: colour -> begin at the label, end at the mark."""
    scale = axis.figure.dpi / 72
    found = {}
    for note in axis.texts:
        if isinstance(note, Annotation) and note.arrow_patch is not None:
            mark = axis.transData.transform(note.xy)
            label = mark + np.array(note.xyann) * scale
            found[note.arrow_patch.get_edgecolor()] = (label, mark)
    return found


def glyphs(axis):
    """The marks that are drawn again beside names, in pixels: shape and colour -> place."""
    return {
        (line.get_marker(), line.get_color()): line.get_transform().transform(line.get_xydata())[0]
        for line in axis.get_children()
        if isinstance(line, Line2D) and line.get_marker() != "None"
    }


def distance(box, place):
    across = max(box.x0 - place[0], 0, place[0] - box.x1)
    up = max(box.y0 - place[1], 0, place[1] - box.y1)
    return (across**2 + up**2) ** 0.5


@pytest.mark.parametrize("seed", range(5))
def test_names_in_a_crowd_do_not_overlap_and_stay_in_the_frame(axis, seed):
    draw = random.Random(seed)
    places = [(5 + draw.random(), 5 + draw.random()) for _ in range(7)]
    texts = label_points(axis, named(places), cross=(5, 5))
    assert overlaps(texts) == []
    frame = axis.get_window_extent()
    assert all(frame.fully_containsx(box.x1) for box in boxes_of(texts))


@pytest.mark.parametrize("seed", range(5))
def test_a_name_without_a_line_stands_nearest_to_its_own_mark(axis, seed):
    draw = random.Random(seed)
    places = [(draw.uniform(3, 7), draw.uniform(3, 7)) for _ in range(9)]
    points = named(places)
    texts = label_points(axis, points)
    at = [axis.transData.transform(place) for place in places]
    led = {tuple(mark) for _, mark in lines(axis).values()}
    free = [i for i, place in enumerate(at) if tuple(place) not in led]
    assert free
    for i in free:
        box = boxes_of(texts)[i]
        assert min(range(9), key=lambda j: distance(box, at[j])) == i


THREE = [(5, 5), (5, 5), (5, 5)]
CLOSE = [(5, 5), (5.05, 5.1), (4.95, 4.9)]


@pytest.mark.parametrize("places", [THREE, CLOSE])
def test_names_of_marks_that_hide_each_other_are_a_stack_with_a_line_to_each(axis, places):
    points = named(places)
    texts = label_points(axis, points, cross=(0, 0))
    boxes = boxes_of(texts)
    assert overlaps(texts) == []
    assert len({round(box.x0, 3) for box in boxes}) == 1
    led = lines(axis)
    assert len(led) == 3
    for point, box in zip(points, boxes, strict=True):
        found = glyphs(axis)[point.marker, point.colour]
        # The mark once more, before the name and at its height, the line's end before that.
        assert box.x0 - 10 * axis.figure.dpi / 72 < found[0] < box.x0
        assert abs(found[1] - (box.y0 + box.y1) / 2) < box.height / 4
    for (label, mark), point in zip(sorted_by_mark(led, axis, points), points, strict=True):
        assert np.allclose(mark, axis.transData.transform(point[:2]))
        assert label[0] < boxes[points.index(point)].x0


def sorted_by_mark(led, axis, points):
    """The lines in the order of the points, by their colours."""
    from matplotlib.colors import to_rgba

    return [led[to_rgba(point.colour)] for point in points]


def test_the_highest_mark_of_a_stack_is_named_first(axis):
    texts = label_points(axis, named(CLOSE))
    heights = [box.y0 for box in boxes_of(texts)]
    assert sorted(range(3), key=lambda i: -heights[i]) == [1, 0, 2]


def test_lines_of_a_stack_do_not_cross(axis):
    led = list(lines_of_stack(axis).values())
    for (a, b), (c, d) in itertools.combinations(led, 2):
        assert (a[1] - c[1]) * (b[1] - d[1]) >= 0


def lines_of_stack(axis):
    label_points(axis, named(CLOSE))
    return lines(axis)


def test_marks_that_stand_apart_are_no_stack(axis):
    label_points(axis, named([(2, 2), (5, 5), (8, 8)]))
    assert glyphs(axis) == {} and lines(axis) == {}


def test_no_line_goes_through_another_mark(axis):
    places = [(5, 5), (5, 5), *((5 + dx, 5 + dy) for dx in (-0.6, 0.6) for dy in (-0.6, 0.6))]
    label_points(axis, named(places))
    scale = axis.figure.dpi / 72
    for label, mark in lines(axis).values():
        for other in map(axis.transData.transform, places):
            if np.allclose(other, mark):
                continue
            steps = np.linspace(0, 1, 50)[:, None]
            way = label + steps * (mark - label)
            assert np.linalg.norm(way - other, axis=1).min() > 0.6 * MARK * scale
