"""How vocabularies segment text before and after adding tokens, and how English changes."""

import math
from typing import TYPE_CHECKING, Any, Literal

from lexigraft.corpus.mixture import MEASURED
from lexigraft.report.before_after import text_scores, text_tasks
from lexigraft.report.items import Kind, Options
from lexigraft.report.metrics import ENGLISH_BITS_PER_BYTE, metric
from lexigraft.report.models import (
    Column,
    Model,
    models_of,
    source_model,
    vocabulary_stub,
    vocabulary_stub_names,
)
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import CELL, Frame, select
from lexigraft.report.table import Row, Table, TableCell, number, number_cell, percent_cell
from lexigraft.report.table_notes import missing_note

if TYPE_CHECKING:
    from lexigraft.report.score_differences import ScoreDifference

_Shown = Literal[
    "new_tokens", "fertility", "tokens_per_sentence", "bytes_per_token", "new_token_share",
    "english", "train_tokens_per_sentence", "parameters",
]  # fmt: skip
_DEFAULT: tuple[_Shown, ...] = (
    "new_tokens", "fertility", "tokens_per_sentence", "bytes_per_token", "new_token_share",
    "english",
)  # fmt: skip


class FragmentationOptions(Options):
    """The options of a table of fragmentation."""

    metrics: tuple[_Shown, ...] = ()


KIND = Kind(
    title="Fragmentation",
    caption="Tokenization of held-out text before and after adding new tokens, the share of new "
    "tokens in it, and the effect on English. For English: the sentences that are tokenized "
    "differently, and the change of bits per byte after training.",
    empty="no vocabulary was changed",
    options=FragmentationOptions,
)
Key = tuple[str, str, str]  # source, language, vocabulary
# Initializer and strategy of the mean over all of them; no entry can have this name.
_ALL = "*"


def build(study: StudyResults) -> Table | None:
    """One row per language and vocabulary: before → after, new-token share, and English.

    A group of languages is followed by its members, whose held-out texts are measured separately.
    The change of English is the mean over the trained cells of the vocabulary, and this mean is
    tested.
    """
    from lexigraft.report.table_tests import bootstrap_notes

    frame = fragmentation(study)
    if frame.empty:
        return None
    shown = study.item.option("metrics") or _DEFAULT
    rows: list[Row] = []
    keys = list(frame[CELL[:3]].itertuples(index=False, name=None))
    changes, tests = _english(study, keys) if "english" in shown else ({}, {})
    for key, found in zip(keys, frame.to_dict("records"), strict=True):
        change = TableCell()
        if key in changes:
            stars = tests[key].stars if key in tests else ""
            change = TableCell(number(changes[key], 3, sign=True), value=changes[key], stars=stars)
        cells = _cells(study, key, found, change)
        rows.append(Row(vocabulary_stub(study, *key), _flat(cells, shown)))
        for member in _members(study, found):
            own = _member_cells(cells, found, member)
            rows.append(Row(vocabulary_stub(study, key[0], member, key[2]), _flat(own, shown)))
    heads = tuple(head for name in shown for head in _HEADS[name])
    notes = ["Before: the source tokenizer on the same sentences."]
    if "train_tokens_per_sentence" in shown:
        size = number(MEASURED, 0)
        notes.append(f"Training text: a random sample of {size} texts, or all if fewer.")
    if {"new_token_share", "english"} & {*shown}:
        notes.append(
            "Generated text and English bits per byte (change over Source): means of the trained "
            "cells with this vocabulary."
        )
    notes += bootstrap_notes([*tests.values()], "changes of English over Source")
    untested = [f"{study.language(key[1])} {key[2]}" for key in changes if key not in tests]
    if untested:
        notes.append(
            "Changes of English not tested, because the score of each sentence under every model "
            f"is needed: {', '.join(untested)}."
        )
    notes += missing_note(rows, heads)
    if changes:
        frame = frame.assign(**{f"{ENGLISH_BITS_PER_BYTE}_change": [*map(changes.get, keys)]})
    numbers = {key: test.columns("change", "seed_freedom") for key, test in tests.items()}
    for name in next(iter(numbers.values()), ()):
        frame[f"{ENGLISH_BITS_PER_BYTE}_{name}"] = [numbers.get(key, {}).get(name) for key in keys]
    return Table(vocabulary_stub_names(study), heads, rows, frame, notes)


_HEADS: dict[str, tuple[tuple[str, str], ...]] = {
    "new_tokens": (("new tokens", "number"), ("new tokens", "unused in training text")),
    "fertility": (("tokens per word", "before"), ("tokens per word", "after")),
    "tokens_per_sentence": (("tokens per sentence", "before"), ("tokens per sentence", "after")),
    "bytes_per_token": (("bytes per token", "before"), ("bytes per token", "after")),
    "new_token_share": (
        ("target text", "share of new tokens"), ("generated text", "share of new tokens"),
    ),
    "english": (("English", "sentences changed"), ("English", "bits per byte, change ↓")),
    "train_tokens_per_sentence": (
        ("tokens per training sentence", "before"), ("tokens per training sentence", "after"),
        ("tokens per training sentence", "change"),
    ),
    "parameters": (
        ("parameters in billions", "before"), ("parameters in billions", "after"),
        ("parameters in billions", "change"),
    ),
}  # fmt: skip
# Metrics on held-out text, which are measured for each member of a group.
_OF_MEMBERS = ("fertility", "tokens_per_sentence", "bytes_per_token")


def _cells(
    study: StudyResults, key: Key, found: dict[str, Any], change: TableCell
) -> dict[str, tuple[TableCell, ...]]:
    """The cells of a vocabulary by metric."""
    trained = _trained(select(study.summary, metric="new_token_share_output"), key)
    generated = percent_cell(float(trained["mean"].mean()))
    length = "train_tokens_per_sentence"
    before, after = (size / 1e9 for size in _parameters(study, key))
    return {
        "new_tokens": (
            number_cell(found.get("new_tokens"), 0), percent_cell(found.get("unused_new_tokens")),
        ),
        **{name: _both(found, name) for name in _OF_MEMBERS},
        "new_token_share": (percent_cell(found.get("new_token_share_input")), generated),
        "english": (percent_cell(found.get("english_sentences_changed")), change),
        length: _with_change(found.get(f"{length}_before"), found.get(length), 2),
        "parameters": _with_change(before, after, 2),
    }  # fmt: skip


def _member_cells(
    cells: dict[str, tuple[TableCell, ...]], found: dict[str, Any], member: str
) -> dict[str, tuple[TableCell, ...]]:
    """The same for a member of a group: metrics on its own text, and empty cells for all others."""
    own = {}
    for name in _OF_MEMBERS:
        own[name] = found.get(f"{name}_{member}")
        own[f"{name}_before"] = found.get(f"source_{name}_{member}")
    share = percent_cell(found.get(f"new_token_share_input_{member}"))
    blank = {name: (TableCell(""),) * len(several) for name, several in cells.items()}
    measured = {name: _both(own, name) for name in _OF_MEMBERS}
    return blank | measured | {"new_token_share": (share, TableCell(""))}


def _flat(
    cells: dict[str, tuple[TableCell, ...]], shown: tuple[_Shown, ...]
) -> tuple[TableCell, ...]:
    return tuple(cell for name in shown for cell in cells[name])


def _members(study: StudyResults, found: dict[str, Any]) -> list[str]:
    """The languages of a group, which have separate numbers."""
    prefix = "source_fertility_"
    names = (str(name) for name in study.fragmentation["metric"].unique())
    return [name.removeprefix(prefix) for name in names
            if name.startswith(prefix) and found[name] == found[name]]  # fmt: skip


def _both(found: dict[str, Any], name: str) -> tuple[TableCell, TableCell]:
    decimals = metric(name).decimals
    before, after = (number_cell(found.get(key), decimals) for key in (f"{name}_before", name))
    return before, after


def _with_change(
    before: float | None, after: float | None, decimals: int
) -> tuple[TableCell, TableCell, TableCell]:
    """A number before and after, and the relative change."""
    change = TableCell()
    if before and after is not None and before == before and after == after:
        change = percent_cell(after / before - 1, sign=True)
    return number_cell(before, decimals), number_cell(after, decimals), change


def _parameters(study: StudyResults, key: Key) -> tuple[float, float]:
    """Parameters of the source model, and of models with a vocabulary; NaN if no card has them."""
    frame = study.training
    if "total_parameters" not in frame:
        return math.nan, math.nan
    source = select(frame, source=key[0])
    before = source[source["vocabulary"] == "source"]
    after = select(source, language=key[1], vocabulary=key[2])
    return float(before["total_parameters"].mean()), float(after["total_parameters"].mean())


def fragmentation(study: StudyResults) -> Frame:
    """One row per source, language and new vocabulary; `<metric>` after and `<metric>_before`."""
    wide = study.fragmentation.pivot_table(
        index=CELL[:3], columns="metric", values="value", sort=False
    ).reset_index()
    for name in study.fragmentation["metric"].unique():
        if name.startswith("source_"):
            wide[f"{name.removeprefix('source_')}_before"] = wide[name]
    return wide[wide["vocabulary"] != "source"].reset_index(drop=True)


def _trained(summary: Frame, key: Key) -> Frame:
    """The rows of the trained cells of a vocabulary."""
    own = select(summary, **dict(zip(CELL, key, strict=False)))
    return own[own["strategy"] != "none"]


def _english(
    study: StudyResults, keys: list[Key]
) -> "tuple[dict[Key, float], dict[Key, ScoreDifference]]":
    """The mean change of English over the trained cells of each vocabulary, and its test.

    In the task whose text represents each language: means over several would mix their scales.
    """
    from lexigraft.report.score_differences import score_differences

    tasks = text_tasks(study, ENGLISH_BITS_PER_BYTE)
    english = text_scores(study.summary, tasks, ENGLISH_BITS_PER_BYTE).dropna(subset="change")
    changes: dict[Key, float] = {}
    means: dict[tuple[Model, Column], list[Model]] = {}
    for key in keys:
        cells = _trained(english, key)
        if cells.empty:
            continue
        source, language, vocabulary = key
        column = (language, tasks[language], ENGLISH_BITS_PER_BYTE)
        means[Model(source, vocabulary, _ALL, _ALL), column] = models_of(cells)
        changes[key] = float(cells["change"].mean())
    wanted = [(mean, source_model(mean.source), column) for mean, column in means]
    found = score_differences(study, wanted, means)
    tests = {(one.model.source, one.column[0], one.model.vocabulary): one for one in found}
    return changes, tests
