"""How well a recipe aligns two vocabularies: text of one, mapped token by token to the other.

Paper 003, sections 2.2 and B.4.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lexigraft.errors import UserError
from lexigraft.evaluation.encoding import plain_ids
from lexigraft.evaluation.similarity import SentenceEncoder
from lexigraft.inference.generation import decode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from lexigraft.initialization.recipe import Recipe

_ORDER = 4  # BLEU's longest n-gram


def alignment(
    source: "PreTrainedTokenizerFast",
    target: "PreTrainedTokenizerFast",
    recipe: "Recipe",
    texts: Sequence[str],
    *,
    fallbacks: Collection[int] = (),
    encoder: SentenceEncoder | None = None,
) -> dict[str, float | int]:
    """Measure how much of a text survives when the recipe renames its tokens.

    The text is cut by both tokenizers. Each target token is then replaced by the source token that
    its row leans on most, and what comes out is compared with the source's own tokens. The paper's
    text describes the mapping from source to target, its published code this one, which is the
    direction in which rows are made: every target token has a source token, and not every source
    token has a target token.

    Parameters
    ----------
    source, target
        The tokenizers that the recipe was made for.
    texts
        Sentences that nothing was fitted on.
    fallbacks
        Ids of target tokens that no rule of the method covers.
    encoder
        Turns texts into vectors; without one there is no `semantic_similarity`.

    Returns
    -------
    dict
        On the scale 0 to 100: `bleu` and `bleu_1` over the token ids of the whole text (n-grams up
        to 4, and single tokens; counts pooled, brevity penalty, no smoothing), and
        `bleu_sentence_mean`, the mean over texts that the paper's code reports, where a text with
        no four tokens in a row in common scores 0. From 0 to 1: `vocabulary_coverage`, the share
        of target tokens that copy a source token or that a rule of the method makes;
        `text_coverage`, the same of the text's tokens; `semantic_similarity`, the mean cosine of
        the vectors of each text and of its renamed tokens as text.

    Raises
    ------
    UserError
        There are no texts.
    """
    if not texts:
        raise UserError("heldout.txt: empty; alignment is measured on text, so give it more")
    references = list(plain_ids(source, texts))
    cut = list(plain_ids(target, texts))
    used = np.unique(np.fromiter((token for ids in cut for token in ids), dtype=np.int64))
    renamed = dict(zip(used.tolist(), heaviest(recipe, used).tolist(), strict=True))
    mapped = [[renamed[token] for token in ids] for ids in cut]
    lost = set(fallbacks)
    tokens = sum(map(len, cut))
    metrics: dict[str, float | int] = {
        "bleu": bleu(mapped, references),
        "bleu_1": bleu(mapped, references, order=1),
        "bleu_sentence_mean": bleu_sentence_mean(mapped, references),
        "vocabulary_coverage": 1 - len(lost) / len(target.get_vocab()),
        "text_coverage": 1 - sum(token in lost for ids in cut for token in ids) / max(tokens, 1),
    }
    if encoder is not None:
        metrics["semantic_similarity"] = encoder.similarity(texts, decode(source, mapped))
    return metrics


def heaviest(recipe: "Recipe", ids: np.ndarray) -> np.ndarray:
    """The source token that each target token's row leans on most; of equals the lowest id.

    Parameters
    ----------
    ids
        Target ids [n].

    Returns
    -------
    ndarray
        Source ids [n], int64.
    """
    found = recipe.copied[ids]
    mixed = np.flatnonzero(found < 0)
    for block in recipe.row_blocks(ids[mixed]):
        rows = recipe.rows(ids[mixed[block]])
        for place, at, end in zip(mixed[block], rows.indptr, rows.indptr[1:], strict=False):
            found[place] = rows.indices[at + rows.data[at:end].argmax()]
    return found


def bleu(
    outputs: Iterable[Sequence[int]], references: Iterable[Sequence[int]], order: int = _ORDER
) -> float:
    """BLEU of token ids, 0 to 100: n-gram counts of all texts pooled, no smoothing."""
    return _metric(order).corpus_score(_spelled(outputs), [_spelled(references)]).score


def bleu_sentence_mean(
    outputs: Iterable[Sequence[int]], references: Iterable[Sequence[int]]
) -> float:
    """Mean of BLEU of each text by itself, 0 to 100, no smoothing."""
    metric = _metric(_ORDER)
    pairs = zip(_spelled(outputs), _spelled(references), strict=True)
    # As corpora of one text: for sentences sacrebleu asks to be told to count shorter n-grams only.
    return float(np.mean([metric.corpus_score([one], [[other]]).score for one, other in pairs]))


def _metric(order: int):
    from sacrebleu.metrics.bleu import BLEU

    # Ids are words here, and there is nothing to tokenize; `force` silences a warning about that.
    return BLEU(tokenize="none", smooth_method="none", max_ngram_order=order, force=True)


def _spelled(texts: Iterable[Sequence[int]]) -> list[str]:
    return [" ".join(map(str, ids)) for ids in texts]
