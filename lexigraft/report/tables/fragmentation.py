"""How vocabularies segment text before and after adding tokens, and how English changes."""

from typing import Any, Literal

from pandas import DataFrame

from lexigraft.corpus.mixture import MEASURED
from lexigraft.report.frame import CELL, SEEDED, StudyResults, select
from lexigraft.report.heldout import text_scores, text_tasks
from lexigraft.report.items import Options, table
from lexigraft.report.models import vocabulary_stub
from lexigraft.report.names import ENGLISH_BITS_PER_BYTE, metric
from lexigraft.report.table import Shown, Table, frame_table, number

_TRAIN_LENGTH = "train_tokens_per_sentence"
_ENGLISH_CHANGE = f"{ENGLISH_BITS_PER_BYTE}_change"
# Metrics on held-out text, which are measured for each member of a group.
_OF_MEMBERS = ("fertility", "tokens_per_sentence", "bytes_per_token", "word_fertility")


def _before_after(name: str, title: str, decimals: int, change: bool = False) -> dict[str, Shown]:
    shown = {
        f"{name}_before": Shown((title, "before"), decimals),
        name: Shown((title, "after"), decimals),
    }
    changed = {f"{name}_change": Shown((title, "change"), None, sign=True)}
    return shown | changed if change else shown


# Content of an item -> its columns.
_COLUMNS = {
    "new_tokens": {
        "new_tokens": Shown(("new tokens", "number"), 0),
        "unused_new_tokens": Shown(("new tokens", "unused in training text"), None),
    },
    **{
        name: _before_after(name, metric(name).title, metric(name).decimals) for name in _OF_MEMBERS
    },
    "new_token_share": {
        "new_token_share_input": Shown(("target text", "share of new tokens"), None),
        "new_token_share_output": Shown(("generated text", "share of new tokens"), None),
    },
    "english": {
        "english_sentences_changed": Shown(("English", "sentences changed"), None),
        _ENGLISH_CHANGE: Shown(("English", "bits per byte, change ↓"), 3, sign=True),
    },
    _TRAIN_LENGTH: _before_after(_TRAIN_LENGTH, metric(_TRAIN_LENGTH).title, 2, change=True),
    "parameters": _before_after("parameters", "parameters in billions", 2, change=True),
}
_DEFAULT = ("new_tokens", *_OF_MEMBERS[:3], "new_token_share", "english")
_Content = Literal[
    "new_tokens",
    "fertility",
    "word_fertility",
    "tokens_per_sentence",
    "bytes_per_token",
    "new_token_share",
    "english",
    "train_tokens_per_sentence",
    "parameters",
]
NOTHING = "no vocabulary was changed"


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
    trained = study.summary[study.summary["strategy"] != "none"]
    outputs = select(trained, metric="new_token_share_output")
    # In the task whose text represents each language: means over several would mix their scales.
    english = text_scores(trained, text_tasks(study, ENGLISH_BITS_PER_BYTE), ENGLISH_BITS_PER_BYTE)
    cards = study.training.reindex(columns=[*SEEDED, "total_parameters"])
    every: list[dict[str, Any]] = []
    for numbers in frame.to_dict("records"):
        key = {axis: numbers[axis] for axis in CELL[:3]}
        numbers["new_token_share_output"] = select(outputs, **key)["mean"].mean()
        numbers[_ENGLISH_CHANGE] = select(english, **key)["change"].mean()
        source = {"source": key["source"], "vocabulary": "source"}
        for name, cell in (("parameters_before", source), ("parameters", key)):
            numbers[name] = select(cards, **cell)["total_parameters"].mean() / 1e9
        for name in (_TRAIN_LENGTH, "parameters"):
            if numbers.get(name) and numbers.get(f"{name}_before"):
                numbers[f"{name}_change"] = numbers[name] / numbers[f"{name}_before"] - 1
        every.append(numbers)
        names = [name for name in numbers if not name.endswith("_before")]
        for member in (n.removeprefix("fertility_") for n in names if n.startswith("fertility_")):
            of_member = {
                f"{name}{end}": numbers.get(f"{name}_{member}{end}")
                for name in (*_OF_MEMBERS, "new_token_share_input")
                for end in ("", "_before")
            }
            if of_member["fertility"] == of_member["fertility"]:
                every.append(key | of_member | {"language": member})
    columns = {name: shown for content in contents for name, shown in _COLUMNS[content].items()}
    notes = [
        "Before: the source tokenizer on the same sentences. Generated text and English bits per "
        "byte (change over Source): means of the trained cells with this vocabulary.",
    ]
    if _TRAIN_LENGTH in contents:
        size = number(MEASURED, 0)
        notes.append(f"Training text: a random sample of {size} texts, or all if fewer.")
    return frame_table(
        DataFrame(every),
        columns,
        *vocabulary_stub(study),
        notes,
        DataFrame(every)[[*frame, _ENGLISH_CHANGE]].dropna(axis=1, how="all"),
    )


def vocabulary_sizes(study: StudyResults) -> DataFrame:
    """One row per source, language and new vocabulary; `<metric>` after and `<metric>_before`."""
    wide = study.fragmentation.pivot_table(
        index=CELL[:3], columns="metric", values="value", sort=False
    ).reset_index()
    for name in study.fragmentation["metric"].unique():
        if name.startswith("source_"):
            wide[f"{name.removeprefix('source_')}_before"] = wide[name]
    return wide[wide["vocabulary"] != "source"].reset_index(drop=True)
