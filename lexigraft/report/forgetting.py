"""What a cell gained in its language and what it lost in English, both against the source model."""

from typing import TYPE_CHECKING

from lexigraft.report.before_after import METRIC
from lexigraft.report.metrics import metric, primary_metric
from lexigraft.report.study import SEEDED, Study
from lexigraft.report.summarize import CELL, summarize

if TYPE_CHECKING:
    import pandas

ENGLISH = f"english_{METRIC}"
COLUMNS = [*CELL, "gained", "lost", "measured_on"]


def gains_and_losses(study: Study, summary: "pandas.DataFrame") -> "pandas.DataFrame":
    """One row per cell (without its seed) that is not the source model: `gained` and `lost`.

    Both are positive where they say so: of bits per byte, which are better where lower, `gained`
    is what the source model needs more and `lost` what the cell needs more of English text. Of one
    of the `tasks` asked for they are differences of its main metric and of that on English; of two,
    of the main metrics of the first, on the language, and of the second, on English.

    Scores are those of records (`records`), or, without records of English bits per byte, of the
    held-out and English sentences watched during training (`log`).
    """
    import pandas

    asked = study.asked.tasks
    if asked:
        pair = [(task, _main_metric(summary, task)) for task in asked[:2]]
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
        return pandas.DataFrame(columns=COLUMNS)
    return _differences(summarize(logged), [("log", METRIC), ("log", ENGLISH)], "log")


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
    return found[~source & found["gained"].notna() & found["lost"].notna()][COLUMNS]


def _logged(study: Study) -> "pandas.DataFrame":
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
