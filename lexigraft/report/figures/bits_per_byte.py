"""Bits per byte before and after training, per initializer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lexigraft.report.before_after import METRIC, before_after, log_ends
from lexigraft.report.items import Kind
from lexigraft.report.models import Model, find, models, stub, stub_names
from lexigraft.report.study import StudyResults
from lexigraft.report.style import INK, MUTED, PAPER, RULE, WIDTH, Look, new_figure, plain_axis
from lexigraft.report.summarize import select
from lexigraft.report.table import number

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


KIND = Kind(
    title="Bits per byte (lower is better)",
    caption="Bits per byte of held-out text before and after training, per initializer. "
    "Comparable across vocabularies. Hollow: the model with its new rows and no training; filled: "
    "after training ({strategy}). Right: the end points enlarged, a dot per seed, the mean and, "
    "from two seeds on, a bar of one standard deviation. Dotted line: the source model.",
    empty="no cell has bits per byte before and after training",
)


@dataclass(frozen=True)
class _Panel:
    """One source model and language: its trained models in order, their changes, Source's score."""

    title: str
    changes: "pandas.DataFrame"
    models: list[Model]
    untouched: float | None

    @property
    def top(self) -> float:
        """Place of the source model's row, above the trained ones."""
        return 0.0 if self.untouched is None else -1.0


def draw(study: StudyResults, summary: "pandas.DataFrame", look: Look) -> "Figure | None":
    """A row of panels per language: before → after, and the end points alone, enlarged."""
    panels = _panels(study, summary)
    if not panels:
        return None
    heights = [len(panel.models) + (panel.untouched is not None) for panel in panels]
    figure = new_figure(WIDTH, sum(0.6 + 0.23 * height for height in heights) + 0.2)
    axes = figure.subplots(len(panels), 2, squeeze=False, width_ratios=(1.25, 1),
                           height_ratios=heights)  # fmt: skip
    for (left, right), panel in zip(axes, panels, strict=True):
        _dumbbells(left, panel, look, study)
        _end_points(right, panel, look)
        left.set_title(panel.title)
    axes[-1][0].set_xlabel("bits per byte, before (hollow) → after training (filled)")
    axes[-1][1].set_xlabel("after training, enlarged; lower is better")
    return figure


def _panels(study: StudyResults, summary: "pandas.DataFrame") -> list[_Panel]:
    changes = before_after(study, summary)
    trained = [model for model in models(study) if model.strategy != "none"]
    found = []
    for source in study.order("source"):
        for language in study.order("language"):
            here = (changes["source"] == source) & (changes["language"] == language)
            ends = {m: select(changes[here], **m.keys())["after"].mean() for m in trained}
            shown = [model for model in trained if ends[model] == ends[model]]
            # Baselines first, then from the best to the worst.
            shown = sorted([m for m in shown if m.baseline], key=ends.__getitem__) + sorted(
                [m for m in shown if not m.baseline], key=ends.__getitem__
            )
            if shown:
                untouched = _untouched(study, changes[here], summary, source, language)
                title = study.place(source, language)
                found.append(_Panel(title, changes[here], shown, untouched))
    return found


def _untouched(
    study: StudyResults,
    changes: "pandas.DataFrame",
    summary: "pandas.DataFrame",
    source: str,
    language: str,
) -> float | None:
    """Bits per byte of the source model, on the text that the changes were measured on."""
    if (changes["measured_on"] == "log").all():
        logged = [
            before
            for key, (before, _) in log_ends(study.curves).items()
            if key[:4] == (source, language, "source", "none")
        ]
        # Training the source with its own vocabulary starts from the source itself, too.
        return logged[0] if logged else None
    found = summary[(summary["metric"] == METRIC) & (summary["language"] == language)]
    row = find(found, Model(source, "source", "none", "none"))
    return float(row["mean"]) if row is not None else None


def _dumbbells(axis: "Axes", panel: _Panel, look: Look, study: StudyResults) -> None:
    names = [name for name in stub_names(study) if name != "Source model"]
    for y, model in enumerate(panel.models):
        own = select(panel.changes, **model.keys())
        before, after = own["before"].mean(), own["after"].mean()
        colour, marker = look.colour(model.initializer), look.marker(model.initializer)
        axis.plot([before, after], [y, y], color=colour, lw=1.6, alpha=0.55, zorder=2)
        axis.plot(before, y, marker, mfc=PAPER, mec=colour, mew=1.2, ms=6, zorder=3)
        axis.plot(after, y, marker, color=colour, ms=6, zorder=4)
    places = list(range(len(panel.models)))
    labels = [" · ".join(stub(model, tuple(names))) for model in panel.models]
    if panel.untouched is not None:
        axis.plot([panel.untouched] * 2, [panel.top, len(places) - 0.5], color=MUTED, lw=1, ls=":",
                  zorder=1)  # fmt: skip
        axis.plot(panel.untouched, panel.top, look.marker("none"), color=MUTED, ms=6)
        places, labels = [-1, *places], ["Source", *labels]
    _rows(axis, panel)
    axis.set_yticks(places, labels)


def _end_points(axis: "Axes", panel: _Panel, look: Look) -> None:
    low, high = panel.changes["after"].min(), panel.changes["after"].max()
    for y, model in enumerate(panel.models):
        own = select(panel.changes, **model.keys())["after"]
        colour, marker = look.colour(model.initializer), look.marker(model.initializer)
        spread = own.std(ddof=1) if len(own) > 1 else None
        if spread is not None:
            axis.errorbar(own.mean(), y, xerr=spread, color=colour, lw=1.2, capsize=2.5, zorder=2)
            axis.plot(own, [y + 0.32] * len(own), "o", color=colour, ms=2.6, mew=0, zorder=3)
        axis.plot(own.mean(), y, marker, color=colour, ms=5.5, zorder=4)
        text = number(own.mean(), 3) + (f" ± {number(spread, 3)}" if spread is not None else "")
        _write(axis, y, text)
    if panel.untouched is not None:
        _write(axis, panel.top, number(panel.untouched, 3))
    _rows(axis, panel)
    axis.set_yticks([])
    width = max(high - low, 0.01)
    # The right part of the panel holds the numbers.
    axis.set_xlim(low - 0.12 * width, high + 0.85 * width)
    axis.set_xticks([tick for tick in axis.get_xticks() if low - 0.1 * width <= tick <= high])
    axis.spines["left"].set_color(RULE)


def _write(axis: "Axes", y: float, text: str) -> None:
    axis.annotate(text, (1, y), xycoords=axis.get_yaxis_transform(), ha="right", va="center",
                  fontsize=7.5, color=INK)  # fmt: skip


def _rows(axis: "Axes", panel: _Panel) -> None:
    axis.set_ylim(len(panel.models) - 0.5, min(panel.top, 0) - 0.5)
    plain_axis(axis)
