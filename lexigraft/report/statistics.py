"""Sufficient statistics of corpus scores: what is summed over examples, and the score of the sum.

Scores are computed here and not by sacrebleu or seqeval because a bootstrap needs thousands of
them: each function scores all resamples at once. Tests hold them against those libraries.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lexigraft.report.bootstrap import Score

if TYPE_CHECKING:
    import numpy as np

_CHARACTERS = 6  # chrF: character n-grams up to this length
_BETA = 2
_TOKENS = 4  # BLEU: n-grams of tokens up to this length
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def chrf_statistics(output: str, reference: str, words: int = 0) -> list[int]:
    """For each length 1 to 6: n-grams of the output, of the reference, and matches: [18].

    White space does not count. As in sacrebleu, an output's n-grams count only where the reference
    is long enough to have any. `words` 2 adds words and pairs of words, as chrF++ does: [24].
    """
    ours, theirs = "".join(output.split()), "".join(reference.split())
    found = []
    for length in range(1, _CHARACTERS + 1):
        found += _matches(_grams(ours, length), _grams(theirs, length))
    for length in range(1, words + 1):
        found += _matches(*(_grams(_words(text), length) for text in (output, reference)))
    return found


def chrf_score(totals: "np.ndarray") -> "np.ndarray":
    """chrF or chrF++, 0 to 100, of summed statistics: [..., 18 or 24] -> [...].

    Precision and recall are averaged over the lengths that output and reference both have, then
    joined with recall weighing twice as much (Popović 2015, 2017).
    """
    import numpy as np

    ours, theirs, matches = np.moveaxis(totals.reshape(*totals.shape[:-1], -1, 3), -1, 0)
    usable = (ours > 0) & (theirs > 0)
    orders = np.maximum(usable.sum(axis=-1), 1)
    one = np.ones_like(ours)
    precision = (matches / np.where(usable, ours, one) * usable).sum(axis=-1) / orders
    recall = (matches / np.where(usable, theirs, one) * usable).sum(axis=-1) / orders
    below = _BETA**2 * precision + recall
    return 100 * (1 + _BETA**2) * precision * recall / np.where(below > 0, below, 1)


def bleu_statistics(output: str, reference: str, tokenize: Callable[[str], str]) -> list[int]:
    """Tokens of the output and of the reference, then matches and n-grams of length 1 to 4: [10].

    Parameters
    ----------
    tokenize
        One of sacrebleu's tokenizers: puts spaces between tokens.
    """
    ours, theirs = (tokenize(text.rstrip()).split() for text in (output, reference))
    found = [len(ours), len(theirs)]
    for length in range(1, _TOKENS + 1):
        grams, known = _grams(ours, length), _grams(theirs, length)
        found += [sum(min(count, known[gram]) for gram, count in grams.items()), grams.total()]
    return found


def bleu_score(totals: "np.ndarray") -> "np.ndarray":
    """BLEU, 0 to 100, of summed statistics: [..., 10] -> [...] (Papineni et al. 2002).

    As sacrebleu's: each length without a match counts half as much as the one before would have
    with one match (smoothing `exp`).
    """
    import numpy as np

    ours, theirs = totals[..., 0], totals[..., 1]
    logarithms, halves = np.zeros(ours.shape), np.ones(ours.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for at in range(2, 2 + 2 * _TOKENS, 2):
            matches, grams = totals[..., at], totals[..., at + 1]
            halves = np.where((matches == 0) & (grams > 0), 2 * halves, halves)
            logarithms += np.log(np.where(matches > 0, matches, 1 / halves) / grams)
        brevity = np.where(ours < theirs, np.exp(1 - theirs / ours), 1.0)
        score = 100 * brevity * np.exp(logarithms / _TOKENS)
    # Without a single match, or without a gram of each length, there is no score.
    counted = (totals[..., 2::2] > 0).any(axis=-1) & (totals[..., 3::2] > 0).all(axis=-1)
    return np.where(counted, score, 0.0)


def entity_statistics(found: str, expected: str) -> list[int]:
    """Entities that were found, that are there, and that are both: [3]. Tags by spaces."""
    from seqeval.metrics.sequence_labeling import get_entities

    ours, theirs = ({*get_entities(tags.split())} for tags in (found, expected))
    return [len(ours), len(theirs), len(ours & theirs)]


def f1_score(totals: "np.ndarray") -> "np.ndarray":
    """F1 of entities, 0 to 100, of summed statistics: [..., 3] -> [...]; 0 where there are none."""
    import numpy as np

    ours, theirs, both = np.moveaxis(totals, -1, 0)
    return 200 * both / np.maximum(ours + theirs, 1)


def mean_score(totals: "np.ndarray") -> "np.ndarray":
    """The mean of sentence scores: [..., 2] -> [...]; missing where nothing was drawn."""
    import numpy as np

    return np.divide(
        totals[..., 0], totals[..., 1],
        out=np.full(totals.shape[:-1], np.nan), where=totals[..., 1] > 0,
    )  # fmt: skip


def bits_score(totals: "np.ndarray") -> "np.ndarray":
    """Bits per byte of summed nats and bytes: [..., 2] -> [...]."""
    import numpy as np

    return mean_score(totals) / np.log(2)


def perplexity_score(totals: "np.ndarray") -> "np.ndarray":
    """Perplexity of summed nats and tokens: [..., 2] -> [...]."""
    import numpy as np

    with np.errstate(over="ignore"):
        return np.exp(mean_score(totals))


def mean_of(score: Score, tests: int) -> Score:
    """The mean of a score over tests, from statistics side by side: [..., tests * n] -> [...]."""

    def mean(totals: "np.ndarray") -> "np.ndarray":
        return score(totals.reshape(*totals.shape[:-1], tests, -1)).mean(axis=-1)

    return mean


def _matches(ours: Counter, theirs: Counter) -> list[int]:
    """Counts of both, and of what they share."""
    return [
        ours.total() if theirs else 0,
        theirs.total(),
        sum(min(count, theirs[gram]) for gram, count in ours.items() if gram in theirs),
    ]


def _grams(text: str | Sequence[str], length: int) -> Counter:
    """N-grams of characters, or of words."""
    parts = (text[at : at + length] for at in range(len(text) - length + 1))
    return Counter(parts if isinstance(text, str) else map(tuple, parts))


def _words(text: str) -> list[str]:
    """Words, and the punctuation mark at the end or else at the beginning of each by itself."""
    found = []
    for word in text.split():
        if len(word) == 1:
            found.append(word)
        elif word[-1] in _PUNCTUATION:
            found += [word[:-1], word[-1]]
        elif word[0] in _PUNCTUATION:
            found += [word[0], word[1:]]
        else:
            found.append(word)
    return found
