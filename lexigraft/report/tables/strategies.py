"""Scores of one initializer under each training strategy (Yamaguchi et al., Tables 4 and 10)."""

from lexigraft.report.frame import AXES, Model, StudyResults, select
from lexigraft.report.items import table
from lexigraft.report.model_table import results_table
from lexigraft.report.models import TableOptions, models, quality_columns
from lexigraft.report.names import initializer_name, row_name, strategy_name
from lexigraft.report.table import Table


@table(
    title="Training strategies",
    caption="Scores of the initializer trained under the most strategies, by strategy.",
    empty="no initializer was trained under two strategies or more",
    options=TableOptions,
)
def strategies(study: StudyResults) -> Table | None:
    """Rows: Source, LAPT, and the strategies of the initializer that has the most.

    Strategies that an item names are rows even without a record.
    """
    adapted = study.scores[
        (study.scores["initializer"] != "none") & (study.scores["strategy"] != "none")
    ]
    counts = adapted.groupby(AXES[:3], sort=False)["strategy"].nunique()
    if not counts.max() > 1:
        return None
    source, vocabulary, initializer = counts.idxmax()
    rows = select(adapted, source=source, vocabulary=vocabulary, initializer=initializer)
    names = {*rows["strategy"], *study.item.where.get("strategy", ())}
    trained = [
        Model(source, vocabulary, initializer, name)
        for name in study.order("strategy")
        if name in names
    ]
    columns = quality_columns(study)
    if "language" not in study.item.where:
        # Languages with only one trained strategy allow no comparison.
        columns = [
            column
            for column in columns
            if sum(study.find(model, *column) is not None for model in trained) > 1
        ]
    if not columns:
        return None
    baselines = [model for model in models(study) if model.baseline and model.source == source]
    stubs = [
        (row_name(model.initializer, model.strategy), strategy_name(model.strategy))
        for model in (*baselines, *trained)
    ]
    title = f"Training strategies for {initializer_name(initializer)}"
    return results_table(
        title, study, [*baselines, *trained], columns, stubs, ("Model", "Strategy")
    )
