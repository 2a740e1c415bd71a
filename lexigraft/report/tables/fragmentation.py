"""How vocabularies cut text before and after the new tokens, and what becomes of English."""

from typing import TYPE_CHECKING

from lexigraft.report.items import Kind
from lexigraft.report.metrics import ENGLISH_BITS_PER_BYTE, metric
from lexigraft.report.models import Column, Model, models_of, vocabulary_stub, vocabulary_stub_names
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import CELL, Frame, select
from lexigraft.report.table import Row, Table, TableCell, number, number_cell, percent_cell
from lexigraft.report.table_notes import missing_note

if TYPE_CHECKING:
    from lexigraft.report.score_differences import ScoreDifference

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


def build(study: StudyResults) -> Table | None:
    """One row per language and vocabulary: before → after, new-token share, and English.

    The change of English is the mean over the trained cells of the vocabulary, and tested as such.
    """
    from lexigraft.report.table_tests import bootstrap_notes

    frame = fragmentation(study)
    if frame.empty:
        return None
    rows = []
    keys = list(frame[CELL[:3]].itertuples(index=False, name=None))
    changes, tests = _english(study, keys)
    for key, found in zip(keys, frame.to_dict("records"), strict=True):
        trained = _trained(select(study.summary, metric="new_token_share_output"), key)
        change = TableCell()
        if key in changes:
            stars = tests[key].stars if key in tests else ""
            change = TableCell(number(changes[key], 3, sign=True), value=changes[key], stars=stars)
        cells = (
            number_cell(found.get("new_tokens"), 0),
            percent_cell(found.get("unused_new_tokens")),
            *(
                number_cell(value, metric(name).decimals)
                for name in ("fertility", "tokens_per_sentence", "bytes_per_token")
                for value in (found.get(f"{name}_before"), found.get(name))
            ),
            percent_cell(found.get("new_token_share_input")),
            percent_cell(float(trained["mean"].mean())),
            percent_cell(found.get("english_sentences_changed")),
            change,
        )
        rows.append(Row(vocabulary_stub(study, *key), cells))
    heads = (
        ("new tokens", "number"),
        ("new tokens", "unused in training text"),
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
        *bootstrap_notes([*tests.values()], "changes of English over Source"),
    ]
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


def fragmentation(study: StudyResults) -> Frame:
    """One row per source, language and vocabulary; `<metric>` after and `<metric>_before`.

    The numbers before come from the record itself (`source_<metric>`) or from the record of the
    source's own vocabulary.
    """
    wide = study.fragmentation.pivot_table(
        index=CELL[:3], columns="metric", values="value", sort=False
    ).reset_index()
    if wide.empty:
        return wide
    for name in wide.columns:
        if f"source_{name}" in wide:
            wide[f"{name}_before"] = wide[f"source_{name}"]
    own = wide[wide["vocabulary"] == "source"].set_index(["source", "language"])
    rest = wide[wide["vocabulary"] != "source"].reset_index(drop=True)
    for name in study.fragmentation["metric"].unique():
        if f"{name}_before" not in rest and name in own and not own.empty:
            rest[f"{name}_before"] = [
                own[name].get(key) for key in zip(rest["source"], rest["language"], strict=True)
            ]
    return rest


def _trained(summary: Frame, key: Key) -> Frame:
    """The rows of the trained cells of a vocabulary."""
    own = select(summary, **dict(zip(CELL, key, strict=False)))
    return own[own["strategy"] != "none"]


def _english(
    study: StudyResults, keys: list[Key]
) -> "tuple[dict[Key, float], dict[Key, ScoreDifference]]":
    """The mean change of English over the trained cells of each vocabulary, and its test.

    Of the first task that scores English text: means over several would mix their scales.
    """
    from lexigraft.report.score_differences import score_differences

    english = study.summary[
        (study.summary["metric"] == ENGLISH_BITS_PER_BYTE) & study.summary["change"].notna()
    ]
    english = english[english["task"].isin(english["task"].head(1))]
    changes: dict[Key, float] = {}
    means: dict[tuple[Model, Column], list[Model]] = {}
    for key in keys:
        cells = _trained(english, key)
        if cells.empty:
            continue
        source, language, vocabulary = key
        column = (language, str(cells["task"].iloc[0]), ENGLISH_BITS_PER_BYTE)
        means[Model(source, vocabulary, _ALL, _ALL), column] = models_of(cells)
        changes[key] = float(cells["change"].mean())
    wanted = [
        (mean, Model(mean.source, "source", "none", "none"), column) for mean, column in means
    ]
    found = score_differences(study, wanted, means)
    tests = {(one.model.source, one.column[0], one.model.vocabulary): one for one in found}
    return changes, tests
