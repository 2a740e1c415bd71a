"""What is said under a table: over how many seeds it is, how it was tested, what is missing."""

from typing import TYPE_CHECKING

from lexigraft.report.metrics import metric
from lexigraft.report.models import Model, several_strategies
from lexigraft.report.names import row_name
from lexigraft.report.paired_tests import RESAMPLES
from lexigraft.report.score_differences import ScoreDifference
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import select
from lexigraft.report.table import MISSING, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas


def seed_notes(study: StudyResults, models: list[Model], summary: "pandas.DataFrame") -> list[str]:
    """How many seeds the numbers are over, and which are missing where."""
    seeds = study.seeds
    listed = ", ".join(map(str, seeds))
    over_runs = summary[summary["over"] == "runs"]
    if len(seeds) == 1 and len(over_runs):
        runs = f", {over_runs['n_runs'].max()} runs; mean ± sample standard deviation over runs."
    else:
        runs = "; mean ± sample standard deviation." if len(seeds) > 1 else "; no deviation is shown."  # fmt: skip # noqa: E501
    notes = [f"n = {len(seeds)} seed{'s' if len(seeds) > 1 else ''} ({listed}){runs}"]
    planned = seeds_by_task(study)
    lost: dict[tuple[str, str], list[str]] = {}
    for model in (model for model in models if model.strategy != "none"):
        for language in study.order("language"):
            found = select(summary, language=language, **model.keys())
            for task, group in found.groupby("task", sort=False):
                have = {int(seed) for seed in group["seeds"].iloc[0].split()}
                gone = ", ".join(str(s) for s in planned[str(task)] if s not in have)
                if gone:
                    name = row_name(model.initializer, model.strategy)
                    where = f"{name} in {study.language(language)}"
                    lost.setdefault((str(task), gone), []).append(where)
    for (name, gone), places in lost.items():
        notes.append(f"{name}: no seed {gone} for {', '.join(dict.fromkeys(places))}.")
    for task in summary["task"].drop_duplicates():
        if planned.get(task, seeds) != seeds:
            notes.append(f"{task}: seed {', '.join(map(str, planned[task]))} alone, as configured.")
    if len(seeds) > 1 and len(over_runs):
        notes.append("Cells with one seed and several runs show the deviation over runs.")
    return notes


def seeds_by_task(study: StudyResults) -> dict[str, list[int]]:
    """Seeds that any trained cell has for a task: a study may measure a task on some seeds only."""
    trained = study.scores[study.scores["strategy"] != "none"]
    return {
        str(task): sorted(int(seed) for seed in group.unique())
        for task, group in trained.groupby("task", sort=False)["seed"]
    }


def lapt_note(study: StudyResults, chosen: list[Model]) -> list[str]:
    """Say under which strategy LAPT was trained where no column does and it is not the compared."""
    if several_strategies(study):
        return []
    several = len({model.source for model in chosen}) > 1
    return [
        f"LAPT{f' of {model.source}' if several else ''} was trained by {model.strategy}."
        for model in chosen
        if model.baseline and model.strategy not in ("none", study.reference_strategy)
    ]


def not_scored_notes(study: StudyResults, shown: "Iterable[tuple[str, str]]") -> list[str]:
    """Why learned metrics have no score, for `(task, metric)` pairs of a table."""
    reasons: dict[tuple[str, str], int] = {}
    wanted = set(shown)
    for lost in study.not_scored:
        if (lost.task, lost.score) in wanted:
            key = (metric(lost.score).title, lost.why)
            reasons[key] = reasons.get(key, 0) + 1
    return [
        f"{title} not scored ({count} run{'s' if count > 1 else ''}): {why}"
        for (title, why), count in reasons.items()
    ]


def stars_note(drawn: str, tested: int, what: str, more: str = ",") -> str:
    """What the stars of a table mean.

    Parameters
    ----------
    drawn
        What the bootstrap draws.
    tested
        How many differences were tested together.
    what
        What they are, such as `changes over Source`.
    more
        Put in, with its commas, behind how often that was drawn.
    """
    note = f"* p < 0.05, ** p < 0.01: paired bootstrap over {drawn}, {RESAMPLES:,} resamples{more}"
    if tested == 1:
        return f"{note.rstrip(',;')}."
    return f"{note} p corrected for the {tested} {what} in this table (Benjamini-Hochberg)."


def bootstrap_notes(compared: list[ScoreDifference], what: str) -> list[str]:
    """What a table says of the stars in it.

    Parameters
    ----------
    what
        What was compared, such as `differences to Source`.
    """
    if not compared:
        return []
    notes = [stars_note("test examples and seeds", len(compared), what)]
    alone = [one for one in compared if not one.freedom and one.model.strategy != "none"]
    if alone:
        which = "In this table" if len(alone) == len(compared) else f"In {len(alone)} of them"
        notes.append(
            f"{which} no model has several seeds: the test covers other examples only, not "
            "training with other seeds."
        )
    return notes


def missing_note(rows: "Sequence[Row]", columns: "Sequence[tuple[str, str]]") -> list[str]:
    """Say which numbers are missing rather than leave a gap unexplained."""
    lost = [
        f"{' '.join(row.stub)} in {' '.join(filter(None, column))}"
        for row in rows
        for column, cell in zip(columns, row.cells, strict=True)
        if cell.text == MISSING
    ]
    if not lost:
        return []
    shown = "; ".join(lost[:6]) + (f"; and {len(lost) - 6} more" if len(lost) > 6 else "")
    return [f"{MISSING}: not measured or not recorded ({shown})."]
