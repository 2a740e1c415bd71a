"""Generation speed: tokens, characters and bytes per second (Yamaguchi et al., Table 3)."""

from dataclasses import replace
from itertools import product
from typing import Literal

from lexigraft.report.frame import StudyResults, models_of
from lexigraft.report.items import table
from lexigraft.report.model_table import results_table
from lexigraft.report.models import TableOptions, models
from lexigraft.report.table import Table, number

# Names of items -> those of records, without the batch size. Numbers of the same text are
# comparable across vocabularies.
_RECORDED = {
    "characters_per_second": "same_text_characters_per_second_batch_{}",
    "bytes_per_second": "same_text_bytes_per_second_batch_{}",
    "speed_up": "same_text_characters_per_second_batch_{}_over_source",
    "answer_tokens_speed_up": "answer_tokens_per_second_batch_{}_over_source",
    "answer_characters_speed_up": "answer_characters_per_second_batch_{}_over_source",
}
SpeedMetric = Literal[
    "steps_per_sentence",
    "tokens_per_second",
    "first_token_seconds",
    "characters_per_second",
    "bytes_per_second",
    "speed_up",
    "answer_tokens_per_second",
    "answer_tokens_speed_up",
    "answer_characters_per_second",
    "answer_characters_speed_up",
    "answer_new_token_share",
]
_DEFAULT: tuple[SpeedMetric, ...] = (
    "steps_per_sentence",
    "tokens_per_second",
    "characters_per_second",
    "speed_up",
)


class SpeedOptions(TableOptions):
    """The options of a table of speeds."""

    metrics: tuple[SpeedMetric, ...] = _DEFAULT


@table(
    title="Generation speed",
    caption="Generation speed: decoding steps per sentence, tokens per second, and characters per "
    "second on the same text, which alone are comparable across vocabularies, with the speed-up "
    "over Source. Numbers of answers are of the texts that each model writes, with the time to "
    "read the prompt, as papers measure them.",
    empty="no speed was measured",
    options=SpeedOptions,
)
def speed(study: StudyResults) -> Table | None:
    """Models by language, speed task, batch size and content."""
    item = study.item
    measured = study.summary[study.summary["metric"].str.contains("_per_second_batch_")]
    if item.tasks:
        measured = measured[measured["task"].isin(item.tasks)]
    rows = models(study)
    if not {"vocabulary", "initializer"} <= set(item.where):
        known = {*models_of(measured)}
        rows = [model for model in rows if model in known]
    if measured.empty or not rows:
        return None
    of_tasks = study.summary[study.summary["task"].isin(measured["task"])]
    recorded = {*of_tasks["metric"]}
    batches = measured["metric"].str.extract(r"_batch_(\d+)$")[0].dropna().astype(int).unique()
    pairs = product(sorted(batches), item.metrics or _DEFAULT)
    names = [
        name if name in recorded else _RECORDED.get(name, f"{name}_batch_{{}}").format(batch)
        for batch, name in pairs
    ]
    scored = {*measured[["language", "task"]].itertuples(index=False, name=None)}
    columns = [
        (language, task, name)
        for language in study.order("language")
        for task in measured["task"].unique()
        if item.tasks or (language, task) in scored
        for name in dict.fromkeys(names)
        if name in recorded
    ]
    scores = results_table("", study, rows, columns)
    notes = [*scores.notes]
    spreads = of_tasks.loc[of_tasks["metric"].str.startswith("spread_batch_"), "mean"]
    if len(spreads):
        notes.append(
            "Each number is a median over repeats. The slowest and the fastest repeat differ by "
            f"{number(100 * spreads.median(), 0)} % in the median, "
            f"{number(100 * spreads.max(), 0)} % at most."
        )
    return replace(scores, notes=notes)
