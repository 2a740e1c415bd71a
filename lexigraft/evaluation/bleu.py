"""BLEU of a set of translations, by sacrebleu, with the tokenizer that fits the language."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lexigraft.evaluation.pairs import check_pairs
from lexigraft.evaluation.unspaced_scripts import LANGUAGES

if TYPE_CHECKING:
    import numpy as np

_LONGEST = 4  # n-grams of tokens up to this length


class Bleu(NamedTuple):
    """BLEU on the scale 0 to 100; `signature` is sacrebleu's, which names the tokenizer."""

    corpus: float
    signature: str


def bleu(predictions: Sequence[str], references: Sequence[str], language: str | None) -> Bleu:
    """Score translations against one reference each.

    Tokens are those of sacrebleu's `13a`, the default of the field; of Chinese those of its `zh`;
    of other languages that are written without spaces its characters, which needs no dictionary.

    Parameters
    ----------
    language
        ISO 639 code of the translations; None takes the default.

    Raises
    ------
    ValueError
        There is nothing to score, or the lengths differ.
    """
    from sacrebleu.metrics.bleu import BLEU

    check_pairs(predictions, references)
    metric = BLEU(tokenize=_tokenizer(language))
    score = metric.corpus_score(list(predictions), [list(references)]).score
    return Bleu(score, metric.get_signature().format())


def bleu_statistics(
    predictions: Sequence[str], references: Sequence[str], signature: str
) -> list[list[int]]:
    """Sufficient statistics of each sentence: [sentences, 10].

    Tokens of the prediction and of the reference; then n-grams of length 1 to 4 that both have, and
    those of the prediction.

    Parameters
    ----------
    signature
        Of the score (`Bleu.signature`): it names the tokenizer.
    """
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=dict(part.split(":") for part in signature.split("|"))["tok"])
    scores = (
        metric.corpus_score([output], [[reference]])
        for output, reference in zip(predictions, references, strict=True)
    )
    return [[one.sys_len, one.ref_len, *one.counts, *one.totals] for one in scores]


def bleu_score(totals: "np.ndarray") -> "np.ndarray":
    """BLEU, 0 to 100, of summed statistics: [..., 10] -> [...] (Papineni et al. 2002).

    For a bootstrap, which needs thousands of scores at once. As in sacrebleu, each length without a
    match counts half as much as the one before would with one match (smoothing `exp`).
    """
    import numpy as np

    ours, theirs = totals[..., 0], totals[..., 1]
    correct, every = totals[..., 2 : 2 + _LONGEST], totals[..., 2 + _LONGEST :]
    logarithms, halves = np.zeros(ours.shape), np.ones(ours.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for at in range(_LONGEST):
            matches, grams = correct[..., at], every[..., at]
            halves = np.where((matches == 0) & (grams > 0), 2 * halves, halves)
            logarithms += np.log(np.where(matches > 0, matches, 1 / halves) / grams)
        brevity = np.where(ours < theirs, np.exp(1 - theirs / ours), 1.0)
        score = 100 * brevity * np.exp(logarithms / _LONGEST)
    # Without a single match, or without an n-gram of each length, there is no score.
    counted = (correct > 0).any(axis=-1) & (every > 0).all(axis=-1)
    return np.where(counted, score, 0.0)


def _tokenizer(language: str | None) -> str:
    if language == "zh":
        return "zh"
    # Of a script without spaces words would be whole clauses, so characters count.
    return "char" if language in LANGUAGES else "13a"
