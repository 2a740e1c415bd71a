"""Generation speed of models relative to their source model."""

import math
from typing import Any

from pandas import DataFrame

from lexigraft.report.frame import Model, StudyResults, select
from lexigraft.report.names import SAME_TEXT, parse_speed
from lexigraft.report.rendering import number
from lexigraft.report.table import TableCell, shade_of

SPEED_UP_NOTE = (
    "Speed-up: characters per second over Source on the same text, smallest batch measured unless "
    "another is named."
)


def measured_speeds(study: StudyResults) -> DataFrame:
    """Rows of the summary that are speeds, with `unit`, `batch` and `speed_up` over Source.

    For each task and batch size: tokens, and characters on the same text (`same_text_characters`).
    """
    parsed = study.summary["metric"].map(parse_speed)
    rows = study.summary[parsed.notna()].copy()
    rows["unit"] = [unit for unit, _ in parsed.dropna()]
    rows["batch"] = [batch for _, batch in parsed.dropna()]
    rows["speed_up"] = rows["mean"] / rows["source_mean"]
    return rows[rows["unit"].isin(("tokens", SAME_TEXT))]


def same_text_speeds(study: StudyResults) -> DataFrame:
    """Rows of `measured_speeds` with the speed-up of generated text over the source model."""
    rows = measured_speeds(study)
    return rows[(rows["unit"] != "tokens") & rows["speed_up"].notna()]


def speed_by_task_kind(
    study: StudyResults, speeds: DataFrame, model: Model
) -> dict[tuple[str, str], dict[str, Any]]:
    """`(language, kind of task)` -> the row of `speeds` with a model's characters per second.

    `speeds` are those of `measured_speeds`. A speed task represents the kind of task whose prompts
    it continues. The batch size is the item's, otherwise the smallest.
    """
    rows = select(speeds[speeds["unit"] != "tokens"], **model.axes())
    if batch := study.item.option("batch_size"):
        rows = rows[rows["batch"] == batch]
    rows_by_kind: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.sort_values("batch", kind="stable").to_dict("records"):
        task_kind = study.prompts_from.get(row["task"], "translation")
        rows_by_kind.setdefault((row["language"], task_kind), row)
    return rows_by_kind


def speed_up_cell(row: dict[str, Any] | None) -> TableCell:
    """The speed-up of a row of the summary over Source."""
    if row is None or not row["source_mean"] > 0:
        return TableCell()
    ratio, deviation = (float(row[name] / row["source_mean"]) for name in ("mean", "std"))
    return TableCell(
        f"{number(ratio, 2)}×",
        "" if math.isnan(deviation) else number(deviation, 2),
        shade=shade_of(ratio - 1),
        value=ratio,
    )
