"""Scores of one initializer under each training strategy (Yamaguchi et al., Tables 4 and 10)."""

from lexigraft.report.frame import AXES, Model, StudyResults, select
from lexigraft.report.items import ScoreOptions, table
from lexigraft.report.model_table import results_table
from lexigraft.report.models import models, quality_columns
from lexigraft.report.names import initializer_name, row_name
from lexigraft.report.table import Table


@table(
    title="Training strategies",
    caption="Scores of the initializer trained under the most strategies, by procedure, "
    "objective and sequence length.",
    empty="no initializer was trained under two strategies or more",
    options=ScoreOptions,
)
def strategies(study: StudyResults) -> Table | None:
    """Rows procedure × objective and length, for the initializer with the most strategies.

    Strategies that an item names are rows even without a record.
    """
    trained = trained_models(study)
    columns = quality_columns(study)
    if "language" not in study.item.where:
        # Languages with only one trained strategy allow no comparison.
        columns = [
            column
            for column in columns
            if sum(study.find(model, *column) is not None for model in trained) > 1
        ]
    if not columns or not trained:
        return None
    baselines = [
        model for model in models(study) if model.baseline and model.source == trained[0].source
    ]
    names = [study.strategy_name(model.strategy) for model in trained]
    stubs: list[tuple[str, ...]] = [
        (row_name(model.initializer, model.strategy), model.strategy.replace("none", ""))
        for model in baselines
    ]
    stubs += [(name.title, name.setting) for name in names]
    title = f"Training strategies for {initializer_name(trained[0].initializer)}"
    headers = ("Procedure", "Objective + length")
    return results_table(title, study, [*baselines, *trained], columns, stubs, headers)


def trained_models(study: StudyResults) -> list[Model]:
    """All trained strategies of the configuration with the most of them; empty below two."""
    adapted = study.scores[
        (study.scores["initializer"] != "none") & (study.scores["strategy"] != "none")
    ]
    counts = adapted.groupby(AXES[:3], sort=False)["strategy"].nunique()
    if not counts.max() > 1:
        return []
    source, vocabulary, initializer = counts.idxmax()
    rows = select(adapted, source=source, vocabulary=vocabulary, initializer=initializer)
    names = {*rows["strategy"], *study.item.where.get("strategy", ())}
    trained = [
        Model(source, vocabulary, initializer, name)
        for name in study.order("strategy")
        if name in names
    ]
    # Rows are grouped by procedure, in the order of the study.
    procedures = [study.strategy_name(model.strategy).procedure for model in trained]
    trained.sort(key=lambda m: procedures.index(study.strategy_name(m.strategy).procedure))
    return trained
