"""Scores of each model on each task (Yamaguchi et al., Tables 1, 5, 9 and 12)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import pandas
from pydantic import Field

from lexigraft.report.frame import Column, Model, StudyResults
from lexigraft.report.items import Name, Refers, ScoreOptions, SpeedUpBatch, table
from lexigraft.report.model_table import HOW_SHOWN, results_table
from lexigraft.report.models import Averages, models, quality_columns, stub, stub_names
from lexigraft.report.names import initializer_name
from lexigraft.report.speed import (
    SPEED_UP_NOTE,
    measured_speeds,
    speed_by_task_kind,
    speed_up_cell,
)
from lexigraft.report.table import Row, Table


class ResultOptions(ScoreOptions):
    """The options of a table of results."""

    averages: Averages = ()
    speed_up_of: Annotated[
        Name | None,
        Refers("initializers"),
        Field(description="initializer whose speed-up is the last row of each source model"),
    ] = None
    batch_size: SpeedUpBatch = None


@table(
    title="Results",
    caption="Scores of each initializer by language and task, compared with Source and LAPT. "
    f"{HOW_SHOWN} Stars mark changes that are significant over test examples and seeds.",
    empty="no cell has a task that measures quality",
    options=ResultOptions,
)
def results(study: StudyResults) -> Table | None:
    """Rows Source, LAPT and the initializers, by source model; a column per language and task.

    With `averages`, there are also columns of means. With `speed_up_of`, the last row of each
    source model shows how much faster that initializer's model generates the same text (Table 5).
    """
    rows, columns = models(study), quality_columns(study)
    if not columns or not rows:
        return None
    strategy = study.reference_strategy
    title = f"Results under {strategy}" if strategy else "Results without training"
    scores = results_table(title, study, rows, columns)
    initializer = study.item.option("speed_up_of")
    return _with_speed_ups(scores, study, rows, columns, initializer) if initializer else scores


def _with_speed_ups(
    scores: Table,
    study: StudyResults,
    models: Sequence[Model],
    columns: Sequence[Column],
    initializer: str,
) -> Table:
    """Add a last row for each source model: the speed-up of an initializer."""
    speeds = measured_speeds(study)
    rows_by_kind = {
        model: speed_by_task_kind(study, speeds, model)
        for model in models
        if model.initializer == initializer
    }
    keys = [(language, study.task_kind(task)) for language, task, _ in columns]
    measured = [
        of_model[key] for of_model in rows_by_kind.values() for key in keys if key in of_model
    ]
    rows = []
    for source in dict.fromkeys(model.source for model in models):
        rows += [row for row in scores.rows if row.group == source]
        for model, of_model in rows_by_kind.items():
            if model.source == source:
                cells = [speed_up_cell(of_model.get(key), scores.compact) for key in keys]
                label = f"Speed-up ({initializer_name(initializer)})"
                left = (*stub(model, stub_names(study))[:-1], label)
                rows.append(Row(left, tuple(cells), group=source))
    data = scores.data
    if measured:
        speed_ups = pandas.DataFrame(measured).drop_duplicates()
        data = pandas.concat([data, speed_ups], ignore_index=True)
    notes = [*scores.notes, SPEED_UP_NOTE]
    return replace(scores, rows=rows, data=data, notes=notes)
