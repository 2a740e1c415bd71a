"""Generation speed: tokens, characters and bytes per second (Yamaguchi et al., Table 3)."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lexigraft.report.items import BatchSize, Kind, TaskOptions
from lexigraft.report.metrics import Metric, metric, speed_of
from lexigraft.report.models import Model, find, models, models_of, stub, stub_names
from lexigraft.report.names import task_name
from lexigraft.report.speed_up import SAME_TEXT
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import select
from lexigraft.report.table import (
    Row,
    Table,
    TableCell,
    is_compact,
    mark_of,
    number,
    ranked,
    score_cell,
)
from lexigraft.report.table_notes import missing_note, seed_notes
from lexigraft.report.table_tests import speed_tests

if TYPE_CHECKING:
    import pandas

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
        BatchSize | None, Field(description="which; default: all, or the smallest measured")
    ] = None
    metrics: tuple[_Column, ...] = ()


KIND = Kind(
    title="Generation speed",
    caption="Generation speed: tokens and characters per second, decoding steps per sentence, and "
    "the speed-up over Source in characters per second on the same text. Tokens per second of "
    "different vocabularies do not compare.",
    empty="no speed was measured",
    options=SpeedOptions,
)
RATE = Metric("per second", False, 1)
SECONDS = Metric("seconds", True, 3)
STEPS = "steps_per_sentence"
COLUMNS = (STEPS, "tokens_per_second", "characters_per_second", "speed_up")
_HEADS = {STEPS: "steps/sentence", "first_token_seconds": "first token, s"}
SPEED_UP_NOTE = (
    "Speed-up: characters per second over Source on the same text, batch of the smallest size "
    "measured unless another is named."
)


def build(study: StudyResults, summary: "pandas.DataFrame") -> Table | None:
    """Per language, speed task and batch size: tokens/s, characters/s and speed-up over Source.

    Tokens per second measure how fast the model steps; a longer token makes each step produce more
    text, so the speed-up is that of characters per second on the same text. The decoding steps per
    sentence, where they were measured, explain it. An item that asks for
    `speed_up` alone gets one column per language and task (the shape of Table 3), of one batch
    size, with the tokens per second beside each speed-up.
    """
    measured = speeds(summary)
    item = study.item
    if item.tasks:
        measured = measured[measured["task"].isin(item.tasks)]
    chosen = models(study)
    if not {"vocabulary", "initializer"} <= set(item.where):
        known = set(models_of(measured))
        chosen = [model for model in chosen if model in known]
    if measured.empty or not chosen:
        return None
    counted = (summary["metric"] == STEPS).any()
    shown = item.metrics or tuple(what for what in COLUMNS if what != STEPS or counted)
    narrow = shown == ("speed_up",)
    if item.option("batch_size") or narrow:
        batch = item.option("batch_size") or measured["batch"].min()
        measured = measured[measured["batch"] == batch]
    if measured.empty:
        return None
    heads, lookups = _columns(study, measured, shown)
    compact = is_compact(len(heads), len(stub_names(study)))
    ratios = [
        (language, task, name) for language, task, name, what in lookups if what == "speed_up"
    ]
    tests = speed_tests(study, chosen, ratios)
    rows = []
    for model in chosen:
        cells = []
        for language, task, name, what in lookups:
            keys = {"language": language, "task": task}
            found = find(summary, model, **keys, metric=name)
            if what != "speed_up":
                shown_as = {STEPS: metric(STEPS), "first_token_seconds": SECONDS}.get(what, RATE)
                cells.append(score_cell(found, shown_as, change=False, compact=compact))
                continue
            cell = tests.starred(speed_up_cell(found, compact), model, (language, task, name))
            size = name.rsplit("_", 1)[-1]
            tokens = find(summary, model, **keys, metric=f"tokens_per_second_batch_{size}")
            if narrow and tokens is not None:
                cell = replace(cell, change=number(tokens["mean"], 1))
            cells.append(cell)
        rows.append(Row(stub(model, stub_names(study)), tuple(cells), model.baseline, model.source))
    lower = [None if what == "tokens_per_second" else what in _HEADS for *_, what in lookups]
    rows = ranked(rows, lower)
    notes = [*seed_notes(study, chosen, measured), _what_speed(measured)]
    notes += _spread_note(summary, set(measured["task"]))
    if narrow:
        sizes = ", ".join(str(size) for size in sorted(measured["batch"].unique()))
        notes.append(f"Batch {sizes}. Below the speed-up: tokens per second.")
    if "speed_up" in shown:
        notes.append("▲ blue: faster than Source; ▼ red: slower; full colour at twice its speed. "
                     "Deviation: of the model's speed, with Source's as it is.")  # fmt: skip
        notes += tests.notes
    notes += [
        "Tokens per second do not compare across vocabularies: a longer token holds more text.",
        *missing_note(rows, heads),
    ]
    return Table(stub_names(study), heads, rows, tests.beside(measured), notes)


def speeds(summary: "pandas.DataFrame") -> "pandas.DataFrame":
    """Rows of the summary that are speeds, with `unit`, `batch` and `speed_up` over Source.

    For each task and batch size: tokens, and characters of the same text where the record has them
    (`same_text_characters`), else characters of whatever the model wrote.
    """
    import pandas

    parsed = summary["metric"].map(speed_of)
    found = summary[parsed.notna()].copy()
    found["unit"] = [pair[0] for pair in parsed.dropna()]
    found["batch"] = [pair[1] for pair in parsed.dropna()]
    found["speed_up"] = found["mean"] / found["source_mean"]
    same_text = set(found.loc[found["unit"] == SAME_TEXT, "batch"])
    is_shown = [
        unit == "tokens" or unit == (SAME_TEXT if batch in same_text else "characters")
        for unit, batch in zip(found["unit"], found["batch"], strict=True)
    ]
    return found[pandas.Series(is_shown, index=found.index, dtype=bool)]


def speed_ups(
    study: StudyResults, fast: "pandas.DataFrame", model: Model
) -> dict[tuple[str, str], "pandas.Series"]:
    """`(language, kind of task)` -> the row of `speeds` with a model's characters per second.

    A speed task stands for the kind of task whose prompts it generates from. The batch size is the
    item's, else the smallest.
    """
    fast = select(fast[fast["unit"] != "tokens"], **model.keys())
    if batch := study.item.option("batch_size"):
        fast = fast[fast["batch"] == batch]
    found: dict[tuple[str, str], pandas.Series] = {}
    for _, row in fast.sort_values("batch", kind="stable").iterrows():
        kind = study.prompts_from.get(str(row["task"]), "translation")
        found.setdefault((str(row["language"]), kind), row)
    return found


def speed_up_cell(found: "pandas.Series | None", compact: bool = False) -> TableCell:
    """How many times as fast as Source a row of the summary is."""
    if found is None or not found["source_mean"] > 0:
        return TableCell()
    ratio = found["mean"] / found["source_mean"]
    shade = max(-1.0, min(1.0, ratio - 1))
    deviation = found["std"] / found["source_mean"]
    return TableCell(
        f"{number(ratio, 2)}×",
        number(deviation, 2) if deviation == deviation else "",
        shade=shade,
        value=float(ratio),
        mark=mark_of(shade) if compact else "",
    )


def _columns(
    study: StudyResults, measured: "pandas.DataFrame", shown: tuple[str, ...]
) -> tuple[list[tuple[str, str]], list[tuple[str, str, str, str]]]:
    """Heads, and where their numbers are: language, task, metric and what it is shown as."""
    several = measured["task"].nunique() > 1
    narrow = shown == ("speed_up",)
    heads: list[tuple[str, str]] = []
    lookups: list[tuple[str, str, str, str]] = []
    pairs = measured[["task", "batch", "unit"]].drop_duplicates().to_dict("records")
    for language in study.order("language"):
        own = measured[measured["language"] == language]
        present = {(row["task"], row["batch"]) for row in own.to_dict("records")}
        for task, batch in dict.fromkeys((pair["task"], pair["batch"]) for pair in pairs):
            if not study.item.tasks and (task, batch) not in present:
                continue
            written = next(p["unit"] for p in pairs
                           if (p["task"], p["batch"]) == (task, batch) and p["unit"] != "tokens")  # fmt: skip # noqa: E501
            name = task_name(str(task), study.prompts_from.get(str(task), ""))
            for what in shown:
                group = [study.language(language), *([name] if several else []), f"batch {batch}"]
                if what == STEPS:  # whatever the batch
                    group.pop()
                    if (language, str(task), STEPS, STEPS) in lookups:
                        continue
                label = _HEADS.get(what, what.replace("_per_second", "/s").replace("_", "-"))
                heads.append((study.language(language), name) if narrow
                             else (", ".join(group), label))  # fmt: skip
                lookups.append((language, str(task), _recorded(what, written, batch), what))
    return heads, lookups


def _recorded(what: str, written: str, batch: int) -> str:
    """What a column's numbers are called in records; `written`: the unit that speed-ups are of."""
    if what == STEPS:
        return STEPS
    if what == "first_token_seconds":
        return f"{what}_batch_{batch}"
    units = {
        "tokens_per_second": "tokens",
        "bytes_per_second": written.replace("characters", "bytes"),
    }
    return f"{units.get(what, written)}_per_second_batch_{batch}"


def _spread_note(summary: "pandas.DataFrame", tasks: set[str]) -> list[str]:
    """How far apart the repeats of a measurement are, at most and as a rule."""
    spreads = summary["metric"].str.startswith("spread_batch_") & summary["task"].isin(tasks)
    found = summary.loc[spreads, "mean"]
    if found.empty:
        return []
    return [
        "Each number is a median over repeats. The slowest and the fastest repeat differ by "
        f"{number(100 * found.median(), 0)} % in the median, {number(100 * found.max(), 0)} % at "
        "most."
    ]


def _what_speed(measured: "pandas.DataFrame") -> str:
    if SAME_TEXT in set(measured["unit"]):
        return (
            "Characters per second and speed-up over Source are on the same held-out text: the "
            "steps that each vocabulary needs for it times the measured time of a step."
        )
    return "Characters per second and speed-up over Source: of the text that each model wrote."
