"""Scores of one initializer under each training strategy (Yamaguchi et al., Tables 4 and 10)."""

from lexigraft.report.items import Kind, ScoreOptions
from lexigraft.report.models import AXES, Model, find, models
from lexigraft.report.names import initializer_name, row_name
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import select
from lexigraft.report.table import Table
from lexigraft.report.tables.results import quality_columns, results_table

KIND = Kind(
    title="Training strategies",
    caption="Scores of the initializer trained under the most strategies, by procedure, "
    "objective and sequence length.",
    empty="no initializer was trained under two strategies or more",
    options=ScoreOptions,
)


def build(study: StudyResults) -> Table | None:
    """Rows procedure × objective and length, for the initializer with the most strategies.

    Strategies that an item names are rows even without a record.
    """
    compared = compared_models(study)
    columns = quality_columns(study)
    if "language" not in study.item.where:
        # Languages with only one trained strategy allow no comparison.
        columns = [
            column
            for column in columns
            if sum(find(study, model, *column) is not None for model in compared) > 1
        ]
    if not columns or not compared:
        return None
    baselines = [model for model in models(study)
                 if model.baseline and model.source == compared[0].source]  # fmt: skip
    names = [study.strategy(model.strategy) for model in compared]
    stubs: list[tuple[str, ...]] = [
        *((row_name(m.initializer, m.strategy), m.strategy.replace("none", "")) for m in baselines),
        *((name.title, name.setting) for name in names),
    ]
    title = f"Training strategies for {initializer_name(compared[0].initializer)}"
    chosen = [*baselines, *compared]
    headers = ("Procedure", "Objective + length")
    return results_table(title, study, chosen, columns, stubs, headers)


def compared_models(study: StudyResults) -> list[Model]:
    """All trained strategies of the configuration with the most of them; empty below two."""
    adapted = study.scores[
        (study.scores["initializer"] != "none") & (study.scores["strategy"] != "none")
    ]
    counts = adapted.groupby(AXES[:3], sort=False)["strategy"].nunique()
    if not counts.max() > 1:
        return []
    source, vocabulary, initializer = counts.idxmax()
    own = select(adapted, source=source, vocabulary=vocabulary, initializer=initializer)
    names = {*own["strategy"], *study.item.where.get("strategy", ())}
    found = [Model(source, vocabulary, initializer, name)
             for name in study.order("strategy") if name in names]  # fmt: skip
    # Rows are grouped by procedure, in the order of the study.
    procedures = [study.strategy(model.strategy).procedure for model in found]
    found.sort(key=lambda model: procedures.index(study.strategy(model.strategy).procedure))
    return found
