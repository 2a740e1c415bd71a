"""Generation speed: tokens, characters and bytes per second (Yamaguchi et al., Table 3)."""

from dataclasses import replace
from itertools import product
from typing import Annotated, Literal

from pydantic import Field

from lexigraft.report.items import BatchSize, Kind, TaskOptions
from lexigraft.report.metrics import SAME_TEXT, Metric, metric, speed_of
from lexigraft.report.models import Column, Model, find, models, models_of, stub, stub_names
from lexigraft.report.names import task_name
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import Frame, SummaryRow, select
from lexigraft.report.table import (
    Row,
    Table,
    TableCell,
    is_compact,
    mark_of,
    number,
    ranked,
    score_cell,
    shade_of,
)
from lexigraft.report.table_notes import missing_note, seed_notes

_Column = Literal[
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
    metrics: tuple[_Column, ...] = ()


KIND = Kind(
    title="Generation speed",
    caption="Generation speed: tokens and characters per second, decoding steps per sentence, and "
    "the speed-up over Source in characters per second on the same text. Tokens per second are "
    "not comparable across vocabularies.",
    empty="no speed was measured",
    options=SpeedOptions,
)
STEPS = "steps_per_sentence"
COLUMNS = (STEPS, "tokens_per_second", "characters_per_second", "speed_up")
_RATE = Metric("per second", False, 1)
_SPEED = SAME_TEXT + "_per_second_batch_{batch}"
# Content of a column -> how it is shown, its head, and the names of its numbers in records.
_COLUMNS = {
    STEPS: (metric(STEPS), "steps/sentence", STEPS),
    "tokens_per_second": (_RATE, "tokens/s", "tokens_per_second_batch_{batch}"),
    "characters_per_second": (_RATE, "characters/s", _SPEED),
    "bytes_per_second": (_RATE, "bytes/s", "same_text_bytes_per_second_batch_{batch}"),
    "first_token_seconds": (
        Metric("seconds", True, 3), "first token, s", "first_token_seconds_batch_{batch}",
    ),
    "speed_up": (_RATE, "speed-up", _SPEED),
}  # fmt: skip
SPEED_UP_NOTE = (
    "Speed-up: characters per second over Source on the same text, smallest batch measured unless "
    "another is named."
)


def build(study: StudyResults) -> Table | None:
    """Per language, speed task and batch size: tokens/s, characters/s and speed-up over Source.

    Tokens per second measure the speed of decoding steps; with longer tokens, each step produces
    more text, so the speed-up is that of characters per second on the same text. The decoding steps
    per sentence, if they were measured, explain it. An item with only `speed_up` gets one column
    per language and task (as in Table 3), for one batch size, with the tokens per second next to
    each speed-up.
    """
    from lexigraft.report.table_tests import speed_tests

    measured = speeds(study)
    item = study.item
    if item.tasks:
        measured = measured[measured["task"].isin(item.tasks)]
    chosen = models(study)
    if not {"vocabulary", "initializer"} <= set(item.where):
        known = set(models_of(measured))
        chosen = [model for model in chosen if model in known]
    counted = (study.summary["metric"] == STEPS).any()
    shown = item.metrics or tuple(what for what in COLUMNS if what != STEPS or counted)
    narrow = shown == ("speed_up",)
    if item.option("batch_size") or narrow:
        measured = select(measured, batch=item.option("batch_size") or measured["batch"].min())
    if measured.empty or not chosen:
        return None
    columns = _columns(study, measured, shown)
    heads = list(columns.values())
    headers = stub_names(study)
    compact = is_compact(len(heads), len(headers))
    tests = speed_tests(study, chosen, [column for column, what in columns if what == "speed_up"])

    def cell(model: Model, column: Column, what: str) -> TableCell:
        found = find(study, model, *column)
        if what != "speed_up":
            return score_cell(found, _COLUMNS[what][0], change=False, compact=compact)
        starred = tests.starred(speed_up_cell(found, compact), model, column)
        language, task, name = column
        beside = f"tokens_per_second_batch_{name.rsplit('_', 1)[-1]}"
        tokens = find(study, model, language, task, beside)
        if narrow and tokens is not None:
            return replace(starred, change=number(tokens["mean"], 1))
        return starred

    rows = [
        Row(stub(model, headers), tuple(cell(model, *column) for column in columns),
            model.baseline, model.source)
        for model in chosen
    ]  # fmt: skip
    rows = ranked(rows, [
        None if what == "tokens_per_second" else _COLUMNS[what][0].lower_is_better
        for _, what in columns
    ])  # fmt: skip
    notes = [
        *seed_notes(study, chosen, measured),
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
    if "speed_up" in shown:
        notes.append("▲ blue: faster than Source; ▼ red: slower; full colour at twice its speed. "
                     "Deviations are those of the model's speed alone.")  # fmt: skip
        notes += tests.notes
    notes += [
        "Tokens per second are not comparable across vocabularies: a longer token holds more text.",
        *missing_note(rows, heads),
    ]
    return Table(headers, heads, rows, tests.beside(measured), notes)


def speeds(study: StudyResults) -> Frame:
    """Rows of the summary that are speeds, with `unit`, `batch` and `speed_up` over Source.

    For each task and batch size: tokens, and characters on the same text (`same_text_characters`).
    """
    parsed = study.summary["metric"].map(speed_of)
    found = study.summary[parsed.notna()].copy()
    found["unit"] = [unit for unit, _ in parsed.dropna()]
    found["batch"] = [batch for _, batch in parsed.dropna()]
    found["speed_up"] = found["mean"] / found["source_mean"]
    return found[found["unit"].isin(("tokens", SAME_TEXT))]


def speed_up_rows(study: StudyResults) -> Frame:
    """Rows of `speeds` with the speed-up of generated text over the source model."""
    rows = speeds(study)
    return rows[(rows["unit"] != "tokens") & rows["speed_up"].notna()]


def speed_ups(study: StudyResults, fast: Frame, model: Model) -> dict[tuple[str, str], SummaryRow]:
    """`(language, kind of task)` -> the row of `speeds` with a model's characters per second.

    A speed task represents the kind of task whose prompts it continues. The batch size is the
    item's, otherwise the smallest.
    """
    fast = select(fast[fast["unit"] != "tokens"], **model.keys())
    if batch := study.item.option("batch_size"):
        fast = fast[fast["batch"] == batch]
    found: dict[tuple[str, str], SummaryRow] = {}
    for _, row in fast.sort_values("batch", kind="stable").iterrows():
        kind = study.prompts_from.get(str(row["task"]), "translation")
        found.setdefault((str(row["language"]), kind), row)
    return found


def speed_up_cell(found: "SummaryRow | None", compact: bool = False) -> TableCell:
    """The speed-up of a row of the summary over Source."""
    if found is None or not found["source_mean"] > 0:
        return TableCell()
    ratio = found["mean"] / found["source_mean"]
    shade = shade_of(ratio - 1)
    deviation = found["std"] / found["source_mean"]
    return TableCell(
        f"{number(ratio, 2)}×",
        number(deviation, 2) if deviation == deviation else "",
        shade=shade,
        value=float(ratio),
        mark=mark_of(shade) if compact else "",
    )


def _columns(
    study: StudyResults, measured: Frame, shown: tuple[str, ...]
) -> dict[tuple[Column, str], tuple[str, str]]:
    """The column of the summary and its content -> its heads."""
    several = measured["task"].nunique() > 1
    pairs = measured[["task", "batch"]].drop_duplicates()
    found: dict[tuple[Column, str], tuple[str, str]] = {}
    for language, (task, batch) in product(study.order("language"), pairs.itertuples(index=False)):
        if (
            not study.item.tasks
            and select(measured, language=language, task=task, batch=batch).empty
        ):
            continue
        name = task_name(str(task), study.prompts_from.get(str(task), ""))
        for what in shown:
            _, label, recorded = _COLUMNS[what]
            column = (language, str(task), recorded.format(batch=batch))
            names = [study.language(language), *([name] if several else [])]
            if shown == ("speed_up",):
                found[column, what] = names[0], name
                continue
            # The steps per sentence do not depend on the batch size.
            names += [f"batch {batch}"] if what != STEPS else []
            found[column, what] = ", ".join(names), label
    return found
