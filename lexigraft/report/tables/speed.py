"""Generation speed: tokens, characters and bytes per second (Yamaguchi et al., Table 3)."""

from dataclasses import replace
from itertools import product
from typing import Annotated, Literal

from pydantic import Field

from lexigraft.evaluation.metric_kinds import MetricKind
from lexigraft.report.frame import Column, Model, StudyResults, models_of, select
from lexigraft.report.items import BatchSize, TaskOptions, table
from lexigraft.report.model_table import model_rows, score_cell, seed_notes
from lexigraft.report.models import models, stub, stub_names
from lexigraft.report.names import SAME_TEXT, metric, task_name
from lexigraft.report.rendering import number
from lexigraft.report.speed import measured_speeds, speed_up_cell
from lexigraft.report.table import Table, TableCell, missing_note

_STEPS = "steps_per_sentence"
_RATE = MetricKind("rate", "per second")
_FIRST = MetricKind("first_token", "seconds", higher_is_better=False, decimals=3)
_SPEED = SAME_TEXT + "_per_second_batch_{batch}"
# Content of a column -> how it is shown, its head, and the names of its numbers in records.
_COLUMNS = {
    _STEPS: (metric(_STEPS), "steps/sentence", _STEPS),
    "tokens_per_second": (_RATE, "tokens/s", "tokens_per_second_batch_{batch}"),
    "characters_per_second": (_RATE, "characters/s", _SPEED),
    "bytes_per_second": (_RATE, "bytes/s", "same_text_bytes_per_second_batch_{batch}"),
    "first_token_seconds": (_FIRST, "first token, s", "first_token_seconds_batch_{batch}"),
    "speed_up": (_RATE, "speed-up", _SPEED),
}
_DEFAULT = (_STEPS, "tokens_per_second", "characters_per_second", "speed_up")
_Content = Literal[
    "steps_per_sentence",
    "tokens_per_second",
    "characters_per_second",
    "bytes_per_second",
    "first_token_seconds",
    "speed_up",
]


class SpeedOptions(TaskOptions):
    """The options of a table of speeds."""

    batch_size: Annotated[
        BatchSize | None,
        Field(description="batch size to show; default: all, or the smallest measured"),
    ] = None
    metrics: tuple[_Content, ...] = ()


@table(
    title="Generation speed",
    caption="Generation speed: tokens and characters per second, decoding steps per sentence, and "
    "the speed-up over Source in characters per second on the same text. Tokens per second are "
    "not comparable across vocabularies.",
    empty="no speed was measured",
    options=SpeedOptions,
)
def speed(study: StudyResults) -> Table | None:
    """Per language, speed task and batch size: tokens/s, characters/s and speed-up over Source.

    Tokens per second measure the speed of decoding steps; with longer tokens, each step produces
    more text, so the speed-up is that of characters per second on the same text. An item with only
    `speed_up` has one column per language and task (as in Table 3), for one batch size, with the
    tokens per second next to each speed-up.
    """
    item, measured = study.item, measured_speeds(study)
    if item.tasks:
        measured = measured[measured["task"].isin(item.tasks)]
    rows = models(study)
    if not {"vocabulary", "initializer"} <= set(item.where):
        known = set(models_of(measured))
        rows = [model for model in rows if model in known]
    has_steps = (study.summary["metric"] == _STEPS).any()
    contents = item.metrics or tuple(name for name in _DEFAULT if name != _STEPS or has_steps)
    narrow = contents == ("speed_up",)
    if item.option("batch_size") or narrow:
        measured = select(measured, batch=item.option("batch_size") or measured["batch"].min())
    if measured.empty or not rows:
        return None
    several = measured["task"].nunique() > 1
    pairs = measured[["task", "batch"]].drop_duplicates()
    scored = set(measured[["language", "task", "batch"]].itertuples(index=False, name=None))
    columns: dict[tuple[Column, str], tuple[str, str]] = {}  # column of the summary -> heads
    for language, (task, batch) in product(study.order("language"), pairs.itertuples(index=False)):
        if not item.tasks and (language, task, batch) not in scored:
            continue
        name = task_name(task, study.prompts_from.get(task, ""))
        for content in contents:
            _, label, recorded = _COLUMNS[content]
            # The steps per sentence do not depend on the batch size.
            group = [study.language(language), name if several else ""]
            group += [f"batch {batch}"] if content != _STEPS else []
            head = ", ".join(filter(None, group)), label
            key = (language, task, recorded.format(batch=batch)), content
            columns[key] = (study.language(language), name) if narrow else head

    def cell(model: Model, key: tuple[Column, str]) -> TableCell:
        (language, task, name), content = key
        row = study.find(model, language, task, name)
        if content != "speed_up":
            return score_cell(row, _COLUMNS[content][0], change=False)
        tokens_name = f"tokens_per_second_batch_{name.rsplit('_', 1)[-1]}"
        tokens = study.find(model, language, task, tokens_name)
        change = number(tokens["mean"], 1) if narrow and tokens else ""
        return replace(speed_up_cell(row), change=change)

    headers, heads = stub_names(study), list(columns.values())
    directions = [
        None if content == "tokens_per_second" else _COLUMNS[content][0].higher_is_better
        for _, content in columns
    ]
    table_rows = model_rows(
        {model: stub(model, headers) for model in rows}, columns, cell, directions, narrow
    )
    notes = [
        *seed_notes(study, rows, measured),
        "Characters per second and speed-up over Source are on the same held-out text: the steps "
        "that each vocabulary needs for it times the measured time per step.",
    ]
    of_tasks = study.summary[study.summary["task"].isin(measured["task"])]
    spreads = of_tasks.loc[of_tasks["metric"].str.startswith("spread_batch_"), "mean"]
    if len(spreads):
        notes.append(
            "Each number is a median over repeats. The slowest and the fastest repeat differ by "
            f"{number(100 * spreads.median(), 0)} % in the median, "
            f"{number(100 * spreads.max(), 0)} % at most."
        )
    if narrow:
        sizes = ", ".join(map(str, sorted(measured["batch"].unique())))
        notes.append(f"Batch {sizes}. Below the speed-up: tokens per second.")
    if "speed_up" in contents:
        notes.append(
            "▲ blue: faster than Source; ▼ red: slower; full colour at twice its speed. "
            "Deviations are those of the model's speed alone."
        )
    notes += [
        "Tokens per second are not comparable across vocabularies: a longer token holds more text.",
        *missing_note(table_rows, heads),
    ]
    return Table(headers, heads, table_rows, measured, notes)
