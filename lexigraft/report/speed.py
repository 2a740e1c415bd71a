"""Speed-ups: how many times as fast as the source model a model generates."""

from typing import Annotated, Any, Literal

from pandas import DataFrame
from pydantic import Field

from lexigraft.report.frame import Model, StudyResults, models_of
from lexigraft.report.names import SAME_TEXT

Unit = Annotated[
    Literal["same_text_characters", "answer_tokens", "answer_characters", "tokens"],
    Field(
        description="what the speed-up counts: characters of the same text; or, as papers do, "
        "tokens or characters of the model's answers, whose texts differ"
    ),
]


def speed_ups(study: StudyResults) -> DataFrame:
    """Rows of the summary that are speed-ups in the item's unit, of the smallest batch of a task.

    `prompts` is the kind of the task whose prompts were continued.
    """
    unit, rows = study.item.option("speed") or SAME_TEXT, study.summary
    ratio = rf"^{unit}_per_second_batch_(\d+)_over_source$"
    batch = rows["metric"].str.extract(ratio)[0].astype(float)
    prompts = rows["task"].map(study.prompts_from).fillna("translation")
    rows = rows.assign(batch=batch, prompts=prompts)[batch.notna()]
    return rows[rows["batch"] == rows.groupby("task")["batch"].transform("min")]


def speed_up_of(study: StudyResults) -> dict[tuple[Model, str, str], dict[str, Any]]:
    """Model, language and kind of task -> its row of `speed_ups`."""
    rows = speed_ups(study)
    keys = zip(models_of(rows), rows["language"], rows["prompts"], strict=True)
    return dict(zip(keys, rows.to_dict("records"), strict=True))
