"""How tokenizers segment the text of languages, side by side (as in VocADT, SALT and CW2V)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lexigraft.report.items import Kind, Options, TokenizerNames
from lexigraft.report.metrics import metric
from lexigraft.report.study import StudyResults, TokenCounts
from lexigraft.report.table import Row, Table, TableCell, number_cell, percent_cell
from lexigraft.report.table_notes import missing_note

if TYPE_CHECKING:
    import numpy as np

    from lexigraft.report.paired_tests import PairedTest


class TokenizerOptions(Options):
    """The options of a table of tokenizers."""

    tokenizers: TokenizerNames = ()
    compared_with: Annotated[
        TokenizerNames,
        Field(description="tokenizers to compare with, a column of changes for each"),
    ] = ()


KIND = Kind(
    title="Tokenizers",
    caption="Comparison of how tokenizers of the registry split the same text. Without any model: "
    "tokens per sentence and per word, bytes per token, tokens per token of English, and how many "
    "of their tokens the language never uses or no text can use.",
    empty="no tokenizer was compared without a model",
    options=TokenizerOptions,
)
LENGTH = "tokens_per_sentence"
# Metric -> group and head of its column; those of _SHARES are shown in percent.
_COLUMNS = {
    LENGTH: ("text", "tokens per sentence"),
    "fertility": ("text", "tokens per word"),
    "bytes_per_token": ("text", "bytes per token"),
    "english_parity": ("text", "tokens per token of English"),
    "unknown_tokens": ("text", "unknown"),
    "lost_text": ("text", "lost"),
    "size": ("vocabulary", "tokens"),
    "unused_tokens": ("vocabulary", "never used"),
    "unreachable_tokens": ("vocabulary", "unreachable"),
}
_LOSSES = ("unknown_tokens", "lost_text")  # columns only where there is a loss
_SHARES = (*_LOSSES, "unused_tokens", "unreachable_tokens")


@dataclass(frozen=True)
class TokenizerComparison:
    """The data of a study's tokenizers that an item shows."""

    languages: list[str]  # in the order of the item, else of the study, like the tokenizers
    tokenizers: list[str]
    # `(language, tokenizer, metric)`, see `lexigraft.evaluation.fragmentation.measure_tokenizer`.
    values: dict[tuple[str, str, str], float]


def build(study: StudyResults) -> Table | None:
    """A row per language and tokenizer; a column of changes for each one it is compared with."""
    import pandas

    from lexigraft.report.table_tests import stars_note, untested_note

    found = compared(study)
    if found is None:
        return None
    losses = {key[2] for key, value in found.values.items() if value}
    columns = [name for name in _COLUMNS if name not in _LOSSES or name in losses]
    others = study.item.option("compared_with") or ()
    pairs = [(one, other) for one in found.tokenizers for other in others if one != other]
    changes = length_changes(study.token_counts, found.languages, pairs)

    def cell(name: str, language: str, tokenizer: str) -> TableCell:
        value = found.values.get((language, tokenizer, name))
        if name in _SHARES:
            return percent_cell(value)
        return number_cell(value, 0 if name == "size" else metric(name).decimals)

    def change(language: str, tokenizer: str, other: str) -> TableCell:
        """The relative change in tokens from another tokenizer to this one."""
        own, others = (found.values.get((language, name, LENGTH)) for name in (tokenizer, other))
        if own is None or others is None:
            return TableCell()
        tested = changes.get((language, tokenizer, other))
        return percent_cell(own / others - 1, sign=True, stars=tested.stars if tested else "")

    rows = [
        Row(
            (study.language(language), tokenizer),
            (
                *(cell(name, language, tokenizer) for name in columns),
                *(change(language, tokenizer, other) for other in others),
            ),
        )
        for language in found.languages
        for tokenizer in found.tokenizers
    ]
    heads = (
        *(_COLUMNS[name] for name in columns),
        *(("change of length from", other) for other in others),
    )
    notes = [
        "Tokens per word: between spaces, so a script without them has one word per sentence. "
        "Never used: tokens, except special ones, that do not occur in the language's training "
        "text. Unreachable: tokens that no text is tokenized to."
    ]
    # Languages without parallel text are not comparable with others: their sentences differ.
    translated = {language for language, _, name in found.values if name == "english_parity"}
    if own := [study.language(name) for name in found.languages if name not in translated]:
        notes.append(
            f"On held-out sentences, not on translations of English sentences: {', '.join(own)}."
        )
    if changes:
        notes.append(stars_note("texts", len(changes), "changes"))
    untested = (
        study.language(language)
        for language in found.languages
        if any((language, *pair) not in changes for pair in pairs)
    )
    notes += untested_note("Changes of length", "the tokens of each text", untested)
    tested = [
        {"tokenizer": tokenizer, "language": language, "metric": f"{LENGTH}_change",
         "value": one.value, "compared_with": other, **one.columns("change")}
        for (language, tokenizer, other), one in changes.items()
    ]  # fmt: skip
    data = study.tokenizers
    if tested:
        data = pandas.concat([data, pandas.DataFrame(tested)], ignore_index=True)
    notes += missing_note(rows, heads)
    return Table(("Language", "Tokenizer"), heads, rows, data, notes)


def compared(study: StudyResults) -> TokenizerComparison | None:
    """The data of the item that shows this part of a study; None if nothing was measured."""
    frame = study.tokenizers
    languages = list(study.item.where.get("language") or map(str, frame["language"].unique()))
    tokenizers = list(study.item.option("tokenizers") or map(str, frame["tokenizer"].unique()))
    values = {
        (row["language"], row["tokenizer"], row["metric"]): float(row["value"])
        for row in frame.to_dict("records")
        if row["language"] in languages and row["tokenizer"] in tokenizers
    }
    return TokenizerComparison(languages, tokenizers, values) if values else None


def length_changes(
    counts: Mapping[tuple[str, str], TokenCounts],
    languages: Iterable[str],
    pairs: Sequence[tuple[str, str]],
) -> "dict[tuple[str, str, str], PairedTest]":
    """Test the relative change in tokens between two tokenizers on the same texts.

    Logarithms are compared, so that halving and doubling are equal in size. `counts` are by
    tokenizer and language; results are by language and the two tokenizers of a pair, if both were
    measured on the same number of texts.
    """
    import numpy as np

    from lexigraft.report.paired_tests import correct_together, paired_test, resampled_scores

    only = (0, 0)  # a tokenizer has no seeds and no runs

    def logarithm(totals: "np.ndarray") -> "np.ndarray":
        """Logarithm of the tokens: [..., 1] -> [...]."""
        return np.log(totals[..., 0])

    found = {}
    for language in languages:
        for one, other in pairs:
            first, second = (counts.get((name, language)) for name in (one, other))
            if not (first and second and first.texts == second.texts > 1):
                continue
            texts = [np.maximum(np.array(own.tokens, float), 1)[:, None] for own in (first, second)]
            systems = {place: ({only: own}, logarithm) for place, own in enumerate(texts)}
            # The same texts of a language are drawn for all tokenizers.
            scores = resampled_scores(systems, len(first.tokens), language, "tokens")
            ours, theirs = ({only: logarithm(own)} for own in texts)
            found[language, one, other] = paired_test(
                scores[0],
                scores[1],
                (ours, theirs) if first.texts == len(first.tokens) else None,
                examples=first.texts,
                inverse=math.expm1,
            )
    return correct_together(found)
