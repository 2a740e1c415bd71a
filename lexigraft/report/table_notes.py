"""Notes below a table: its number of seeds, and what is missing."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product

from lexigraft.report.metrics import metric
from lexigraft.report.models import Column, Model, several_strategies
from lexigraft.report.names import listed, row_name
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import Frame, select
from lexigraft.report.table import MISSING, Row


def seed_notes(study: StudyResults, models: list[Model], summary: Frame) -> list[str]:
    """Notes on the number of seeds, and on missing seeds."""
    seeds = study.seeds
    several = len(seeds) > 1
    over_runs = summary[summary["over"] == "runs"]
    runs = "; mean ± sample standard deviation." if several else "; no deviation is shown."
    if not several and len(over_runs):
        runs = f", {over_runs['n_runs'].max()} runs; mean ± sample standard deviation over runs."
    notes = [f"n = {len(seeds)} seed{'s' if several else ''} ({_listed(seeds)}){runs}"]
    trained = study.scores[study.scores["strategy"] != "none"]
    # A study may measure a task on only some seeds.
    planned = {
        str(task): sorted(map(int, group.unique()))
        for task, group in trained.groupby("task", sort=False)["seed"]
    }
    lost: dict[tuple[str, str], dict[str, None]] = {}  # task and seeds -> models and languages
    shown = set(summary["language"])
    vocabularies = {model.vocabulary for model in models if not model.baseline}
    for model in (model for model in models if model.strategy != "none"):
        for language in (one for one in study.order("language") if one in shown):
            found = select(summary, language=language, **model.keys())
            for task, have in found.drop_duplicates("task").set_index("task")["seeds"].items():
                gone = [seed for seed in planned[str(task)] if str(seed) not in have.split()]
                name = row_name(model.initializer, model.strategy)
                if len(vocabularies) > 1 and not model.baseline:
                    name = f"{model.vocabulary} {name}"
                if gone:
                    where = lost.setdefault((str(task), _listed(gone)), {})
                    where[f"{name} in {study.language(language)}"] = None
    notes += [f"{task}: no seed {gone} for {', '.join(where)}."
              for (task, gone), where in lost.items()]  # fmt: skip
    notes += [
        f"{task}: seed {_listed(planned[task])} only, as configured."
        for task in summary["task"].drop_duplicates()
        if planned.get(task, seeds) != seeds
    ]
    if several and len(over_runs):
        notes.append("Cells with one seed and several runs show the deviation over runs.")
    return notes


def lapt_note(study: StudyResults, chosen: list[Model]) -> list[str]:
    """Name LAPT's strategy if it is not the reference strategy and no column shows it."""
    if several_strategies(study):
        return []
    several = len({model.source for model in chosen}) > 1
    return [
        f"LAPT{f' of {model.source}' if several else ''} was trained with {model.strategy}."
        for model in chosen
        if model.baseline and model.strategy not in ("none", study.reference_strategy)
    ]


def noise_notes(study: StudyResults, chosen: list[Model], columns: Iterable[Column]) -> list[str]:
    """Notes on scores of a table that are noise, because even the best model's is too low."""
    sources = list(dict.fromkeys(model.source for model in chosen))
    found: dict[tuple[str, str], list[str]] = {}  # task and metric -> languages and source models
    for source, column in product(sources, columns):
        if study.is_noise(source, column):
            language, *task_and_metric = column
            place = study.place(source, language)
            found.setdefault((task_and_metric[0], task_and_metric[1]), []).append(place)
    return [
        f"{task}, {listed(places)}: no model reaches {metric(name).noise:g} {metric(name).title}. "
        "Such scores are noise: they are not compared, ranked or tested."
        for (task, name), places in found.items()
    ]


def not_scored_notes(study: StudyResults, columns: Iterable[Column]) -> list[str]:
    """Why learned metrics have no score, for the columns of a table."""
    wanted = set(columns)
    reasons = Counter(
        (metric(lost.score).title, lost.why)
        for lost in study.not_scored
        if (lost.cell["language"], lost.task, lost.score) in wanted
    )
    return [
        f"{title} not scored ({count} run{'s' if count > 1 else ''}): {why}"
        for (title, why), count in reasons.items()
    ]


def missing_note(rows: Sequence[Row], columns: Sequence[tuple[str, str]]) -> list[str]:
    """List the missing numbers, so that no gap is unexplained."""
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


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, seeds))
