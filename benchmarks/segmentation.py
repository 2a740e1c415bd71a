"""Tokens per sentence with new tokens, recorded for docs/vocabulary.md.

python -m benchmarks.segmentation SMOLLM2 LLAMA_3 ENGLISH_FILE LANGUAGE=DATA=TEXT_FILE …

The first two are tokenizer folders: SmolLM2's is expanded; for both, the effect of joined marks
without new tokens is measured. A text file has one sentence per line; every tenth is held out and
measured. `DATA` is the name of the text in the record. Languages in a script with combining marks
are measured with `marks` apart and joined; the others with limits on the number of English
sentences that change. Every second line of ENGLISH_FILE is the sample to which the limit applies
and whose tokens pruning keeps; the rest is measured.
"""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.cards import versions
from lexigraft.errors import UserError
from lexigraft.evaluation.fragmentation import fragmentation, measure_tokenizer
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.vocabulary.expand import expand_tokenizer, new_token_ids
from lexigraft.vocabulary.marks import is_in_marked_script, pre_tokenization
from lexigraft.vocabulary.prune import prune_tokenizer
from lexigraft.vocabulary.token_bytes import pre_tokens
from lexigraft.vocabulary.train import train_tokenizer
from workflow.config.registries import ROOT
from workflow.records import write_record

NEW_TOKENS = (500, 2000)
ENGLISH_CHANGE = (None, 0.05, 0.0)
SUPERWORDS = (0.0, 0.1)
EMOJI = ((0x203C, 0x3300), (0x1F000, 0x1FB00))
SIZE = 2000  # of tokenizers with superwords
MEASURED = ("new_tokens", "source_tokens_per_sentence", "tokens_per_sentence",
            "unused_new_tokens", "english_sentences_changed")  # fmt: skip
PRUNED = ("tokens_per_sentence", "english_sentences_changed", "english_tokens_growth")


def main(smollm2: str, llama_3: str, english_file: str, *texts: str) -> None:
    """Expand the tokenizer for each text, train new ones on it, and write the record."""
    sources = {"SmolLM2": load_tokenizer(smollm2), "Llama 3": load_tokenizer(llama_3)}
    source, english = sources["SmolLM2"], sentences(english_file)
    marks: list[list[Any]] = []
    unexpanded: list[list[Any]] = []
    latin: list[list[Any]] = []
    pruning: list[list[Any]] = []
    superwords: list[list[Any]] = []
    unmarked = {"English sentences": english, "lines of Python": code(), "emoji": emoji()}
    for text in texts:
        *name, file = text.split("=")
        lines = sentences(file)
        train = [line for place, line in enumerate(lines) if place % 10]
        parts = (train, lines[::10], english)
        if is_in_marked_script(lines):
            marks += [
                [*name, asked, way, *expanded(source, *parts, asked, marks=way)]
                for asked in NEW_TOKENS
                for way in ("apart", "joined")
            ]
            unexpanded += [[each, *name, *joined(sources[each], lines)] for each in sources]
        else:
            latin += [
                [*name, share, *expanded(source, *parts, NEW_TOKENS[0], english_change=share)]
                for share in ENGLISH_CHANGE
            ]
            unmarked[f"{name[0]} sentences"] = lines
            unmarked[f"{name[0]} sentences in NFD"] = [normalize("NFD", line) for line in lines]
        pruning += [[*name, *row] for row in pruned(source, *parts)]
        superwords += [[*name, share, *trained(train, lines[::10], share)] for share in SUPERWORDS]
    words = [
        [each, kind, len(found), recut(sources[each], found)]
        for kind, found in unmarked.items()
        for each in sources
    ]
    tables = {
        "words": [["source", "texts", "number", "changed"], *words],
        "marks": [["language", "data", "asked", "marks", *MEASURED], *marks],
        "unexpanded": [["source", "language", "data", "changed", "growth"], *unexpanded],
        "latin": [["language", "data", "english_change", *MEASURED], *latin],
        "pruning": [["language", "data", "pruned", "removed", *PRUNED], *pruning],
        "superwords": [["language", "data", "superwords", "tokens_per_sentence"], *superwords],
    }
    run = {"date": datetime.now(UTC).date().isoformat(), "size": SIZE, **versions()}
    write_record("segmentation", {"run": run, "tables": tables})


def expanded(
    source: PreTrainedTokenizerFast,
    train: list[str],
    heldout: list[str],
    english: list[str],
    asked: int,
    **options: Any,
) -> list[float]:
    """The metrics of a tokenizer with `asked` new tokens, or as many as can be added."""
    options |= {"english": english[::2]}
    try:
        target = expand_tokenizer(source, train, asked, **options)
    except UserError as error:
        if not (found := re.search(r"only (\d+) can be added", str(error))):
            raise
        target = expand_tokenizer(source, train, int(found[1]), **options)
    new = {*new_token_ids(source, target)}
    metrics = fragmentation(
        source, target, new=new, heldout=heldout, train=train, english=english[1::2]
    )
    return [round(metrics[name], 5) for name in MEASURED]


def pruned(
    source: PreTrainedTokenizerFast, train: list[str], heldout: list[str], english: list[str]
) -> list[list[Any]]:
    """Ways of pruning an expanded tokenizer: name, number of removed tokens, and metrics.

    Removed are as many tokens as are new, all that text and English do not use, or all that the
    text does not use. The measured English sentences differ from those whose tokens are kept.
    """
    target = expand_tokenizer(source, train, NEW_TOKENS[0])
    used, keep = [*train, *english[::2]], new_token_ids(source, target)
    ways = {
        "none": target,
        "as many": prune_tokenizer(target, used, at_most=NEW_TOKENS[0], keep=keep),
        "all": prune_tokenizer(target, used, keep=keep),
        "without English": prune_tokenizer(target, train, keep=keep),
    }
    rows: list[list[Any]] = []
    for way, rest in ways.items():
        metrics = fragmentation(source, rest, new=set(), heldout=heldout, english=english[1::2])
        rows.append([way, len(target) - len(rest), *(round(metrics[name], 5) for name in PRUNED)])
    return rows


def recut(source: PreTrainedTokenizerFast, texts: list[str]) -> int:
    """The number of texts that joined marks split into different words."""
    backend = source.backend_tokenizer
    together = pre_tokenization(backend, "joined", [])
    return sum(pre_tokens(backend, text) != pre_tokens(together, text) for text in texts)


def code() -> list[str]:
    """The non-empty lines of the library's Python files; a few contain words with marks."""
    files = sorted((ROOT / "lexigraft").rglob("*.py"))
    return [line for file in files for line in sentences(str(file))]


def emoji() -> list[str]:
    """Each symbol of the emoji blocks: alone, as emoji (U+FE0F), with dark skin, and joined.

    One emoji, U+2139, has the category of a letter.
    """
    every = [chr(code) for block in EMOJI for code in range(*block)]
    symbols = [one for one in every if category(one)[0] == "S" or one == "\u2139"]
    return [
        text
        for one in symbols
        for text in (one, f"{one}\ufe0f", f" {one}\U0001f3ff", f"{one}\ufe0f\u200d\u2642\ufe0f")
    ] + [f"{digit}\ufe0f\u20e3" for digit in "0123456789#*"]


def joined(source: PreTrainedTokenizerFast, lines: list[str]) -> list[float]:
    """The share of sentences that joined marks alone tokenize differently, and token growth."""
    backend = source.backend_tokenizer
    together = pre_tokenization(backend, "joined", lines)

    def tokens(words: Tokenizer, line: str) -> list[int]:
        return [
            token.id for word in pre_tokens(words, line) for token in backend.model.tokenize(word)
        ]

    before, after = ([tokens(words, line) for line in lines] for words in (backend, together))
    changed = sum(one != two for one, two in zip(before, after, strict=True))
    growth = sum(map(len, after)) / sum(map(len, before)) - 1
    return [round(changed / len(lines), 5), round(growth, 5)]


def trained(train: list[str], heldout: list[str], superwords: float) -> list[float]:
    """Tokens per held-out sentence of a new tokenizer."""
    tokenizer = train_tokenizer(train, "byte-level-bpe", SIZE, superwords=superwords)
    metrics = measure_tokenizer(tokenizer, texts=heldout).metrics
    return [round(metrics["tokens_per_sentence"], 5)]


def sentences(file: str) -> list[str]:
    """The non-empty lines of a file."""
    return [line for line in Path(file).read_text(encoding="utf-8").split("\n") if line.strip()]


if __name__ == "__main__":
    main(*sys.argv[1:])
