"""Stage 3, vocabulary: the tokenizer of a cell, and what it is made from."""

import math
from typing import Any

from lexigraft.cells import SOURCE_VOCABULARY
from lexigraft.evaluation.unspaced_scripts import UNSPACED_LANGUAGES
from lexigraft.settings import plain
from workflow.config.vocabularies import (
    TAKEN,
    ModelReplacement,
    TakenReplacement,
    TrainedReplacement,
)
from workflow.cost import ENGLISH, cost_model
from workflow.inputs.corpus import texts_of
from workflow.inputs.rule import Output, Wildcards, output
from workflow.study import Study, corpus_of


def tokenizer(study: Study, wildcards: Wildcards) -> Output:
    """The tokenizer of a cell: the source model's, or the one that its vocabulary describes."""
    is_source = wildcards["vocabulary"] == SOURCE_VOCABULARY
    return output(study, "prepare_source" if is_source else "build_vocabulary", wildcards)


def corpus(study: Study, wildcards: Wildcards) -> Output:
    """The texts of the corpus that the vocabulary names or, by default, of the cell's language."""
    return texts_of(study, _corpus(study, wildcards))


def settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The options of the vocabulary for a source and a language, without the corpus, an input."""
    entry = plain(study.vocabularies[wildcards["vocabulary"]])
    entry.pop("corpus", None)
    if wildcards["language"] in entry.pop("tokenizers_for", {}).get(wildcards["source"], ()):
        entry["auxiliary_trainer"] = "tokenizers"
    return entry


def taken(study: Study) -> list[str]:
    """The names of vocabularies that are the tokenizer of another model."""
    return [name for name, entry in study.vocabularies.items() if isinstance(entry, TAKEN)]


def taken_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """Location and revision of another model's tokenizer."""
    entry = study.vocabularies[wildcards["vocabulary"]]
    if isinstance(entry, TakenReplacement):
        return {"tokenizer": entry.tokenizer, "revision": entry.revision}
    assert isinstance(entry, ModelReplacement)
    model = study.languages[wildcards["language"]].plms[entry.plm]
    return {"tokenizer": model.model, "revision": model.revision}


def memory(study: Study, wildcards: Wildcards) -> int:
    """Megabytes for up to 50 MB of text, and for the words and their counts of larger corpora."""
    trained = isinstance(study.vocabularies[wildcards["vocabulary"]], TrainedReplacement)
    return _for_text(study, wildcards, *((8000, 500, 1500) if trained else (4000, 500, 3500)))


def minutes(study: Study, wildcards: Wildcards) -> int:
    """Minutes for up to 50 MB of text, and for larger corpora."""
    trained = isinstance(study.vocabularies[wildcards["vocabulary"]], TrainedReplacement)
    return _for_text(study, wildcards, *((60, 6, 6) if trained else (30, 6, 30)))


def corpus_amount(
    study: Study,
    language: str,
    entry: Any,
    sentence_size: float,
    token_size: float,
) -> float:
    """The size of the corpus text that is read under the limit `text` of an entry, if it has one.

    The unit is that of `sentence_size` and `token_size`, the sizes of a sentence and of a token of
    the source: bytes or tokens.
    """
    corpus_size = cost_model(study).text(language).sentences * sentence_size
    if (limit := getattr(entry, "text", None)) is None:
        return corpus_size
    languages = len(study.members(language))
    sentences = limit.sentences or languages * (limit.sentences_per_language or 0)
    per_language = limit.tokens_per_language or getattr(limit, "target_tokens_per_language", None)
    tokens = limit.tokens or languages * (per_language or 0)
    return min(corpus_size, sentences * sentence_size + tokens * token_size)


def _for_text(
    study: Study, wildcards: Wildcards, base: int, spaced_per_100_mb: int, unspaced_per_100_mb: int
) -> int:
    """The megabytes or minutes for text, by what 100 MB beyond the first 50 MB need.

    Text of unspaced scripts needs more, since each sentence counts as a word. The languages of a
    group have equal shares of the corpus.
    """
    language = _corpus(study, wildcards)
    text, entry = cost_model(study).text(language), study.vocabularies[wildcards["vocabulary"]]
    size = corpus_amount(study, language, entry, text.bytes, ENGLISH * text.bytes / text.characters)
    parts = math.ceil(max(0.0, size - 5e7) / 1e8)
    codes = [study.languages[name].code for name in study.members(language)]
    unspaced = sum(code in UNSPACED_LANGUAGES for code in codes) / len(codes)
    per_part = unspaced * unspaced_per_100_mb + (1 - unspaced) * spaced_per_100_mb
    return base + round(parts * per_part)


def _corpus(study: Study, wildcards: Wildcards) -> str:
    return corpus_of(study.vocabularies[wildcards["vocabulary"]]) or wildcards["language"]
