"""How vocabularies cut text before and after the new tokens, and what becomes of English."""

from typing import TYPE_CHECKING

from lexigraft.report.items import Kind
from lexigraft.report.metrics import ENGLISH_BITS_PER_BYTE, metric
from lexigraft.report.models import Model, vocabulary_stub, vocabulary_stub_names
from lexigraft.report.paired_tests import Column
from lexigraft.report.score_differences import (
    Comparison,
    ScoreDifference,
    score_differences,
)
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import select
from lexigraft.report.table import Row, Table, TableCell, number, number_cell, percent_cell
from lexigraft.report.table_notes import bootstrap_notes, missing_note
from lexigraft.report.table_tests import change_numbers

if TYPE_CHECKING:
    import pandas

KIND = Kind(
    title="Fragmentation",
    caption="How vocabularies cut held-out text before and after the new tokens, how many of the "
    "tokens then are new, and what becomes of English. Of English: the sentences that are cut "
    "differently, and the change of bits per byte after training.",
    empty="no vocabulary was changed",
)
Key = tuple[str, str, str]  # source, language, vocabulary
# Initializer and strategy of what stands for the mean over all of them: no entry is called so.
_ALL = "*"


def build(study: StudyResults, summary: "pandas.DataFrame") -> Table | None:
    """One row per language and vocabulary: before → after, new-token share, and English.

    The change of English is the mean over the trained cells of the vocabulary, and tested as such.
    """
    frame = fragmentation(study)
    if frame.empty:
        return None
    rows = []
    keys = list(frame[["source", "language", "vocabulary"]].itertuples(index=False, name=None))
    changes, tests = _english(study, summary, keys)
    for key, found in zip(keys, frame.to_dict("records"), strict=True):
        cells = [number_cell(found.get("new_tokens"), 0)]
        for name in ("fertility", "tokens_per_sentence", "bytes_per_token"):
            for value in (found.get(f"{name}_before"), found.get(name)):
                cells.append(number_cell(value, metric(name).decimals))
        cells.append(percent_cell(found.get("new_token_share_input")))
        cells.append(percent_cell(_mean_over_cells(summary, key, "new_token_share_output")))
        cells.append(percent_cell(found.get("english_sentences_changed")))
        cells.append(_change(changes.get(key), tests.get(key)))
        rows.append(Row(vocabulary_stub(study, *key), tuple(cells)))
    heads = (
        ("", "new tokens"),
        *((title, when) for title in ("tokens per word", "tokens per sentence", "bytes per token")
          for when in ("before", "after")),
        ("target text", "share of new tokens"),
        ("generated text", "share of new tokens"),
        ("English", "sentences changed"),
        ("English", "bits per byte, change ↓"),
    )  # fmt: skip
    notes = [
        "Before: the source tokenizer on the same held-out sentences. Generated text and English "
        "bits per byte (change over Source): means of the trained cells with this vocabulary.",
        *bootstrap_notes(list(tests.values()), "changes of English over Source"),
        *_untested_note(study, [key for key in changes if key not in tests]),
        *missing_note(rows, heads),
    ]
    data = _with_english(frame, keys, changes, tests)
    return Table(vocabulary_stub_names(study), heads, rows, data, notes)


def fragmentation(study: StudyResults) -> "pandas.DataFrame":
    """One row per source, language and vocabulary; `<metric>` after and `<metric>_before`.

    The numbers before come from the record itself (`source_<metric>`) or from the record of the
    source's own vocabulary.
    """
    wide = study.fragmentation.pivot_table(
        index=["source", "language", "vocabulary"], columns="metric", values="value", sort=False
    ).reset_index()
    if wide.empty:
        return wide
    names = [name for name in wide.columns if f"source_{name}" in wide.columns]
    for name in names:
        wide[f"{name}_before"] = wide[f"source_{name}"]
    own = wide[wide["vocabulary"] == "source"].set_index(["source", "language"])
    rest = wide[wide["vocabulary"] != "source"].reset_index(drop=True)
    for name in study.fragmentation["metric"].unique():
        if f"{name}_before" not in rest and not own.empty and name in own:
            rest[f"{name}_before"] = [
                own[name].get((source, language))
                for source, language in zip(rest["source"], rest["language"], strict=True)
            ]
    return rest


def _change(value: float | None, test: ScoreDifference | None) -> TableCell:
    if value is None:
        return TableCell()
    return TableCell(number(value, 3, sign=True), value=value, stars=test.stars if test else "")


def _mean_over_cells(summary: "pandas.DataFrame", key: Key, name: str) -> float:
    """Mean of a metric over the trained cells of a vocabulary; missing without any."""
    return float(_trained(summary[summary["metric"] == name], key)["mean"].mean())


def _trained(summary: "pandas.DataFrame", key: Key) -> "pandas.DataFrame":
    """The rows of the trained cells of a vocabulary."""
    source, language, vocabulary = key
    own = select(summary, source=source, language=language, vocabulary=vocabulary)
    return own[own["strategy"] != "none"]


def _english(
    study: StudyResults, summary: "pandas.DataFrame", keys: list[Key]
) -> tuple[dict[Key, float], dict[Key, ScoreDifference]]:
    """The mean change of English over the trained cells of each vocabulary, and its test.

    Of the first task that scores English text: means over several would mix their scales.
    """
    english = summary[(summary["metric"] == ENGLISH_BITS_PER_BYTE) & summary["change"].notna()]
    changes: dict[Key, float] = {}
    wanted: list[Comparison] = []
    means: dict[tuple[Model, Column], list[Model]] = {}
    names: dict[tuple[Model, Column], Key] = {}
    for key in keys if len(english) else ():
        task = str(english["task"].iloc[0])
        cells = _trained(english[english["task"] == task], key)
        if cells.empty:
            continue
        source, language, vocabulary = key
        mean, column = (
            Model(source, vocabulary, _ALL, _ALL),
            (language, task, ENGLISH_BITS_PER_BYTE),
        )
        pairs = cells[["initializer", "strategy"]].itertuples(index=False)
        means[mean, column] = [Model(source, vocabulary, *map(str, pair)) for pair in pairs]
        wanted.append((mean, Model(source, "source", "none", "none"), column))
        names[mean, column] = key
        changes[key] = float(cells["change"].mean())
    found = score_differences(study, wanted, means)
    return changes, {names[one.model, one.column]: one for one in found}


def _untested_note(study: StudyResults, keys: list[Key]) -> list[str]:
    if not keys:
        return []
    listed = ", ".join(f"{study.language(language)} {name}" for _, language, name in keys)
    return [
        "Changes of English not tested, because the score of each sentence under every model is "
        f"needed: {listed}."
    ]


def _with_english(
    frame: "pandas.DataFrame",
    keys: list[Key],
    changes: dict[Key, float],
    tests: dict[Key, ScoreDifference],
) -> "pandas.DataFrame":
    """The frame with the change of English, and interval, p and effect size where it was tested."""
    if not changes:
        return frame
    columns = {f"{ENGLISH_BITS_PER_BYTE}_change": [changes.get(key) for key in keys]}
    numbers = {key: change_numbers(test) for key, test in tests.items()}
    for name in next(iter(numbers.values()), ()):
        columns[f"{ENGLISH_BITS_PER_BYTE}_{name}"] = [
            numbers.get(key, {}).get(name) for key in keys
        ]
    return frame.assign(**columns)
