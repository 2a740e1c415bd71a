"""Gains in the language against losses in English, per model."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lexigraft.report.before_after import METRIC
from lexigraft.report.items import Item, Kind, Options, TaskNames
from lexigraft.report.labels import Named, label_marks
from lexigraft.report.metrics import ENGLISH_BITS_PER_BYTE as ENGLISH
from lexigraft.report.metrics import metric, primary_metric
from lexigraft.report.names import row_name
from lexigraft.report.study import SEEDED, StudyResults
from lexigraft.report.style import MUTED, PAPER, Look, panel_grid, title_panel
from lexigraft.report.summarize import CELL, summarize

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = [*CELL, "gained", "lost", "measured_on"]
_MOST_COLUMNS = 2
_MOST_NAMED = 8  # points of a panel, all of which have names
_SAME = ["vocabulary", "initializer"]


class ForgettingOptions(Options):
    """The options of a figure of forgetting."""

    tasks: Annotated[
        TaskNames,
        Field(
            description="instead of bits per byte, the score of one task against its English one, "
            "or of the first of two against that of the second, which tests English"
        ),
    ] = ()


def _caption(item: Item) -> str:
    what = " and ".join(item.tasks) or "bits per byte"
    return (
        "What each model gained in its language over the source model, against what it lost in "
        f"English. In {what}; up and left is better, dotted lines are the source model. Hollow: "
        "with new rows and no training; filled: trained. Means over seeds. Where there are more "
        f"than {_MOST_NAMED} trained models, each vocabulary has its panel; where a panel still "
        "has more, those not under {strategy} are small and have no name."
    )


KIND = Kind(
    title="Gains in the language and losses in English",
    caption=_caption,
    empty="no trained cell has English text measured beside its source",
    options=ForgettingOptions,
)


def draw(study: StudyResults, summary: "pandas.DataFrame", look: Look) -> "Figure | None":
    """Panels of sources and languages; a point per cell, hollow before training, filled after."""
    panels = _panels(study, gains_and_losses(study, summary))
    if not panels:
        return None
    figure, axes = panel_grid(len(panels), _MOST_COLUMNS, 3.1)
    named = []
    for (title, own), (axis,) in zip(panels, axes, strict=True):
        named.append((axis, _panel(axis, own, look, study), (0.0, 0.0)))
        title_panel(axis, title)
        gained, lost = _names(study)
        axis.set_xlabel(lost)
        axis.set_ylabel(gained)
    label_marks(figure, named)
    return figure


def gains_and_losses(study: StudyResults, summary: "pandas.DataFrame") -> "pandas.DataFrame":
    """One row per cell (without its seed) that is not the source model: `gained` and `lost`.

    Both are positive where they say so: of bits per byte, which are better where lower, `gained`
    is what the source model needs more and `lost` what the cell needs more of English text. Of one
    of the `tasks` asked for they are differences of its main metric and of that on English; of two,
    of the main metrics of the first, on the language, and of the second, on English.

    Scores are those of records (`records`), or, without records of English bits per byte, of the
    held-out and English sentences watched during training (`log`).
    """
    import pandas

    if study.item.tasks:
        pair = [(task, _main_metric(summary, task)) for task in study.item.tasks[:2]]
        if len(pair) == 1:
            task, name = pair[0]
            pair.append((task, f"english_{name}"))
        return _differences(summary, pair, "records")
    tasks = summary.loc[summary["metric"] == ENGLISH, "task"]
    if len(tasks):
        task = str(tasks.iloc[0])
        return _differences(summary, [(task, METRIC), (task, ENGLISH)], "records")
    logged = _logged(study)
    if logged.empty:
        return pandas.DataFrame(columns=_COLUMNS)
    return _differences(summarize(logged), [("log", METRIC), ("log", ENGLISH)], "log")


def _panels(study: StudyResults, found: "pandas.DataFrame") -> "list[tuple[str, pandas.DataFrame]]":
    """Titles and cells of the panels: of vocabularies, where one of all would have many points."""
    panels = []
    for source in study.order("source"):
        for language in study.order("language"):
            own = found[(found["source"] == source) & (found["language"] == language)]
            new = own.loc[own["strategy"] != "none", "vocabulary"]
            if new.empty:
                continue
            title = study.place(source, language)
            vocabularies = [name for name in study.new_vocabularies if (new == name).any()]
            if len(new) <= _MOST_NAMED or len(vocabularies) < 2:
                panels.append((title, own))
                continue
            for name in vocabularies:
                of_it = own[own["vocabulary"].isin(["source", name])]
                panels.append((f"{title}, {name}", of_it))
    return panels


def _names(study: StudyResults) -> tuple[str, str]:
    if study.item.tasks:
        return f"gain: {study.item.tasks[0]}", f"loss: {study.item.tasks[-1]}"
    return "gain in bits per byte", "loss in bits per byte of English"


def _panel(axis: "Axes", found: "pandas.DataFrame", look: Look, study: StudyResults) -> list[Named]:
    """Draw the points of one panel, a line from each start to its ends; returns their names."""
    axis.axhline(0, color=MUTED, lw=0.8, ls=":", zorder=1)
    axis.axvline(0, color=MUTED, lw=0.8, ls=":", zorder=1)
    trained = found[found["strategy"] != "none"]
    started = found[found["strategy"] == "none"]
    vocabularies = found.loc[found["vocabulary"] != "source", "vocabulary"].nunique()
    # Where there are too many to be told apart, those under other strategies go without a name.
    few = len(trained) <= _MOST_NAMED
    several = few and trained["strategy"].nunique() > 1
    points = []
    for cell in trained.to_dict("records"):
        colour, marker = look.colour(cell["initializer"]), look.marker(cell["initializer"])
        start = started[(started[_SAME] == [cell[axis] for axis in _SAME]).all(axis=1)]
        for x, y in start[["lost", "gained"]].itertuples(index=False):
            axis.plot([x, cell["lost"]], [y, cell["gained"]], color=colour, lw=0.8, alpha=0.4)
            axis.plot(x, y, marker, mfc=PAPER, mec=colour, mew=1.0, ms=4.5, zorder=3)
        large = few or cell["strategy"] == study.reference_strategy
        size = 6.5 if large else 4.5
        axis.plot(cell["lost"], cell["gained"], marker, color=colour, ms=size, zorder=4)
        name = row_name(cell["initializer"], cell["strategy"])
        if vocabularies > 1 and cell["initializer"] != "none":
            name += f" · {cell['vocabulary']}"
        if several:
            name += f" · {cell['strategy']}"
        if large:
            points.append(Named(cell["lost"], cell["gained"], name, colour, marker))
    axis.margins(0.2, 0.2)
    axis.locator_params(nbins=5)
    axis.grid(True)
    return points


def _main_metric(summary: "pandas.DataFrame", task: str) -> str | None:
    own = summary[summary["task"] == task]
    kind = str(own["kind"].iloc[0]) if len(own) else ""
    return primary_metric(kind, list(dict.fromkeys(own["metric"])))


def _differences(
    summary: "pandas.DataFrame", pair: list[tuple[str, str | None]], measured_on: str
) -> "pandas.DataFrame":
    """Changes over the source model of a pair of metrics, each as what is better."""
    sides = []
    for (task, name), column in zip(pair, ("gained", "lost"), strict=True):
        own = summary[(summary["task"] == task) & (summary["metric"] == name)]
        better = -1 if name and metric(name.removeprefix("english_")).lower_is_better else 1
        sign = better if column == "gained" else -better
        sides.append(own[CELL].assign(**{column: sign * own["change"]}))
    found = sides[0].merge(sides[1], on=CELL).assign(measured_on=measured_on)
    source = (found["initializer"] == "none") & (found["strategy"] == "none")
    return found[~source & found["gained"].notna() & found["lost"].notna()][_COLUMNS]


def _logged(study: StudyResults) -> "pandas.DataFrame":
    """What the logs end with, as scores of a task; training the source begins with the source.

    An untrained cell's log has its beginning alone, which is its end too.
    """
    import pandas

    columns = [*SEEDED, "task", "kind", "run", "metric", "value"]
    curves = study.curves
    if ENGLISH not in curves:
        return pandas.DataFrame(columns=columns)
    heldout = curves[(curves["event"] == "heldout") & curves[ENGLISH].notna()]
    rows = heldout.sort_values("step", kind="stable").groupby(SEEDED, sort=False)
    ends, starts = rows.last().reset_index(), rows.first().reset_index()
    lapt = starts[(starts["initializer"] == "none") & (starts["strategy"] != "none")]
    # Where the source itself has a log too, this says the same of it once more.
    every = pandas.concat([ends, lapt.assign(strategy="none")])
    long = every.melt(id_vars=SEEDED, value_vars=[METRIC, ENGLISH], var_name="metric")
    return long.assign(task="log", kind="perplexity", run=0)[columns]
