"""How tokenizers segment the text of languages, side by side (as in VocADT, SALT and CW2V)."""

from itertools import product
from typing import Annotated, NamedTuple

from pydantic import Field

from lexigraft.report.frame import StudyResults
from lexigraft.report.items import Options, TokenizerNames, table
from lexigraft.report.names import metric
from lexigraft.report.table import Row, Shown, Table, TableCell, missing_note, number_cell

LENGTH = "tokens_per_sentence"
_LOSSES = ("unknown_tokens", "lost_text")  # columns only where there is a loss
_COLUMNS = {
    **{
        name: Shown(("text", heading), metric(name).decimals)
        for name, heading in (
            (LENGTH, "tokens per sentence"),
            ("fertility", "tokens per word"),
            ("bytes_per_token", "bytes per token"),
            ("english_parity", "tokens per token of English"),
        )
    },
    "unknown_tokens": Shown(("text", "unknown"), None),
    "lost_text": Shown(("text", "lost"), None),
    "size": Shown(("vocabulary", "tokens"), 0),
    "unused_tokens": Shown(("vocabulary", "never used"), None),
    "unreachable_tokens": Shown(("vocabulary", "unreachable"), None),
}
NOTHING = "no tokenizer was compared without a model"


class TokenizerOptions(Options):
    """The options of a table of tokenizers."""

    tokenizers: TokenizerNames = ()
    compared_with: Annotated[
        TokenizerNames,
        Field(description="tokenizers to compare with, a column of changes for each"),
    ] = ()


class ComparedTokenizers(NamedTuple):
    """The data of a study's tokenizers that an item shows."""

    languages: list[str]  # in the order of the item, else of the study, like the tokenizers
    tokenizers: list[str]
    # `(language, tokenizer, metric)`, see `lexigraft.evaluation.fragmentation.measure_tokenizer`.
    values: dict[tuple[str, str, str], float]


@table(
    title="Tokenizers",
    caption="Comparison of how tokenizers of the registry split the same text. Without any model: "
    "tokens per sentence and per word, bytes per token, tokens per token of English, and how many "
    "of their tokens the language never uses or no text can use.",
    empty=NOTHING,
    options=TokenizerOptions,
)
def tokenizers(study: StudyResults) -> Table | None:
    """A row per language and tokenizer; a column of changes for each one it is compared with."""
    compared = compared_tokenizers(study)
    if compared is None:
        return None
    measured = {name for (*_, name), value in compared.values.items() if value}
    columns = {
        name: shown for name, shown in _COLUMNS.items() if name not in _LOSSES or name in measured
    }
    references = study.item.option("compared_with") or ()
    rows = []
    for language, tokenizer in product(compared.languages, compared.tokenizers):
        cells = [
            shown.cell(compared.values.get((language, tokenizer, name)))
            for name, shown in columns.items()
        ]
        for reference in references:  # the relative change in tokens
            ends = [
                compared.values.get((language, name, LENGTH), 0.0)
                for name in (tokenizer, reference)
            ]
            cells.append(
                number_cell(ends[0] / ends[1] - 1, None, True) if all(ends) else TableCell()
            )
        rows.append(Row((study.language(language), tokenizer), tuple(cells)))
    heads = [shown.head for shown in columns.values()]
    heads += [("change of length from", reference) for reference in references]
    notes = [
        "Tokens per word: between spaces, so a script without them has one word per sentence. "
        "Never used: tokens, except special ones, that do not occur in the language's training "
        "text. Unreachable: tokens that no text is tokenized to."
    ]
    # Languages without parallel text are not comparable with others: their sentences differ.
    parallel = {language for language, _, name in compared.values if name == "english_parity"}
    separate = [study.language(name) for name in compared.languages if name not in parallel]
    if separate:
        notes.append(
            "On held-out sentences, not on translations of English sentences: "
            f"{', '.join(separate)}."
        )
    data = (study.whole or study).tokenizers
    notes += missing_note(rows, heads)
    return Table(("Language", "Tokenizer"), heads, rows, data, notes)


def compared_tokenizers(study: StudyResults) -> ComparedTokenizers | None:
    """The data of the item that shows this part of a study; None if nothing was measured."""
    frame = (study.whole or study).tokenizers
    languages = list(study.item.where.get("language") or frame["language"].unique())
    names = list(study.item.option("tokenizers") or frame["tokenizer"].unique())
    values = {
        (row["language"], row["tokenizer"], row["metric"]): float(row["value"])
        for row in frame.to_dict("records")
        if row["language"] in languages and row["tokenizer"] in names
    }
    return ComparedTokenizers(languages, names, values) if values else None
