"""Gains in the language against losses in English, per model."""

from typing import Annotated

from pydantic import Field

from lexigraft.report.before_after import METRIC, text_name, text_scores, text_tasks
from lexigraft.report.items import Item, Kind, Options, TaskNames
from lexigraft.report.labels import Named, label_marks
from lexigraft.report.metrics import ENGLISH_BITS_PER_BYTE as ENGLISH
from lexigraft.report.metrics import metric, primary_metric
from lexigraft.report.names import row_name
from lexigraft.report.study import SEEDED, StudyResults
from lexigraft.report.style import MUTED, PAPER, Axes, Figure, Look, panel_grid, title_panel
from lexigraft.report.summarize import CELL, Frame, select, summarize

_LOG = "log"  # the task name of scores from training logs
_MOST_COLUMNS = 2
_MOST_NAMED = 8  # maximum number of points of a panel that all have names


class ForgettingOptions(Options):
    """The options of a figure of forgetting."""

    tasks: Annotated[
        TaskNames,
        Field(
            description="instead of bits per byte: one task, whose score is shown against its "
            "English score, or two tasks, of which the second tests English"
        ),
    ] = ()


def _caption(item: Item) -> str:
    what = " and ".join(item.tasks) or "bits per byte"
    return (
        "Gain of each model in its language over the source model, against its loss in English. "
        f"In {what}; up and left is better, dotted lines mark the source model. Hollow: with new "
        "rows before training; filled: trained. Means over seeds. With more than "
        f"{_MOST_NAMED} trained models, each vocabulary has a panel; if a panel still has more, "
        "models that were not trained under {strategy} are small and unnamed."
    )


KIND = Kind(
    title="Gains in the language and losses in English",
    caption=_caption,
    empty="no trained cell and its source model were both evaluated on English text",
    options=ForgettingOptions,
)


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """Panels of sources and languages; a point per cell, hollow before training, filled after."""
    panels = _panels(study, gains_and_losses(study))
    if not panels:
        return None
    gained, lost = "gain in bits per byte", "loss in bits per byte of English"
    if text := text_name(study, ENGLISH):
        gained += f" of {text}"
    if tasks := study.item.tasks:
        gained, lost = f"gain: {tasks[0]}", f"loss: {tasks[-1]}"
    figure, axes = panel_grid(len(panels), _MOST_COLUMNS, 3.1)
    named = []
    for (title, own), (axis,) in zip(panels, axes, strict=True):
        named.append((axis, _panel(axis, own, look, study), (0.0, 0.0)))
        title_panel(axis, title)
        axis.set_xlabel(lost)
        axis.set_ylabel(gained)
    label_marks(figure, named)
    return figure


def gains_and_losses(study: StudyResults) -> Frame:
    """One row per cell (without its seed) that is not the source model: `gained` and `lost`.

    Both are positive for a gain and a loss, respectively. For bits per byte, `gained` is the
    decrease on the language and `lost` the increase on English text, relative to the source model.
    If the item names one of its `tasks`, they are differences of its main metric on the language
    and on English; if it names two, of the main metric of the first (language) and of the second
    (English).

    Scores come from records or, without records of English bits per byte, from the held-out and
    English sentences scored during training.
    """
    summary = study.summary
    if study.item.tasks:
        first, last = study.item.tasks[0], study.item.tasks[-1]
        name = _main_metric(summary, first)
        other = f"english_{name}" if last == first else _main_metric(summary, last)
        sides = [
            (select(summary, task=task, metric=measure), measure)
            for task, measure in ((first, name), (last, other))
        ]
    else:
        tasks = text_tasks(study, ENGLISH)
        if not (summary["metric"] == ENGLISH).any():
            logged = _logged(study)
            summary = summary.iloc[:0] if logged.empty else summarize(logged)
            tasks = dict.fromkeys(summary["language"], _LOG)
        sides = [(text_scores(summary, tasks, measure), measure) for measure in (METRIC, ENGLISH)]
    # Changes from the source model, with signs such that gains and losses are positive.
    signed = []
    for (rows, measure), column in zip(sides, ("gained", "lost"), strict=True):
        lower = metric((measure or "").removeprefix("english_")).lower_is_better
        sign = 1 if lower == (column == "lost") else -1
        signed.append(rows[CELL].assign(**{column: sign * rows["change"]}))
    found = signed[0].merge(signed[1], on=CELL)
    source = (found["initializer"] == "none") & (found["strategy"] == "none")
    return found[~source].dropna(subset=["gained", "lost"])


def _main_metric(summary: Frame, task: str) -> str | None:
    own = summary[summary["task"] == task]
    kind = str(own["kind"].iloc[0]) if len(own) else ""
    return primary_metric(kind, list(dict.fromkeys(own["metric"])))


def _logged(study: StudyResults) -> Frame:
    """The final scores in the logs, as scores of a task.

    The first score of the trained source model is that of the source model. The log of an untrained
    cell has a single score.
    """
    import pandas

    curves = study.curves
    if ENGLISH not in curves:
        return pandas.DataFrame()
    heldout = curves[(curves["event"] == "heldout") & curves[ENGLISH].notna()]
    rows = heldout.sort_values("step", kind="stable").groupby(SEEDED, sort=False)
    ends, starts = rows.last().reset_index(), rows.first().reset_index()
    lapt = starts[(starts["initializer"] == "none") & (starts["strategy"] != "none")]
    # If the source model also has its own log, this repeats the same scores.
    every = pandas.concat([ends, lapt.assign(strategy="none")])
    long = every.melt(id_vars=SEEDED, value_vars=[METRIC, ENGLISH], var_name="metric")
    return long.assign(task=_LOG, kind="perplexity", run=0)


def _panels(study: StudyResults, found: Frame) -> "list[tuple[str, Frame]]":
    """Titles and cells of the panels: one per vocabulary if a single one had too many points."""
    panels = []
    for source in study.order("source"):
        for language in study.order("language"):
            own = select(found, source=source, language=language)
            new = own.loc[own["strategy"] != "none", "vocabulary"]
            title = study.place(source, language)
            vocabularies = [name for name in study.new_vocabularies if (new == name).any()]
            if len(new) > _MOST_NAMED and len(vocabularies) > 1:
                panels += [(f"{title}, {name}", own[own["vocabulary"].isin(["source", name])])
                           for name in vocabularies]  # fmt: skip
            elif len(new):
                panels.append((title, own))
    return panels


def _panel(axis: Axes, found: Frame, look: Look, study: StudyResults) -> list[Named]:
    """Draw the points of one panel, a line from each start to its ends; returns their names."""
    axis.axhline(0, color=MUTED, lw=0.8, ls=":", zorder=1)
    axis.axvline(0, color=MUTED, lw=0.8, ls=":", zorder=1)
    trained = found[found["strategy"] != "none"]
    vocabularies = found.loc[found["vocabulary"] != "source", "vocabulary"].nunique()
    # If there are too many points, those under other strategies are not named.
    few = len(trained) <= _MOST_NAMED
    several = few and trained["strategy"].nunique() > 1
    points = []
    for cell in trained.to_dict("records"):
        key, vocabulary, strategy = cell["initializer"], cell["vocabulary"], cell["strategy"]
        (colour, marker, _), end = look.of(key), (cell["lost"], cell["gained"])
        start = select(found, initializer=key, vocabulary=vocabulary, strategy="none")
        for x, y in start[["lost", "gained"]].itertuples(index=False):
            axis.plot([x, end[0]], [y, end[1]], color=colour, lw=0.8, alpha=0.4)
            axis.plot(x, y, marker, mfc=PAPER, mec=colour, mew=1.0, ms=4.5, zorder=3)
        large = few or strategy == study.reference_strategy
        axis.plot(*end, marker, color=colour, ms=6.5 if large else 4.5, zorder=4)
        if large:
            name = row_name(key, strategy)
            name += f" · {vocabulary}" if vocabularies > 1 and key != "none" else ""
            points.append(Named(*end, name + several * f" · {strategy}", colour, marker))
    axis.margins(0.2, 0.2)
    axis.locator_params(nbins=5)
    axis.grid(True)
    return points
