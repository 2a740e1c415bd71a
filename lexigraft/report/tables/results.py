"""Scores of each model on each task (Yamaguchi et al., Tables 1, 5, 9 and 12)."""

from dataclasses import replace
from typing import Annotated

import pandas
from pydantic import Field

from lexigraft.report.frame import StudyResults
from lexigraft.report.items import Name, Refers, table
from lexigraft.report.model_table import HOW_SHOWN, results_table, score_cell
from lexigraft.report.models import (
    TableOptions,
    Unit,
    models,
    quality_columns,
    speed_up_of,
    stub,
    stub_names,
)
from lexigraft.report.names import SAME_TEXT, initializer_name, metric
from lexigraft.report.table import Row, Table, compacted


class ResultOptions(TableOptions):
    """The options of a table of results."""

    speed_up_of: Annotated[
        Name | None,
        Refers("initializers"),
        Field(description="initializer whose speed-up is the last row of each source model"),
    ] = None
    speed: Unit = SAME_TEXT


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
    source model is that initializer's speed-up (Table 5).
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
    unit = study.item.option("speed")
    shown = metric(f"{unit}_per_second_batch_1_over_source")
    speeds, rows, data = speed_up_of(study), [], [scores.data]
    for source in dict.fromkeys(model.source for model in every_model):
        rows += [row for row in scores.rows if row.group == source]
        for model in every_model:
            if model.source == source and model.initializer == initializer:
                keys = [(model, language, study.task_kind(task)) for language, task, _ in columns]
                names = stub(model, stub_names(study))[:-1]
                label = f"Speed-up ({initializer_name(initializer)})"
                cells = [score_cell(speeds.get(key), shown) for key in keys]
                rows += compacted([Row((*names, label), tuple(cells), group=source)])
                data.append(pandas.DataFrame(speeds[key] for key in keys if key in speeds))
    note = f"Speed-up: {unit.replace('_', ' ')} per second over Source, smallest batch measured."
    frame = pandas.concat(data, ignore_index=True).drop_duplicates()
    return replace(scores, rows=rows, data=frame, notes=[*scores.notes, note])
