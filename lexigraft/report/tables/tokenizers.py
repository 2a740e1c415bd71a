"""How tokenizers cut the text of languages, side by side (papers 001, 002 and 004)."""

from typing import TYPE_CHECKING

from lexigraft.report.length_changes import length_changes
from lexigraft.report.metrics import metric
from lexigraft.report.paired_tests import PairedTest
from lexigraft.report.study import Study
from lexigraft.report.tables.notes import missing_note, stars_note
from lexigraft.report.tables.table import Cell, Row, Table, is_compact, number
from lexigraft.report.tokenizers import Compared, compared

if TYPE_CHECKING:
    import pandas

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


def build(study: Study, summary: "pandas.DataFrame") -> Table | None:
    """A row per language and tokenizer; a column of changes for each one it is compared with."""
    found = compared(study)
    if found is None:
        return None
    unknown = any(value for key, value in found.values.items() if key[2] == "unknown_tokens")
    columns = [name for name in _COLUMNS if name != "unknown_tokens" or unknown]
    others = study.asked.compared_with
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
        "Never used: tokens, special ones aside, that the language's training text is not cut "
        "into. Unreachable: those that no text is cut into.",
        *_untranslated(study, found),
        *_change_notes(study, found, pairs, changes),
        *missing_note(rows, heads),
    ]
    stubs, data = ("Language", "Tokenizer"), _with_changes(study.tokenizers, changes)
    compact = is_compact(len(heads), len(stubs))
    return Table("tokenizers", "Tokenizers", stubs, heads, tuple(rows), data, tuple(notes), compact)


def _cell(value: float | None, name: str) -> Cell:
    if value is None:
        return Cell()
    if name in _SHARES:
        return Cell(f"{number(100 * value, 1)} %", value=value)
    return Cell(number(value, 0 if name == "size" else metric(name).decimals), value=value)


def _change(
    found: Compared,
    changes: dict[tuple[str, str, str], PairedTest],
    language: str,
    tokenizer: str,
    other: str,
) -> Cell:
    """By how much a tokenizer's text is longer than another's."""
    own, others = (found.value(language, name, LENGTH) for name in (tokenizer, other))
    if own is None or others is None:
        return Cell()
    change = own / others - 1
    tested = changes.get((language, tokenizer, other))
    stars = tested.stars if tested else ""
    return Cell(f"{number(100 * change, 1, sign=True)} %", value=change, stars=stars)


def _change_notes(
    study: Study,
    found: Compared,
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
            "Not tested, for that takes the tokens of each text: changes of length in "
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


def _untranslated(study: Study, found: Compared) -> list[str]:
    """Languages without a parallel text do not compare with others: their sentences differ."""
    translated = {language for language, _, name in found.values if name == "english_parity"}
    lost = [study.language(name) for name in found.languages if name not in translated]
    if not lost:
        return []
    return [f"On held-out sentences, not on the translations of English ones: {', '.join(lost)}."]
