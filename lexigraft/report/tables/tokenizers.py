"""How tokenizers segment the text of languages, side by side (as in VocADT, SALT and CW2V)."""

from typing import Annotated

import pandas
from pandas import DataFrame, Series
from pydantic import Field

from lexigraft.report.frame import StudyResults
from lexigraft.report.items import Options, TokenizerNames, table
from lexigraft.report.names import metric
from lexigraft.report.table import Shown, Table, frame_table

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
    wide = compared_tokenizers(study)
    if wide.empty:
        return None
    columns = {
        name: shown for name, shown in _COLUMNS.items()
        if name not in _LOSSES or wide.get(name, Series(0)).any()
    }  # fmt: skip
    for reference in study.item.option("compared_with") or ():
        lengths = wide[LENGTH].xs(reference, level="tokenizer")
        wide[reference] = wide[LENGTH].div(lengths, level="language") - 1
        columns[reference] = Shown(("change of length from", reference), None, sign=True)
    notes = [
        "Tokens per word: between spaces, so a script without them has one word per sentence. "
        "Never used: tokens, except special ones, that do not occur in the language's training "
        "text. Unreachable: tokens that no text is tokenized to."
    ]
    # Languages without parallel text are not comparable with others: their sentences differ.
    languages = wide.index.unique("language")
    parity = wide.get("english_parity", Series(float("nan"), wide.index))
    parallel = set(parity.dropna().index.get_level_values("language"))
    separate = [study.language(name) for name in languages if name not in parallel]
    if separate:
        notes.append(
            "On held-out sentences, not on translations of English sentences: "
            f"{', '.join(separate)}."
        )
    return frame_table(
        wide.reset_index(),
        columns,
        ("Language", "Tokenizer"),
        lambda row: (study.language(row["language"]), row["tokenizer"]),
        notes,
        (study.whole or study).tokenizers,
    )


def compared_tokenizers(study: StudyResults) -> DataFrame:
    """The numbers of the item's tokenizers [language × tokenizer, metric], in its order."""
    frame = (study.whole or study).tokenizers
    languages = list(study.item.where.get("language") or frame["language"].unique())
    names = list(study.item.option("tokenizers") or frame["tokenizer"].unique())
    wide = frame.pivot_table(index=["language", "tokenizer"], columns="metric", values="value")
    rows = pandas.MultiIndex.from_product([languages, names], names=["language", "tokenizer"])
    return wide.reindex(rows).rename_axis(columns=None)
