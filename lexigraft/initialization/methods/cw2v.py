"""Constrained Word2Vec: skip-gram whose new rows stay in the convex hull of the source rows.

Paper 004, sections 3.4 and 4.5.
"""

import logging
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.convex_rows import heaviest
from lexigraft.initialization.decomposition import decompose, mean_rows
from lexigraft.initialization.fallback import with_fallback
from lexigraft.initialization.matrix import Matrix, check_matrix
from lexigraft.initialization.options import above_zero, whole
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.recipe_pair import RecipePairInitializer
from lexigraft.initialization.skip_gram import Text
from lexigraft.initialization.skip_gram_training import Learned, Settings, train
from lexigraft.initialization.target_text import encoded, monitored_apart

logger = logging.getLogger(__name__)

_STARTS = ("mean-of-all", "mean")
_SPREAD = 0.1  # of a start from `mean`: the part of a row that is spread over all source tokens


class Cw2V(RecipePairInitializer):
    """`E_new = softmax(A) E`, with `A` learned by skip-gram with negative sampling.

    Words are the tokens of the corpus, cut by the target tokenizer; their vectors are input rows,
    their context vectors output rows (of a tied model the same matrix, with two recipes, of which
    it gets the `input`). Rows of source tokens are fixed; of each new token's rows the weights on
    the source tokens are learned, by Adam. Special tokens take no part. `auxiliary` brings the
    source's `matrices`, and may bring a `dictionary`, pairs of an English word and its
    translation, each of which is a sentence of the text.

    A recipe is stored as the `keep` heaviest source tokens of a row and, for all others together,
    a share of the mean of all source tokens. Every twentieth sentence (of a text with twenty) is
    not learned from; the loss is watched on it.

    A new token that the text never shows beside another falls back to the mean of its source
    pieces, and one of which the source knows no piece to the mean of all source tokens.

    Parameters
    ----------
    window
        Neighbours on either side, at most.
    negatives
        Noise tokens for each pair of neighbours, drawn by their counts to the power of 3/4.
    rank
        Width of the two factors of `A`.
    epochs
        Passes over the text; the paper does not say, its code takes 5.
    learning_rate
        Adam's; the paper does not say, its code takes 3e-4.
    batch_tokens
        Tokens of the text in one update.
    start
        What a row is before training: `mean-of-all` source tokens, or nine tenths the `mean` of its
        source pieces. The paper does not say.
    keep
        Source tokens of a row that are stored one by one, for each matrix.

    Attributes
    ----------
    losses_ : list of float
        The watched loss, per pair of neighbours, before training and after each epoch.
    """

    reads = ("matrices", "dictionary")
    losses_: list[float]
    _moved: float
    _speed: float | None

    def __init__(
        self,
        window: int = 10,
        negatives: int = 5,
        rank: int = 1024,
        epochs: int = 5,
        learning_rate: float = 3e-4,
        batch_tokens: int = 256,
        start: str = "mean-of-all",
        keep: int = 256,
    ) -> None:
        self.settings = Settings(
            window=whole("cw2v", "window", window),
            negatives=whole("cw2v", "negatives", negatives),
            rank=whole("cw2v", "rank", rank),
            epochs=whole("cw2v", "epochs", epochs, lowest=0),
            learning_rate=above_zero("cw2v", "learning_rate", learning_rate),
            batch_tokens=whole("cw2v", "batch_tokens", batch_tokens),
        )
        if start not in _STARTS:
            raise UserError(
                f"option 'start' of initializer 'cw2v': {start!r} is none of {', '.join(_STARTS)}"
            )
        self.start = start
        self.keep = whole("cw2v", "keep", keep)

    def statistics(self) -> dict[str, Any]:
        """What both recipes count; loss before and after training, and its speed; what was rounded.

        `moved_weight` is the part of a row's weight that the stored recipes have on other source
        tokens than what was learned, the mean over rows and matrices.
        """
        own: dict[str, Any] = {"epochs": self.settings.epochs, "moved_weight": self._moved}
        own |= {"loss_before": None, "loss_after": None, "tokens_per_second": self._speed}
        if self.losses_:
            own |= {"loss_before": self.losses_[0], "loss_after": self.losses_[-1]}
        return {**super().statistics(), **own}

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[dict[str, csr_array], np.ndarray]:
        matrices = _matrices(auxiliary, pair)
        if corpus is None:
            raise UserError("initializer 'cw2v': it needs a corpus; call fit(…, corpus=sentences)")
        words = (f"{english} {word}" for english, word in auxiliary.get("dictionary", ()))
        sentences = list(encoded(pair.target_tokenizer, chain(corpus, words)))
        text, watched = (Text.of(part) for part in monitored_apart(sentences))
        beside, _ = text.neighbours(np.arange(len(text.tokens)), 1)
        seen = np.intersect1d(text.tokens[beside], pair.new_ids)
        if not len(seen):
            logger.warning("the text shows no new token beside another; nothing is learned")
            self.losses_, self._moved, self._speed = [], 0.0, None
            rows, missing = with_fallback(pair, seen, *_nothing())
            return {"input": rows, "output": rows}, missing
        draws = self._draws("training")
        start = self._start(pair)
        learned = train(pair, matrices, text, watched, start, self.settings, draws)
        self.losses_, self._speed = learned.losses, learned.tokens_per_second
        return self._stored(pair, learned, seen)

    def _start(self, pair: VocabularyPair) -> csr_array:
        """Logits [len(new_ids), number of source tokens] to start from, zero where not stored."""
        s = len(pair.source_ids)
        if self.start == "mean-of-all":
            return csr_array((len(pair.new_ids), s))
        means = mean_rows(decompose(pair, pair.new_ids.tolist()), pair.n_source)
        means = csr_array(means[:, pair.source_ids])  # without the mean of all, which is zero
        means.data = np.log1p((1 - _SPREAD) * means.data * s / _SPREAD)
        return means

    def _stored(
        self, pair: VocabularyPair, learned: Learned, seen: np.ndarray
    ) -> tuple[dict[str, csr_array], np.ndarray]:
        """Recipe rows of both matrices, and which new tokens fell back."""
        rows, moved, missing = {}, [], np.zeros(0, dtype=bool)
        for which in ("input", "output"):
            at, columns, values = [], [], []
            for block, weights in learned.weights(which, np.searchsorted(pair.new_ids, seen)):
                heavy, kept, on_all, distance = heaviest(weights, self.keep)
                token = np.searchsorted(seen, pair.new_ids[block])
                at += [np.repeat(token, heavy.shape[1]), token]
                columns += [pair.source_ids[heavy].ravel(), np.full(len(block), pair.n_source)]
                values += [kept.ravel(), on_all]
                moved += [distance] * len(block)
            parts = [np.concatenate(part) for part in (at, columns, values)]
            some = parts[2] > 0
            rows[which], missing = with_fallback(pair, seen, *(part[some] for part in parts))
        self._moved = float(np.mean(moved))
        return rows, missing


def _matrices(auxiliary: Roles, pair: VocabularyPair) -> dict[str, Matrix]:
    """Input and output matrix; of a tied model one and the same."""
    given = auxiliary.get("matrices")
    if not given or "input" not in given:
        raise UserError(
            "initializer 'cw2v': it learns from the source's matrices; call fit(…, auxiliary="
            "{'matrices': {'input': …}}) with, unless tied, an 'output' too"
        )
    matrices = {"input": given["input"], "output": given.get("output", given["input"])}
    for matrix in matrices.values():
        check_matrix(matrix, pair.n_source)
    return matrices


def _nothing() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
