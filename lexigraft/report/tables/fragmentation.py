"""How vocabularies segment text before and after adding tokens, and how English changes."""

import math
from typing import Any, Literal

from pandas import DataFrame

from lexigraft.corpus.mixture import MEASURED
from lexigraft.report.frame import CELL, StudyResults, select
from lexigraft.report.heldout import text_scores, text_tasks
from lexigraft.report.items import Options, table
from lexigraft.report.models import vocabulary_stub, vocabulary_stub_names
from lexigraft.report.names import ENGLISH_BITS_PER_BYTE, metric
from lexigraft.report.rendering import number
from lexigraft.report.table import Row, Table, TableCell, missing_note, number_cell, percent_cell

_TRAIN_LENGTH = "train_tokens_per_sentence"
# Content of an item -> the heads of its columns.
_HEADS: dict[str, tuple[tuple[str, str], ...]] = {
    "new_tokens": (("new tokens", "number"), ("new tokens", "unused in training text")),
    **{
        name: ((metric(name).title, "before"), (metric(name).title, "after"))
        for name in ("fertility", "tokens_per_sentence", "bytes_per_token")
    },
    "new_token_share": (
        ("target text", "share of new tokens"),
        ("generated text", "share of new tokens"),
    ),
    "english": (("English", "sentences changed"), ("English", "bits per byte, change ↓")),
    **{
        name: ((title, "before"), (title, "after"), (title, "change"))
        for name, title in (
            (_TRAIN_LENGTH, metric(_TRAIN_LENGTH).title),
            ("parameters", "parameters in billions"),
        )
    },
}
# Metrics on held-out text, which are measured for each member of a group.
_OF_MEMBERS = ("fertility", "tokens_per_sentence", "bytes_per_token")
_DEFAULT = ("new_tokens", *_OF_MEMBERS, "new_token_share", "english")
_Content = Literal[
    "new_tokens",
    "fertility",
    "tokens_per_sentence",
    "bytes_per_token",
    "new_token_share",
    "english",
    "train_tokens_per_sentence",
    "parameters",
]
NOTHING = "no vocabulary was changed"
Key = tuple[str, str, str]  # source, language, vocabulary


class FragmentationOptions(Options):
    """The options of a table of fragmentation."""

    metrics: tuple[_Content, ...] = ()


@table(
    title="Fragmentation",
    caption="Tokenization of held-out text before and after adding new tokens, the share of new "
    "tokens in it, and the effect on English. For English: the sentences that are tokenized "
    "differently, and the change of bits per byte after training.",
    empty=NOTHING,
    options=FragmentationOptions,
)
def fragmentation(study: StudyResults) -> Table | None:
    """One row per language and vocabulary: before → after, new-token share, and English.

    A group of languages is followed by its members, whose held-out texts are measured separately.
    The change of English is the mean over the trained cells of the vocabulary.
    """
    frame = vocabulary_sizes(study)
    if frame.empty:
        return None
    contents = study.item.option("metrics") or _DEFAULT
    keys = list(frame[CELL[:3]].itertuples(index=False, name=None))
    changes = _english(study, keys) if "english" in contents else {}
    rows: list[Row] = []
    for key, numbers in zip(keys, frame.to_dict("records"), strict=True):
        change = TableCell()
        if key in changes:
            change = TableCell(number(changes[key], 3, sign=True), value=changes[key])
        cells = _cells(study, key, numbers, change)
        for place, of_place in ((key[1], cells), *_member_cells(study, cells, numbers)):
            shown = tuple(cell for name in contents for cell in of_place[name])
            rows.append(Row(vocabulary_stub(study, key[0], place, key[2]), shown))
    heads = [head for name in contents for head in _HEADS[name]]
    notes = ["Before: the source tokenizer on the same sentences."]
    if _TRAIN_LENGTH in contents:
        size = number(MEASURED, 0)
        notes.append(f"Training text: a random sample of {size} texts, or all if fewer.")
    if {"new_token_share", "english"} & {*contents}:
        notes.append(
            "Generated text and English bits per byte (change over Source): means of the trained "
            "cells with this vocabulary."
        )
    notes += missing_note(rows, heads)
    if changes:
        frame = frame.assign(**{f"{ENGLISH_BITS_PER_BYTE}_change": [*map(changes.get, keys)]})
    return Table(vocabulary_stub_names(study), heads, rows, frame, notes)


def vocabulary_sizes(study: StudyResults) -> DataFrame:
    """One row per source, language and new vocabulary; `<metric>` after and `<metric>_before`."""
    wide = study.fragmentation.pivot_table(
        index=CELL[:3], columns="metric", values="value", sort=False
    ).reset_index()
    for name in study.fragmentation["metric"].unique():
        if name.startswith("source_"):
            wide[f"{name.removeprefix('source_')}_before"] = wide[name]
    return wide[wide["vocabulary"] != "source"].reset_index(drop=True)


def _cells(
    study: StudyResults, key: Key, numbers: dict[str, Any], change: TableCell
) -> dict[str, tuple[TableCell, ...]]:
    """The cells of a vocabulary by content."""
    trained = _trained(select(study.summary, metric="new_token_share_output"), key)
    generated = percent_cell(float(trained["mean"].mean()))
    before, after = (size / 1e9 for size in _parameters(study, key))
    share = percent_cell(numbers.get("new_token_share_input"))
    train_length = numbers.get(f"{_TRAIN_LENGTH}_before"), numbers.get(_TRAIN_LENGTH)
    unused = percent_cell(numbers.get("unused_new_tokens"))
    return {
        "new_tokens": (number_cell(numbers.get("new_tokens"), 0), unused),
        **{name: _pair(name, numbers) for name in _OF_MEMBERS},
        "new_token_share": (share, generated),
        "english": (percent_cell(numbers.get("english_sentences_changed")), change),
        _TRAIN_LENGTH: _with_change(*train_length),
        "parameters": _with_change(before, after),
    }


def _member_cells(
    study: StudyResults, cells: dict[str, tuple[TableCell, ...]], numbers: dict[str, Any]
) -> list[tuple[str, dict[str, tuple[TableCell, ...]]]]:
    """Each member of a group with its cells: metrics on its own text, empty for all others."""
    prefix = "source_fertility_"
    members = [
        name.removeprefix(prefix)
        for name in study.fragmentation["metric"].unique()
        if name.startswith(prefix) and numbers[name] == numbers[name]
    ]
    rows = []
    for member in members:
        blank = {name: (TableCell(""),) * len(of_name) for name, of_name in cells.items()}
        for name in _OF_MEMBERS:
            pair = {
                name: numbers.get(f"{name}_{member}"),
                f"{name}_before": numbers.get(f"source_{name}_{member}"),
            }
            blank[name] = _pair(name, pair)
        share = percent_cell(numbers.get(f"new_token_share_input_{member}"))
        rows.append((member, blank | {"new_token_share": (share, TableCell(""))}))
    return rows


def _pair(name: str, numbers: dict[str, Any]) -> tuple[TableCell, ...]:
    decimals = metric(name).decimals
    return tuple(number_cell(numbers.get(key), decimals) for key in (f"{name}_before", name))


def _with_change(before: float | None, after: float | None) -> tuple[TableCell, ...]:
    """A number before and after, and the relative change."""
    change = TableCell()
    if before and after is not None and before == before and after == after:
        change = percent_cell(after / before - 1, sign=True)
    return number_cell(before, 2), number_cell(after, 2), change


def _parameters(study: StudyResults, key: Key) -> tuple[float, float]:
    """Parameters of the source model, and of models with a vocabulary; NaN if no card has them."""
    cards = study.training
    if "total_parameters" not in cards:
        return math.nan, math.nan
    before = select(cards, source=key[0], vocabulary="source")
    after = select(cards, **dict(zip(CELL, key, strict=False)))
    return float(before["total_parameters"].mean()), float(after["total_parameters"].mean())


def _trained(summary: DataFrame, key: Key) -> DataFrame:
    """The rows of the trained cells of a vocabulary."""
    rows = select(summary, **dict(zip(CELL, key, strict=False)))
    return rows[rows["strategy"] != "none"]


def _english(study: StudyResults, keys: list[Key]) -> dict[Key, float]:
    """The mean change of English over the trained cells of each vocabulary.

    In the task whose text represents each language: means over several would mix their scales.
    """
    tasks = text_tasks(study, ENGLISH_BITS_PER_BYTE)
    english = text_scores(study.summary, tasks, ENGLISH_BITS_PER_BYTE).dropna(subset="change")
    cells = {key: _trained(english, key) for key in keys}
    return {key: float(of_key["change"].mean()) for key, of_key in cells.items() if len(of_key)}
