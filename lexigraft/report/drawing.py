"""The shared style and panels of all figures, and how a figure is saved.

The Snakefile imports this module with the declarations of figures, so matplotlib is imported where
it is used.
"""

import logging
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pandas import DataFrame

from lexigraft.artifacts.atomic import atomic_file
from lexigraft.report.card_scores import smoothed
from lexigraft.report.frame import Model, StudyResults, select
from lexigraft.report.models import models
from lexigraft.report.names import initializer_name, row_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = Any

logger = logging.getLogger(__name__)

# Okabe and Ito's colours without the yellow, which is hardly visible on white. Repeated colours
# have a different marker, so that rows also differ in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "h", "p")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))
# Foreground, lighter shades and background; the page replaces them, so that figures follow its
# theme.
INK, MUTED, RULE, PAPER = "#1B1F24", "#5F6670", "#D5D9DE", "#FEFEFE"
WIDTH = 7.2  # inches: a two-column page
_LEGEND_LINE = 0.17  # inches
_LETTERS = 13  # letters of a panel's title per inch
# Dates and versions are left out of files, so that the same study yields the same bytes.
_METADATA = {
    ".pdf": ("CreationDate", "Producer", "Creator"),
    ".png": ("Software",),
    ".svg": ("Date", "Creator"),
}
_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "text.parse_math": False,  # tokens and sentences are text, dollar signs included
    "svg.fonttype": "path",
    "svg.hashsalt": "lexigraft",
}


@contextmanager
def figure_style(fonts: Path | None = None, names: Iterable[str] = ()) -> Iterator[None]:
    """Use matplotlib with the style of reports within a `with` block.

    For letters of the `names` in figures that its own font does not cover, matplotlib falls back to
    fonts of a folder. All of its fonts as fallbacks would take seconds per figure.
    """
    import matplotlib
    from matplotlib.font_manager import findfont, fontManager
    from matplotlib.ft2font import FT2Font

    default = "DejaVu Sans"  # bundled with matplotlib
    families = {default: None}
    missing = {*map(ord, "".join(names))} - FT2Font(findfont(default)).get_charmap().keys()
    for file in sorted(fonts.iterdir()) if fonts and missing else ():
        if file.suffix.lower() in (".woff", ".ttf", ".otf"):
            try:
                covered = missing & FT2Font(file).get_charmap().keys()
            except (OSError, RuntimeError) as error:
                logger.warning("%s: not a readable font (%s)", file, error)
                continue
            if covered:
                fontManager.addfont(file)
                families[fontManager.ttflist[-1].name] = None
                missing -= covered
    with matplotlib.rc_context({**_STYLE, "font.family": [*families]}):
        yield


class Look(NamedTuple):
    """The style of each initializer, the same in every figure."""

    initializers: tuple[str, ...]

    def style(self, initializer: str) -> dict[str, Any]:
        """An initializer's label, colour, marker and dashes; baselines are grey stars.

        Lines are solid until the colours repeat.
        """
        if initializer == "none":
            return {"label": "LAPT", "color": MUTED, "marker": "*", "ls": "-"}
        place, label = self.initializers.index(initializer), initializer_name(initializer)
        return series_style(place, label) | {"ls": DASHES[place // len(COLOURS) % 3]}


def series_style(place: int, label: str) -> dict[str, Any]:
    """Label, colour and marker of the first, second, … series, as matplotlib's settings."""
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    return {"label": label, "color": colour, "marker": marker}


Lines = dict[Model, dict[str, Any]]  # models as lines or points, with matplotlib's settings


def trained_lines(study: StudyResults, look: Look) -> Lines:
    """The trained models of a study as lines.

    They are trained under the reference strategy, or under each strategy that an item names; LAPT
    under other strategies is then not shown.
    """
    compared = study.compared_strategies
    trained = [model for model in models(study) if model.strategy != "none"]
    return lines(look, [m for m in trained if not compared or m.strategy in compared])


def lines(look: Look, trained: Sequence[Model], points: bool = False) -> Lines:
    """Models as lines or points, labelled by the axes that differ.

    The first of initializer, vocabulary and strategy has colours, further ones are distinguished by
    dashes of lines or markers of points. LAPT's name includes its strategy if the other models have
    different ones.
    """
    grafts = [model for model in trained if not model.baseline]
    several = [
        axis
        for axis in ("initializer", "vocabulary", "strategy")
        if len({getattr(model, axis) for model in grafts}) > 1
    ]
    coloured, *further = several or ["initializer"]
    lapt = list(dict.fromkeys(model.strategy for model in trained if model.baseline))
    plain = len(lapt) == 1 and lapt[0] in ({model.strategy for model in grafts} or lapt)
    colours: dict[str, int] = {}
    variants: dict[tuple[str, ...], int] = {}
    drawn = {}
    for model in trained:
        names = model.axes() | {"initializer": row_name(model.initializer, model.strategy)}
        if model.baseline:
            name = "LAPT" if plain else f"LAPT · {model.strategy}"
            style, variant = look.style("none"), lapt.index(model.strategy)
        else:
            name = " · ".join(names[axis] for axis in (coloured, *further))
            variant = variants.setdefault(tuple(names[axis] for axis in further), len(variants))
            style = look.style(model.initializer)
            if coloured != "initializer":
                style = series_style(colours.setdefault(names[coloured], len(colours)), name)
        style = style | {"label": name}
        if points:
            style = style | ({"marker": MARKERS[variant % len(MARKERS)]} if variant else {})
        elif further or model.baseline:
            style = style | {"ls": DASHES[variant % len(DASHES)]}
        drawn[model] = style
    return drawn


def new_figure(width: float, height: float) -> Figure:
    """An empty figure with constrained layout, sized in inches; no window is opened."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panel_grid(
    titles: Sequence[str], most: int, height: float, stacked: int = 1, margin: float = 0.0
) -> tuple[Figure, np.ndarray]:
    """A figure and its panels [titles, stacked], at most `most` side by side.

    `height` and `margin` are the inches of one axis, and of the rest of the figure. Every figure is
    as wide as a page, so that all have the same font size.
    """
    columns = min(len(titles), most)
    blocks = -(-len(titles) // columns)
    figure = new_figure(WIDTH, height * stacked * blocks + margin)
    axes = figure.subplots(stacked * blocks, columns, squeeze=False)
    panels = axes.reshape(blocks, stacked, columns).swapaxes(1, 2).reshape(-1, stacked)
    for axis in panels[len(titles) :].flat:
        axis.remove()
    for stack, title in zip(panels, titles, strict=False):
        title_panel(stack[0], title)
        for axis in stack:
            axis.set_label(title)  # of the panel in the CSV file
    return figure, panels[: len(titles)]


def row_panels(heights: Sequence[float], margin: float) -> tuple[Figure, np.ndarray]:
    """A figure with panels below each other, each as high as its rows, in inches."""
    figure = new_figure(WIDTH, sum(heights) + margin)
    return figure, figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]


def add_legend(figure: Figure) -> None:
    """Add a legend of all labelled lines and points above the panels, with room for it."""
    from matplotlib.container import BarContainer

    handles: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            if not isinstance(handle, BarContainer):
                handles.setdefault(label, handle)
    longest = max(map(len, handles), default=0)
    columns = max(1, min(6, len(handles), int(WIDTH / (0.5 + longest / 18))))
    figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * -(-len(handles) // columns))
    figure.legend([*handles.values()], [*handles], loc="outside upper center", ncols=columns)


def message(text: str) -> Figure:
    """A figure with a message on why there is nothing to show."""
    figure = new_figure(WIDTH, 0.6)
    figure.text(0.5, 0.5, text, ha="center", va="center", color=MUTED)
    return figure


def title_panel(axis: Axes, text: str) -> None:
    """Set the title of a panel, wrapped to its width."""
    place = axis.get_subplotspec()
    columns = place.get_gridspec().ncols if place else 1
    axis.set_title(textwrap.fill(text, int(_LETTERS * WIDTH / columns)))
    axis.set_label(text)


def plain_axis(axis: Axes, which: Literal["x", "y"] = "x") -> None:
    """Light grid along one axis and no ticks on the other."""
    axis.grid(True, axis=which)
    axis.tick_params(axis="y" if which == "x" else "x", length=0)
    axis.tick_params(axis=which, length=2.5)


def name_rows(axis: Axes, names: Sequence[str]) -> None:
    """Name the rows of a panel of bars or dots, from top to bottom."""
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.6)
    plain_axis(axis)


def scatter_axis(axis: Axes, x: str, y: str) -> None:
    """Label a panel of points, with a grid and room around the points."""
    axis.margins(0.15, 0.15)
    axis.locator_params(axis="x", nbins=5)
    axis.grid(True)
    axis.set_xlabel(x)
    axis.set_ylabel(y)


def save(figure: "Figure", folder: Path, name: str) -> None:
    """Write `<name>.pdf`, `<name>.png` (300 dpi), `<name>.svg`, and what it draws as `<name>.csv`.

    Layout takes most of the time, so it is done once. The engine is then removed, not set to
    `none`: for each format, matplotlib draws a figure with any layout engine once more.
    """
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine(None)
    for suffix, fields in _METADATA.items():
        with atomic_file(folder / f"{name}{suffix}") as path:
            figure.savefig(path, metadata=dict.fromkeys(fields))
    with atomic_file(folder / f"{name}.csv") as path:
        drawn_data(figure).to_csv(path, index=False, lineterminator="\n")


def drawn_data(figure: Figure) -> DataFrame:
    """A row per point, bar and level of the labelled series of a figure.

    Columns: `panel`, `horizontal` and `vertical` (the labels of its axes), `series`, `x`, `y` and
    `deviation` (half an error bar). On an axis with names instead of numbers, `x` or `y` is a name.
    """
    from matplotlib.container import BarContainer, ErrorbarContainer
    from matplotlib.ticker import FixedLocator

    rows = []
    for axis in figure.axes:
        names: list[dict[float, str]] = [
            {tick.get_loc(): tick.label1.get_text() for tick in side.get_major_ticks()}
            if isinstance(side.get_major_locator(), FixedLocator)
            else {}
            for side in (axis.xaxis, axis.yaxis)
        ]
        series: list[tuple[Any, Any, Sequence[float]]] = []
        for container in axis.containers:
            if isinstance(container, BarContainer):
                bars = [(bar.get_width(), bar.get_y() + bar.get_height() / 2) for bar in container]
                series.append((container.get_label(), bars, ()))
            elif isinstance(container, ErrorbarContainer):
                line, _, error_bars = container.lines
                ends = [bar for bars in error_bars for bar in bars.get_segments()]
                # Segments without a deviation lack an end.
                half = [np.ptp(bar, axis=0).max() / 2 if len(bar) > 1 else np.nan for bar in ends]
                series.append((container.get_label(), line.get_xydata(), half))
        for line in axis.lines:
            xy: Any = line.get_xydata()
            if line.get_transform() == axis.get_yaxis_transform():  # a level
                xy = [(np.nan, xy[0][1])]
            elif line.get_transform() == axis.get_xaxis_transform():
                xy = [(xy[0][0], np.nan)]
            series.append((line.get_label(), xy, ()))
        labels = axis.get_label(), axis.get_xlabel(), axis.get_ylabel()
        for label, points, deviations in series:
            if label and not label.startswith("_"):
                for at, point in enumerate(points):
                    coordinates = [
                        texts[min((abs(tick - value), tick) for tick in texts)[1]]
                        if texts and value == value else value
                        for texts, value in zip(names, point, strict=True)
                    ]  # fmt: skip
                    deviation = deviations[at] if at < len(deviations) else np.nan
                    rows.append((*labels, label, *coordinates, deviation))
    columns = ["panel", "horizontal", "vertical", "series", "x", "y", "deviation"]
    return DataFrame(rows, columns=columns)


def draw_curves(
    axis: Axes, logged: DataFrame, name: str, over: str, drawn: Lines, smooth: bool = False
) -> None:
    """Draw lines of one event over `step`, `tokens` or `elapsed`: means, and the seeds faintly."""
    from matplotlib.ticker import EngFormatter

    scale, label = 1, {"step": "training step", "tokens": "training tokens"}.get(over, "")
    if over == "elapsed":
        longest = logged[over].max()
        scale, unit = next(
            (seconds, unit)
            for seconds, unit in ((1, "seconds"), (60, "minutes"), (3600, "hours"))
            if longest < 300 * seconds or unit == "hours"
        )
        label = f"training time, {unit}"
    for model, style in drawn.items():
        rows = select(logged, **model.axes())
        rows = rows[rows[name].notna()]
        if rows.empty:
            continue
        by_seed = rows.pivot_table(index="step", columns="seed", values=name)
        if smooth:
            by_seed = smoothed(by_seed)
        x = rows[over].groupby(rows["step"]).mean().to_numpy() / scale
        if by_seed.shape[1] > 1:
            for seed in by_seed:
                axis.plot(x, by_seed[seed], color=style["color"], lw=0.6, alpha=0.35)
        axis.plot(x, by_seed.mean(axis=1), **style | ({"marker": None} if smooth else {}))
    plain_axis(axis, "y")
    axis.tick_params(axis="x", length=2.5)
    axis.locator_params(axis="x", nbins=5)
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.set_xlim(0, None)
    axis.set_xlabel(label)
