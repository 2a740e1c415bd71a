"""Looks at figures as they are drawn: their texts, and whether these overlap."""

import itertools

from matplotlib.text import Text

from lexigraft.report.drawing import Look, figure_style
from lexigraft.report.records import read_study


def _style(made):
    return figure_style(made.inputs["fonts"])


def drawn_figure(build, made, item=None):
    """The figure that a kind builds, not yet rendered: its axes, their lines and their labels."""
    study = read_study(made.settings, made.inputs)
    study = study.part(item) if item else study
    with _style(made):
        return build(study, Look(tuple(study.initializers)))


def drawn_texts(monkeypatch, build, made, item=None):
    """The figure that a kind builds, and the texts that it really draws, with their boxes."""
    drawn = []
    original = Text.draw

    def draw(self, renderer, *args, **kwargs):
        if self.get_visible() and self.get_text().strip():
            drawn.append(self)
        return original(self, renderer, *args, **kwargs)

    figure = drawn_figure(build, made, item)
    with _style(made):
        figure.draw_without_rendering()
        monkeypatch.setattr(Text, "draw", draw)
        figure.canvas.draw()
        texts = list({id(text): text for text in drawn}.values())
        # An annotation's own extent would take in the line that leads to it.
        boxes = [Text.get_window_extent(text).padded(-0.5) for text in texts]
    return figure, [(t.get_text(), box) for t, box in zip(texts, boxes, strict=True)]


def clashes(texts):
    """Pairs of texts that overlap."""
    pairs = itertools.combinations(texts, 2)
    return [(a, b) for (a, one), (b, other) in pairs if one.overlaps(other)]


def outside(figure, texts):
    """Texts that leave the figure."""
    page = figure.bbox
    return [t for t, box in texts if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0
            or box.y1 > page.y1]  # fmt: skip


def legend_names(figure):
    """The names in the legends of a figure."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]
