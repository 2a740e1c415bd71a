"""Stage 3, vocabulary: the tokenizer of a cell, and what it is made from."""

import math
from collections.abc import Mapping
from typing import Any

from lexigraft.cells import SOURCE_VOCABULARY
from lexigraft.corpus.amounts import TextAmount
from lexigraft.evaluation.unspaced_scripts import UNSPACED_LANGUAGES
from lexigraft.settings import validate
from workflow.config.training_data import members
from workflow.config.vocabularies import is_taken, is_trained
from workflow.cost import ENGLISH
from workflow.inputs.corpus import texts_of
from workflow.inputs.rule import Output, Wildcards, output
from workflow.study import Study


def tokenizer(study: Study, wildcards: Wildcards) -> Output:
    """The tokenizer of a cell: the source model's, or the one that its vocabulary describes."""
    if wildcards["vocabulary"] == SOURCE_VOCABULARY:
        return output(study, "prepare_source", wildcards)
    return output(study, "build_vocabulary", wildcards)


def corpus(study: Study, wildcards: Wildcards) -> Output:
    """The texts of the corpus that the vocabulary names or, by default, of the cell's language."""
    return texts_of(study, _corpus(study, wildcards))


def settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The options of the vocabulary, without the corpus, which is an input."""
    return {key: value for key, value in _entry(study, wildcards).items() if key != "corpus"}


def taken(study: Study) -> list[str]:
    """The names of vocabularies that are the tokenizer of another model."""
    return [name for name, entry in study.config["vocabularies"].items() if is_taken(entry)]


def taken_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """Location and revision of another model's tokenizer."""
    entry = _entry(study, wildcards)
    if "plm" in entry:
        entry = study.config["languages"][wildcards["language"]]["plms"][entry["plm"]]
    return {
        "tokenizer": entry.get("tokenizer") or entry["model"],
        "revision": entry.get("revision"),
    }


def memory(study: Study, wildcards: Wildcards) -> int:
    """Megabytes for up to 50 MB of text, and for the words and their counts of larger corpora."""
    base, spaced, unspaced = 4000, 500, 3500
    if is_trained(_entry(study, wildcards)):
        base, unspaced = 8000, 1500
    return base + _for_large_text(study, wildcards, spaced, unspaced)


def minutes(study: Study, wildcards: Wildcards) -> int:
    """Minutes for up to 50 MB of text, and for larger corpora."""
    base, spaced, unspaced = 30, 6, 30
    if is_trained(_entry(study, wildcards)):
        base, unspaced = 60, 6
    return base + _for_large_text(study, wildcards, spaced, unspaced)


def corpus_amount(
    study: Study,
    language: str,
    entry: Mapping[str, Any],
    sentence_size: float,
    token_size: float,
) -> float:
    """The size of the corpus text that is read under the limit `text` of an entry, if it has one.

    The unit is that of `sentence_size` and `token_size`, the sizes of a sentence and of a token of
    the source: bytes or tokens.
    """
    corpus_size = study.cost_model.text(language).sentences * sentence_size
    if "text" not in entry:
        return corpus_size
    limit = validate(TextAmount, entry["text"], "text")
    languages = len(members(study.config, language))
    sentences = limit.sentences or languages * (limit.sentences_per_language or 0)
    tokens = limit.tokens or languages * (limit.tokens_per_language or 0)
    return min(corpus_size, sentences * sentence_size + tokens * token_size)


def _for_large_text(
    study: Study, wildcards: Wildcards, spaced_per_100_mb: int, unspaced_per_100_mb: int
) -> int:
    """The megabytes or minutes for text beyond the first 50 MB, by what 100 MB of text need.

    Text of unspaced scripts needs more, since each sentence counts as a word. The languages of a
    group have equal shares of the corpus.
    """
    language = _corpus(study, wildcards)
    text = study.cost_model.text(language)
    token_bytes = ENGLISH * text.bytes / text.characters
    size = corpus_amount(study, language, _entry(study, wildcards), text.bytes, token_bytes)
    parts = math.ceil(max(0.0, size - 5e7) / 1e8)
    names, languages = members(study.config, language), study.config["languages"]
    unspaced = sum(languages[name]["code"] in UNSPACED_LANGUAGES for name in names) / len(names)
    return round(parts * (unspaced * unspaced_per_100_mb + (1 - unspaced) * spaced_per_100_mb))


def _corpus(study: Study, wildcards: Wildcards) -> str:
    language: str = _entry(study, wildcards).get("corpus") or wildcards["language"]
    return language


def _entry(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    entry: dict[str, Any] = study.config["vocabularies"][wildcards["vocabulary"]]
    return entry
