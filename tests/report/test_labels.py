"""Names of lines stand apart and near their ends."""

import itertools
import random

import pytest

from lexigraft.report.labels import label_ends, spread
from lexigraft.report.style import new_figure
from tests.report.drawing import overlaps


@pytest.mark.parametrize("seed", range(20))
def test_spread_positions_keep_their_order_and_their_gap(seed):
    draw = random.Random(seed)
    values = [draw.uniform(0, 10) for _ in range(9)]
    placed = spread(values, 1.5)
    ranks = sorted(range(9), key=values.__getitem__)
    gaps = [placed[b] - placed[a] for a, b in itertools.pairwise(ranks)]
    assert min(gaps) >= 1.5 - 1e-9


def test_spread_leaves_values_that_stand_apart():
    assert spread([5.0, 1.0, 9.0], 2.0) == pytest.approx([5.0, 1.0, 9.0])


def test_spread_is_the_nearest_of_all_placements():
    values = [1.0, 1.2, 4.0]
    placed = spread(values, 1.0)
    cost = sum((p - v) ** 2 for p, v in zip(placed, values, strict=True))
    steps = [i / 20 for i in range(-20, 121)]
    best = min(
        sum((p - v) ** 2 for p, v in zip((a, b, c), values, strict=True))
        for a in steps for b in steps if b - a >= 1.0 - 1e-9 for c in steps if c - b >= 1.0 - 1e-9
    )  # fmt: skip
    assert cost <= best + 1e-9


def test_labels_of_lines_that_end_together_do_not_overlap():
    figure = new_figure(4, 3)
    axis = figure.subplots()
    axis.set_xlim(0, 2)
    axis.set_ylim(0, 10)
    figure.draw_without_rendering()
    ends = [(1.0, 5 + 0.01 * i, f"initializer {i}", "black") for i in range(8)]
    assert overlaps(label_ends(axis, ends)) == []
