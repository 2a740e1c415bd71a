"""The shared style of all figures: colours, markers, fonts, and how a figure is saved."""

import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lexigraft.artifacts.atomic import replacing
from lexigraft.report.fonts import Fonts

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import numpy as np

# For annotations in modules that the Snakefile imports, which must not load matplotlib.
Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"

# Okabe and Ito's colours without the yellow, which is hardly visible on white. Repeated colours
# have a different marker, so that rows also differ in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "h", "p")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)))
# Text on tinted backgrounds, which stay light on a dark page.
ON_TINT = "#15181B"
# Foreground, lighter shades and background; the page replaces them, so that figures follow its
# theme.
INK, MUTED, RULE, PAPER = "#1B1F24", "#5F6670", "#D5D9DE", "#FEFEFE"
WIDTH = 7.2  # inches: a two-column page
_LETTERS = 13  # letters of a panel's title per inch
# Dates and versions are left out of files, so that the same study yields the same bytes.
_METADATA = {
    ".pdf": ("CreationDate", "Producer", "Creator"),
    ".png": ("Software",),
    ".svg": ("Date", "Creator"),
}


@dataclass(frozen=True)
class Look:
    """The style of each initializer, the same in every figure, and the fonts."""

    initializers: tuple[str, ...]
    fonts: Fonts

    def of(self, initializer: str) -> tuple[str, str, Any]:
        """An initializer's colour, marker and dashes for matplotlib; baselines are grey stars.

        Lines are solid until the colours repeat.
        """
        if initializer == "none":
            return MUTED, "*", "-"
        place = self.initializers.index(initializer)
        dashes = _DASHES[place // len(COLOURS) % len(_DASHES)]
        own = series_style(place)
        return own["color"], own["marker"], dashes


def series_style(place: int) -> dict[str, Any]:
    """Colour and marker of the first, second, … of several series, as matplotlib's settings."""
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}


@contextmanager
def look(fonts: Fonts) -> Iterator[None]:
    """Use matplotlib with this style within a `with` block."""
    import matplotlib

    settings: Any = {
        "font.family": fonts.families(""),
        "font.size": 8,
        "axes.titlesize": 9.5,
        "axes.titlelocation": "left",
        "axes.labelsize": 8,
        "axes.labelcolor": INK,
        "axes.edgecolor": MUTED,
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.unicode_minus": True,
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.labelsize": 7.5,
        "ytick.labelsize": 8,
        "grid.color": RULE,
        "grid.linewidth": 0.5,
        "legend.frameon": False,
        "legend.fontsize": 7.5,
        "lines.linewidth": 1.2,
        "figure.facecolor": PAPER,
        "axes.facecolor": "none",
        "savefig.dpi": 300,
        "pdf.fonttype": 42,
        # Tokens and sentences are text, dollar signs included.
        "text.parse_math": False,
        "svg.fonttype": "path",
        "svg.hashsalt": "lexigraft",
    }
    with matplotlib.rc_context(settings):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure with constrained layout, sized in inches; no window is opened."""
    from matplotlib import figure as figures
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = figures.Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panel_grid(
    count: int,
    most: int,
    height: float,
    stacked: int = 1,
    margin: float = 0.0,
) -> "tuple[Figure, np.ndarray]":
    """A figure and its panels [count, stacked], at most `most` side by side.

    `height` and `margin` are the inches of one axis, and of the rest of the figure. Every figure is
    as wide as a page, so that all have the same font size.
    """
    columns = min(count, most)
    blocks = -(-count // columns)
    figure = new_figure(WIDTH, height * stacked * blocks + margin)
    axes = figure.subplots(stacked * blocks, columns, squeeze=False)
    panels = axes.reshape(blocks, stacked, columns).swapaxes(1, 2).reshape(-1, stacked)
    for axis in panels[count:].flat:
        axis.remove()
    return figure, panels[:count]


def add_legend(figure: Figure, lines: Mapping[str, Mapping[str, Any]], columns: int = 6) -> None:
    """Add a legend above all panels: name -> matplotlib's settings of its line."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=name, **settings) for name, settings in lines.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)


def message(text: str) -> Figure:
    """A figure with a message on why there is nothing to show."""
    figure = new_figure(WIDTH, 0.6)
    figure.text(0.5, 0.5, text, ha="center", va="center", color=MUTED)
    return figure


def title_panel(axis: Axes, text: str) -> None:
    """Set the title of a panel, wrapped to its width."""
    place = axis.get_subplotspec()
    assert place is not None, "panels are made by subplots()"
    width = axis.figure.get_figwidth() / place.get_gridspec().ncols  # type: ignore[union-attr]
    axis.set_title(textwrap.fill(text, int(_LETTERS * width)))


def plain_axis(axis: Axes, which: Literal["x", "y"] = "x") -> None:
    """Light grid along one axis and no ticks on the other."""
    axis.grid(True, axis=which)
    axis.tick_params(axis="y" if which == "x" else "x", length=0)
    axis.tick_params(axis=which, length=2.5)


def lay_out(figure: Figure) -> None:
    """Do the final layout if that was not done yet: layout takes most of the time.

    The engine is then removed, not set to `none`: for each format, matplotlib draws a figure with
    any layout engine once more.
    """
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine(None)


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write `<name>.pdf`, `<name>.png` (300 dpi) and `<name>.svg`."""
    lay_out(figure)
    for suffix, fields in _METADATA.items():
        with replacing(folder / f"{name}{suffix}") as path:
            figure.savefig(path, metadata=dict.fromkeys(fields))
