"""Scores of one initializer under each training strategy (Yamaguchi et al., Tables 4 and 10)."""

from typing import TYPE_CHECKING

from lexigraft.report.items import Kind, ScoreOptions
from lexigraft.report.models import Model, find, models
from lexigraft.report.names import initializer_name, row_name
from lexigraft.report.study import StudyResults
from lexigraft.report.table import Table
from lexigraft.report.tables.results import quality_columns, results_table

if TYPE_CHECKING:
    import pandas


KIND = Kind(
    title="Training strategies",
    caption="Scores of the initializer that was trained under most strategies, by procedure, "
    "objective and sequence length.",
    empty="no initializer was trained under two strategies or more",
    options=ScoreOptions,
)


def build(study: StudyResults, summary: "pandas.DataFrame") -> Table | None:
    """Rows procedure × objective and length, for the initializer that has most strategies.

    Strategies that an item asks for are rows even where no record has them.
    """
    compared = compared_models(study)
    columns = quality_columns(study, summary)
    if "language" not in study.item.where:
        # Languages in which only one of the strategies was trained have nothing to compare.
        columns = [
            (language, task, name)
            for language, task, name in columns
            if sum(find(summary, m, language=language, task=task, metric=name) is not None
                   for m in compared) > 1
        ]  # fmt: skip
    if not columns or not compared:
        return None
    baselines = [model for model in models(study) if model.baseline]
    baselines = [model for model in baselines if model.source == compared[0].source]
    stubs: list[tuple[str, ...]] = [
        (row_name(m.initializer, m.strategy), m.strategy.replace("none", "")) for m in baselines
    ]
    for model in compared:
        parts = study.strategy(model.strategy)
        stubs.append((parts.title, parts.setting))
    title = f"Training strategies for {initializer_name(compared[0].initializer)}"
    chosen = [*baselines, *compared]
    headers = ("Procedure", "Objective + length")
    return results_table(title, study, summary, chosen, columns, stubs, headers)


def compared_models(study: StudyResults) -> list[Model]:
    """All trained strategies of the configuration with most of them; empty below two."""
    adapted = study.scores[
        (study.scores["initializer"] != "none") & (study.scores["strategy"] != "none")
    ]
    if adapted.empty:
        return []
    axes = ["source", "vocabulary", "initializer"]
    counts = adapted.groupby(axes, sort=False)["strategy"].nunique()
    if counts.max() < 2:
        return []
    source, vocabulary, initializer = chosen = counts.idxmax()
    strategies = [
        strategy
        for strategy in study.order("strategy")
        if strategy in study.item.where.get("strategy", ())
        or ((adapted[axes] == list(chosen)).all(axis=1) & (adapted["strategy"] == strategy)).any()
    ]
    # Rows of one procedure stand together, procedures in the order in which the study lists them.
    procedures = list(dict.fromkeys(study.strategy(name).procedure for name in strategies))
    strategies.sort(key=lambda name: procedures.index(study.strategy(name).procedure))
    return [Model(source, vocabulary, initializer, strategy) for strategy in strategies]
