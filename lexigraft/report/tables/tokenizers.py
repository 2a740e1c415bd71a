"""How tokenizers cut the text of languages, side by side (as in VocADT, SALT and CW2V)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lexigraft.report.items import Kind, Options, TokenizerNames
from lexigraft.report.length_changes import length_changes
from lexigraft.report.metrics import metric
from lexigraft.report.paired_tests import PairedTest
from lexigraft.report.study import StudyResults
from lexigraft.report.table import Row, Table, TableCell, number_cell, percent_cell
from lexigraft.report.table_notes import missing_note, stars_note

if TYPE_CHECKING:
    import pandas


class TokenizerOptions(Options):
    """The options of a table of tokenizers."""

    tokenizers: Annotated[TokenizerNames, Field(description="which, in this order")] = ()
    compared_with: Annotated[
        TokenizerNames, Field(description="tokenizers from which each has a column of changes")
    ] = ()


KIND = Kind(
    title="Tokenizers",
    caption="How tokenizers of the registry cut the same text, side by side. Without any model: "
    "tokens per sentence and per word, bytes per token, tokens per token of English, and how many "
    "of their own tokens the language never uses or no text can use.",
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
    "size": ("vocabulary", "tokens"),
    "unused_tokens": ("vocabulary", "never used"),
    "unreachable_tokens": ("vocabulary", "unreachable"),
}
_SHARES = ("unknown_tokens", "unused_tokens", "unreachable_tokens")


@dataclass(frozen=True)
class TokenizerComparison:
    """What an item shows of a study's tokenizers.

    Attributes
    ----------
    languages, tokenizers
        In the order of the item, else of the study.
    values
        `(language, tokenizer, metric)` -> value, see
        `lexigraft.evaluation.fragmentation.measure_tokenizer`.
    """

    languages: list[str]
    tokenizers: list[str]
    values: dict[tuple[str, str, str], float]

    def value(self, language: str, tokenizer: str, metric: str) -> float | None:
        """One number; None if it was not measured."""
        return self.values.get((language, tokenizer, metric))


def build(study: StudyResults, summary: "pandas.DataFrame") -> Table | None:
    """A row per language and tokenizer; a column of changes for each one it is compared with."""
    found = compared(study)
    if found is None:
        return None
    unknown = any(value for key, value in found.values.items() if key[2] == "unknown_tokens")
    columns = [name for name in _COLUMNS if name != "unknown_tokens" or unknown]
    others = study.item.option("compared_with") or ()
    pairs = [(one, other) for one in found.tokenizers for other in others if one != other]
    changes = length_changes(study.token_counts, found.languages, pairs)
    rows = [
        Row(
            (study.language(language), tokenizer),
            tuple(
                [_cell(found.value(language, tokenizer, name), name) for name in columns]
                + [_change(found, changes, language, tokenizer, other) for other in others]
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
        "text. Unreachable: tokens that no text is cut into.",
        *_untranslated(study, found),
        *_change_notes(study, found, pairs, changes),
        *missing_note(rows, heads),
    ]
    data = _with_changes(study.tokenizers, changes)
    return Table(("Language", "Tokenizer"), heads, rows, data, notes)


def compared(study: StudyResults) -> TokenizerComparison | None:
    """What the item that a study was cut out for shows; None where nothing was measured."""
    frame: pandas.DataFrame = study.tokenizers
    named = study.item.where.get("language")
    languages = list(named or dict.fromkeys(map(str, frame["language"])))
    tokenizers = list(
        study.item.option("tokenizers") or dict.fromkeys(map(str, frame["tokenizer"]))
    )
    values = {
        (row["language"], row["tokenizer"], row["metric"]): float(row["value"])
        for row in frame.to_dict("records")
        if row["language"] in languages and row["tokenizer"] in tokenizers
    }
    return TokenizerComparison(languages, tokenizers, values) if values else None


def _cell(value: float | None, name: str) -> TableCell:
    if name in _SHARES:
        return percent_cell(value)
    return number_cell(value, 0 if name == "size" else metric(name).decimals)


def _change(
    found: TokenizerComparison,
    changes: dict[tuple[str, str, str], PairedTest],
    language: str,
    tokenizer: str,
    other: str,
) -> TableCell:
    """By how much a tokenizer's text is longer than another's."""
    own, others = (found.value(language, name, LENGTH) for name in (tokenizer, other))
    if own is None or others is None:
        return TableCell()
    tested = changes.get((language, tokenizer, other))
    return percent_cell(own / others - 1, sign=True, stars=tested.stars if tested else "")


def _change_notes(
    study: StudyResults,
    found: TokenizerComparison,
    pairs: list[tuple[str, str]],
    changes: dict[tuple[str, str, str], PairedTest],
) -> list[str]:
    """How changes were tested, and in which languages some could not be."""
    notes = []
    if changes:
        notes.append(stars_note("texts", len(changes), "changes"))
    lost = [
        study.language(language)
        for language in found.languages
        if any((language, *pair) not in changes for pair in pairs)
    ]
    if lost:
        notes.append(
            "Changes of length not tested, because the tokens of each text are needed: "
            f"{', '.join(lost)}."
        )
    return notes


def _with_changes(
    data: "pandas.DataFrame", changes: dict[tuple[str, str, str], PairedTest]
) -> "pandas.DataFrame":
    """The table's numbers, followed by its changes with their tests."""
    import pandas

    rows = [
        {"tokenizer": tokenizer, "language": language, "metric": f"{LENGTH}_change",
         "value": one.value, "compared_with": other, **one.columns("change")}
        for (language, tokenizer, other), one in changes.items()
    ]  # fmt: skip
    return pandas.concat([data, pandas.DataFrame(rows)], ignore_index=True) if rows else data


def _untranslated(study: StudyResults, found: TokenizerComparison) -> list[str]:
    """Languages without a parallel text do not compare with others: their sentences differ."""
    translated = {language for language, _, name in found.values if name == "english_parity"}
    lost = [study.language(name) for name in found.languages if name not in translated]
    if not lost:
        return []
    return [f"On held-out sentences, not on translations of English sentences: {', '.join(lost)}."]
