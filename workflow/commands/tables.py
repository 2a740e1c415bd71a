"""Terminal output of the commands on tokenizers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from lexigraft.evaluation.inspection import Inspection
    from lexigraft.initialization.interface import Initializer

_RATES = {
    "tokens per sentence": "tokens_per_sentence",
    "tokens per word": "fertility",
    "characters per token": "characters_per_token",
}


def show_change(
    source: "PreTrainedTokenizerFast",
    target: "PreTrainedTokenizerFast",
    new_ids: set[int],
    sentences: Sequence[str],
    english: Sequence[str],
) -> None:
    """Show how both tokenizers split the text, and the effect on English, if there is a text."""
    from lexigraft.evaluation.fragmentation import fragmentation

    if not sentences:
        return
    metrics = fragmentation(
        source, target, new=new_ids, heldout=sentences, english=english, train=sentences
    )
    table = new_table(f"{len(sentences):,} sentences", "before", "after")
    for name, key in _RATES.items():
        before, after = (metrics[f"{prefix}{key}"] for prefix in ("source_", ""))
        table.add_row(name, f"{before:.2f}", f"{after:.2f}")
    table.add_row("new tokens unused in the text", "", f"{metrics.get('unused_new_tokens', 0):.1%}")
    if english:
        changed = metrics["english_sentences_changed"]
        table.add_row("English sentences tokenized differently", "", f"{changed:.1%}")
    _show(table)


def show_rows(fitted: "Initializer") -> None:
    """Show how many rows are copied and new, and how a few of the new ones are computed."""
    pair = fitted.pair_
    tokens = len(pair.target_tokenizer.get_vocab())
    special = sum(int(pair.source_of[token_id]) >= 0 for token_id in pair.target_special_ids)
    removed = set(pair.source_ids.tolist()).difference(pair.source_of.tolist())
    table = new_table("rows of the embeddings", "tokens")
    table.add_row("copied from the model", f"{tokens - len(pair.new_ids):,}")
    table.add_row("  of which special tokens", f"{special:,}")
    table.add_row(f"new, initialized with {fitted.name}", f"{len(pair.new_ids):,}")
    table.add_row("  of which not covered: fallback", f"{len(fitted.fallbacks_):,}")
    table.add_row("removed from the model", f"{len(removed):,}")
    _show(table)
    for token in pair.new_tokens[:3]:
        typer.echo(f"  {fitted.explain(token)}")


def show_inspection(inspection: "Inspection", sentences: int) -> None:
    """Show how a tokenizer splits a text of so many sentences, and what new tokens would save."""
    metrics = inspection.metrics
    columns = {"your text": metrics}
    if inspection.english:
        columns["English"] = inspection.english
    table = new_table(f"{sentences:,} sentences", *columns)
    for name, key in _RATES.items():
        table.add_row(name, *(f"{column[key]:.2f}" for column in columns.values()))
    for name, key in (("unknown tokens", "unknown_tokens"), ("text lost", "lost_text")):
        if any(column[key] for column in columns.values()):
            table.add_row(name, *(f"{column[key]:.1%}" for column in columns.values()))
    _show(table)
    typer.echo(
        f"Of the tokenizer's {metrics['size']:,} tokens, {metrics['unreachable_tokens']:.1%} can "
        f"never occur, and {metrics['unused_tokens']:.1%} do not occur in your text."
    )
    if metrics["lost_text"]:
        typer.echo(
            f"The tokenizer has no tokens for {metrics['lost_text']:.1%} of your text. A model "
            "never sees this part, and the numbers above are too low."
        )
    if inspection.document_start:
        adds = "the tokenizer adds" if inspection.adds_start else "lexigraft adds"
        typer.echo(f"Texts begin with {inspection.document_start}, which {adds}.")
    else:
        typer.echo("Texts begin without a special token.")
    if inspection.no_curve:
        typer.echo(f"No curve of new tokens: {inspection.no_curve}.")
        return
    first = inspection.curve[0].tokens_per_sentence
    titles = ("new tokens", "tokens per sentence", "saved", "per word", "characters per token")
    curve = new_table(*titles)
    for point in inspection.curve:
        length, saved = point.tokens_per_sentence, 1 - point.tokens_per_sentence / first
        rates = f"{point.tokens_per_word:.2f}", f"{point.characters_per_token:.2f}"
        curve.add_row(f"{point.new_tokens:,}", f"{length:.2f}", f"{saved:.0%}", *rates)
    _show(curve)
    typer.echo(f"Measured on {inspection.measured:,} sentences, with tokens learned from the rest.")


def new_table(*columns: str) -> Table:
    """An empty table for the terminal; all columns but the first are right-aligned."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _show(table: Table) -> None:
    Console().print(table)
