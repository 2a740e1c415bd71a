"""Scores of each model on each task (Yamaguchi et al., Tables 1, 5, 9 and 12)."""

from dataclasses import replace
from typing import Annotated

import pandas
from pydantic import Field

from lexigraft.report.frame import StudyResults
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
from lexigraft.report.table import Row, Table, compacted


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
    every_model, columns = models(study), quality_columns(study)
    if not columns or not every_model:
        return None
    strategy = study.reference_strategy
    title = f"Results under {strategy}" if strategy else "Results without training"
    scores = results_table(title, study, every_model, columns)
    initializer = study.item.option("speed_up_of")
    if not initializer:
        return scores
    speeds, measured = measured_speeds(study), []
    keys = [(language, study.task_kind(task)) for language, task, _ in columns]
    rows: list[Row] = []
    for source in dict.fromkeys(model.source for model in every_model):
        rows += [row for row in scores.rows if row.group == source]
        for model in every_model:
            if model.source == source and model.initializer == initializer:
                by_kind = speed_by_task_kind(study, speeds, model)
                measured += [by_kind[key] for key in keys if key in by_kind]
                names = stub(model, stub_names(study))[:-1]
                cells = tuple(speed_up_cell(by_kind.get(key)) for key in keys)
                label = f"Speed-up ({initializer_name(initializer)})"
                rows += compacted([Row((*names, label), cells, group=source)])
    data = scores.data
    if measured:
        speed_ups = pandas.DataFrame(measured).drop_duplicates()
        data = pandas.concat([data, speed_ups], ignore_index=True)
    return replace(scores, rows=rows, data=data, notes=[*scores.notes, SPEED_UP_NOTE])
