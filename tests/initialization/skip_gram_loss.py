"""Skip-gram with negative sampling by definition, pair by pair."""

from collections import Counter

import numpy as np


def pairs_by_definition(sentences, window):
    """All (centre, context) of token ids."""
    return [
        (int(centre), int(context))
        for ids in sentences
        for i, centre in enumerate(ids)
        for j, context in enumerate(ids)
        if i != j and abs(i - j) <= window
    ]


def minus_log_sigmoid(score):
    """-log σ(score)."""
    return np.log1p(np.exp(-score))


def loss_by_definition(sentences, window, negatives, score, loss=minus_log_sigmoid):
    """Mikolov et al. 2013, equation 4, a mean over the pairs, the noise in full.

    `score` is indexed by token ids.
    """
    pairs = Counter(pairs_by_definition(sentences, window))
    tokens, counts = np.unique(np.concatenate(sentences), return_counts=True)
    noise = counts**0.75 / (counts**0.75).sum()
    total = 0.0
    for (centre, context), times in pairs.items():
        others = tokens != context
        far = noise[others] @ loss(-score[centre, tokens[others]])
        total += times * (loss(score[centre, context]) + negatives * far)
    return total / pairs.total()
