"""Scores of tasks during training (CW2V, Figures 2 to 4)."""

from lexigraft.report.curves import End, lines, name_ends
from lexigraft.report.items import Kind, ScoreOptions
from lexigraft.report.metrics import metric
from lexigraft.report.models import find, source_model
from lexigraft.report.study import SEEDED, StudyResults
from lexigraft.report.style import MUTED, Axes, Figure, Look, panel_grid, plain_axis, title_panel
from lexigraft.report.summarize import CELL, Frame, select
from lexigraft.report.tables.results import quality_columns

KIND = Kind(
    title="Scores during training",
    caption="Scores of tasks on equally spaced training checkpoints. Checkpoint 0 is the model "
    "with its new rows before training, the last one is the trained cell. Bars: one standard "
    "deviation over seeds. Dotted: the source model.",
    empty="no task was run on training checkpoints",
    options=ScoreOptions,
)
_MOST_COLUMNS = 2
_PANEL = ["source", "language", "task", "metric"]
_KEYS = [*SEEDED, "task", "kind", "metric"]


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A panel for each source, language, task and metric; a line per trained model."""
    scores = checkpoint_scores(study)
    drawn = lines(study, look)
    measured = set(scores[_PANEL].itertuples(index=False, name=None))
    panels = [
        (source, *key)
        for source in study.order("source")
        for key in quality_columns(study)
        if (source, *key) in measured
    ]
    if not panels or not drawn:
        return None
    figure, axes = panel_grid(len(panels), _MOST_COLUMNS, 2.6)
    ends: list[tuple[Axes, list[End]]] = []
    for panel, (axis,) in zip(panels, axes, strict=True):
        keys = dict(zip(_PANEL, panel, strict=True))
        source, language, task, name = panel
        untouched = find(study, source_model(source), language, task, name)
        if untouched is not None:
            axis.axhline(float(untouched["mean"]), color=MUTED, lw=0.9, ls=":", zorder=1)
        plain_axis(axis, "y")
        axis.locator_params(axis="x", integer=True)
        named: list[End] = []
        for model, label, style in (line for line in drawn if line.model.source == source):
            own = select(scores, **keys | model.keys()).sort_values("checkpoint")
            if len(own):
                axis.errorbar(own["checkpoint"], own["mean"], yerr=own["std"], ms=4, capsize=1.5,
                              elinewidth=0.8, **style)  # fmt: skip
                end = own.iloc[-1]
                named.append((float(end["checkpoint"]), float(end["mean"]), label, style["color"]))
        ends.append((axis, named))
        title_panel(axis, study.place(source, language, task))
        arrow = "↓" if metric(name).lower_is_better else "↑"
        noise = " (noise)" if study.is_noise(panel[0], panel[1:]) else ""
        axis.set_ylabel(f"{metric(name).title} {arrow}{noise}")
        axis.set_xlabel("checkpoint")
    name_ends(figure, ends)
    return figure


def checkpoint_scores(study: StudyResults) -> Frame:
    """One row per trained cell (without its seed), task, metric and checkpoint.

    `mean` and `std` over seeds are computed from means over runs (`std` is missing below two
    seeds). `checkpoint` 0 is the cell before training, the largest one is the trained cell. Empty
    without records of checkpoints.
    """
    import pandas

    inside = study.checkpoints
    columns = [*CELL, "task", "kind", "metric", "checkpoint", "mean", "std"]
    if inside.empty:
        return pandas.DataFrame(columns=columns)
    wanted = inside[_KEYS].drop_duplicates()
    last = study.training[[*SEEDED, "checkpoints"]].rename(columns={"checkpoints": "checkpoint"})
    after = study.scores.merge(wanted, on=_KEYS).merge(last, on=SEEDED)
    rows = pandas.concat([_before(study, wanted), inside, after], ignore_index=True)
    by_seed = rows.groupby([*_KEYS, "checkpoint"], sort=False)["value"].mean().reset_index()
    grouped = by_seed.groupby([*CELL, "task", "kind", "metric", "checkpoint"], sort=False)
    return grouped["value"].agg(["mean", "std"]).reset_index()


def _before(study: StudyResults, wanted: Frame) -> Frame:
    """Scores of untrained cells under the names of the trained cells.

    They are those of the same seed, or the mean over all seeds: many cells have only one seed.
    """
    import pandas

    untrained = study.scores[study.scores["strategy"] == "none"]
    axes = [axis for axis in _KEYS if axis not in ("strategy", "seed")]
    same = wanted.merge(untrained.drop(columns="strategy"), on=[*axes, "seed"])
    have = same[_KEYS].drop_duplicates().assign(found=True)
    rest = wanted.merge(have, on=_KEYS, how="left")
    rest = rest[rest["found"].isna()].drop(columns="found")
    means = untrained.groupby(axes, sort=False)["value"].mean().reset_index()
    return pandas.concat([same, rest.merge(means, on=axes)]).assign(checkpoint=0)
