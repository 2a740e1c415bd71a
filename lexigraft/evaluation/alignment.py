"""How well a recipe aligns two vocabularies: text in one is mapped token by token to the other.

UnifyVocab, sections 2.2 and B.4.
"""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.cards import versions
from lexigraft.auxiliary.sentence_encoder import SentenceEncoder
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.evaluation.texts import draw
from lexigraft.inference.generation import decode
from lexigraft.inference.text_encoding import tokenize
from lexigraft.initialization.recipe import DenseRows, Recipe
from lexigraft.initialization.storage import load_initialization
from lexigraft.source.model import open_tokenizer


def alignment_record(job: dict[str, Any]) -> dict[str, Any]:
    """The record of a fitted initializer, measured on held-out text.

    Keys of `job`: `settings`, the study's `alignment`; `inputs`, folders `source`, `tokenizer`,
    `initialization` and `corpus`, and `encoder` (see `SentenceEncoder`) or None; `cell`, the names
    that identify the initializer; `seed`, a list.
    """
    inputs, settings = job["inputs"], job["settings"]
    fitted = load_initialization(inputs["initialization"])
    metrics: dict[str, float | int] = {}
    details: dict[str, Any] = {
        "not_measured": "its rows are drawn at random: no source token corresponds to a new one"
    }
    if not isinstance(fitted, DenseRows):
        target = open_tokenizer(inputs["tokenizer"])
        ids = target.get_vocab()
        fallbacks = json.loads(Path(inputs["initialization"], "fallbacks.json").read_text("utf-8"))
        heldout = corpus_sentences(inputs["corpus"], "heldout")
        texts = draw(heldout, settings["sentences"], job, "heldout")
        described = inputs.get("encoder")
        encoder = SentenceEncoder(described, "alignment.encoder") if described else None
        metrics = alignment(
            open_tokenizer(inputs["source"]),
            target,
            fitted.recipe("input"),
            texts,
            fallbacks=[ids[token] for token in fallbacks],
            encoder=encoder,
        )
        details = {
            "sentences": len(texts),
            "fallbacks": len(fallbacks),
            "encoder": encoder and {"name": encoder.name, "revision": encoder.revision},
        }
    return {
        **job["cell"],
        "metrics": metrics,
        "details": details,
        "settings": settings,
        "seed": job["seed"],
        "versions": versions(),
    }


def alignment(
    source: PreTrainedTokenizerFast,
    target: PreTrainedTokenizerFast,
    recipe: Recipe,
    texts: Sequence[str],
    *,
    fallbacks: Collection[int] = (),
    encoder: SentenceEncoder | None = None,
) -> dict[str, float | int]:
    """Measure how much of a text is preserved when a recipe maps its target tokens to the source.

    Each target token of `texts`, on which nothing was fitted, is replaced by the source token with
    the highest weight in its row (as in the paper's published code; its text describes the reverse
    direction), and the result is compared with the source tokenizer's tokens.

    From 0 to 100: `bleu` and `bleu_1` over all token ids (n-grams up to 4, and single tokens;
    brevity penalty, no smoothing), and `bleu_sentence_mean`, the mean over texts that the paper's
    code reports. From 0 to 1: `vocabulary_coverage` and `text_coverage`, the shares of target
    tokens and of the tokens of the text that are not `fallbacks`; and with an encoder
    `semantic_similarity`, the mean cosine similarity of each text and its mapped tokens, decoded.
    Raises `UserError` if there are no texts.
    """
    if not texts:
        raise UserError(
            "heldout.txt: empty; alignment is measured on this text; give the language more text"
        )
    references = list(tokenize(source, texts))
    target_ids = list(tokenize(target, texts))
    used = np.unique(np.fromiter((token for ids in target_ids for token in ids), dtype=np.int64))
    source_of = dict(zip(used.tolist(), recipe.heaviest(used).tolist(), strict=True))
    mapped = [[source_of[token] for token in ids] for ids in target_ids]
    uncovered = set(fallbacks)
    tokens = sum(map(len, target_ids))
    uncovered_tokens = sum(token in uncovered for ids in target_ids for token in ids)
    text_outputs, text_references = ([[ids] for ids in texts] for texts in (mapped, references))
    metrics: dict[str, float | int] = {
        "bleu": bleu(mapped, references),
        "bleu_1": bleu(mapped, references, order=1),
        # As corpora of one text: sacrebleu's sentence score requires `effective_order`.
        "bleu_sentence_mean": float(np.mean([*map(bleu, text_outputs, text_references)])),
        "vocabulary_coverage": 1 - len(uncovered) / len(target.get_vocab()),
        "text_coverage": 1 - uncovered_tokens / max(tokens, 1),
    }
    if encoder is not None:
        vectors, mapped_vectors = encoder.vectors(texts), encoder.vectors(decode(source, mapped))
        metrics["semantic_similarity"] = float((vectors * mapped_vectors).sum(axis=1).mean())
    return metrics


def bleu(
    outputs: Sequence[Sequence[int]], references: Sequence[Sequence[int]], order: int = 4
) -> float:
    """BLEU of token ids, 0 to 100: n-gram counts of all texts pooled, no smoothing."""
    # Ids serve as words, so nothing is tokenized; `force` silences a warning about that.
    metric = BLEU(tokenize="none", smooth_method="none", max_ngram_order=order, force=True)
    actual, expected = (
        [" ".join(map(str, ids)) for ids in texts] for texts in (outputs, references)
    )
    return metric.corpus_score(actual, [expected]).score
