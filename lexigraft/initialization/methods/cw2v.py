"""CW2V, Constrained Word2Vec: skip-gram whose new rows stay in the convex hull of source rows."""

import logging
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.decomposition import decompose, mean_rows, rows_with_fallback
from lexigraft.initialization.inputs import required_corpus, required_matrices
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.options import boolean, choice, integer, number, positive
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.skip_gram import ConvexRows, TokenStream, train, truncate_weights
from lexigraft.initialization.training_text import tokenized_sentences, validation_split

logger = logging.getLogger(__name__)

_SPREAD_SHARE = 0.1  # share of a row that `start: mean` spreads over all source tokens


class CW2V(RecipeInitializer):
    """`E_new = softmax(A) E`, with `A` trained by skip-gram with negative sampling [1]_.

    Words are the target tokens of the corpus; their vectors are input rows, their context vectors
    output rows (in a tied model the same matrix, with two recipes, of which it gets `input`). Rows
    of source tokens are fixed. A new token that never occurs next to another token falls back.
    `auxiliary` holds the source's `matrices` and optionally a `dictionary`, whose entries are added
    to the text as sentences. Every twentieth sentence is held out for `losses_`: the validation
    loss per pair of tokens, before training and after each epoch.

    Parameters
    ----------
    window
        Maximum number of context tokens on either side.
    negatives
        Noise tokens per pair of tokens, sampled by their counts to the power of 3/4.
    rank
        Rank of `A`: width of its two factors.
    epochs, learning_rate, weight_decay
        Settings of Adam. The published code uses 5, 3e-4 and, for RoBERTa, 0.001; the paper gives
        no values.
    batch_tokens
        Number of centres per update.
    subsampling
        A token that occurs more often than this is a centre with probability √(subsampling /
        count); the published code uses 2, and 1 for RoBERTa. None: every token is a centre.
    start
        Initial row: the `mean-of-all` source tokens, or 0.1 times this plus 0.9 times the `mean` of
        the source pieces. The paper does not specify it.
    keep
        Number of weights per row and matrix that are stored individually, the largest ones; all
        others are replaced by a weight on the mean of all source tokens.
    basis
        The source tokens whose rows are mixed: all (`source`), or those that the target shares
        (`shared`), as for RoBERTa in the paper (appendix E); "all source tokens" are then these.
    one_recipe
        Whether centres and contexts have the same `A`, as for RoBERTa; for tied matrices only.

    References
    ----------
    .. [1] Mundra et al. 2024 (CW2V), "An Empirical Comparison of Vocabulary Expansion and
       Initialization Approaches for Language Models", sections 3.4 and 4.5.
    """

    title = "CW2V"
    reads = ("matrices", "dictionary")
    window: int = integer(10)
    negatives: int = integer(5)
    rank: int = integer(1024)
    epochs: int = integer(5, minimum=0)
    learning_rate: float = positive(3e-4)
    weight_decay: float = number(0.0)
    batch_tokens: int = integer(256)
    subsampling: float | None = positive(None)
    start: str = choice("mean-of-all", "mean")
    keep: int = integer(256)
    basis: str = choice("source", "shared")
    one_recipe: bool = boolean(False)

    def statistics(self) -> dict[str, Any]:
        """Statistics of both recipes, losses and speed of training, and the effect of `keep`."""
        return {
            **super().statistics(),
            "epochs": self.epochs,
            "trained_parameters": self._parameters,
            "moved_weight": self._moved,
            "loss_before": self.losses_[0] if self.losses_ else None,
            "loss_after": self.losses_[-1] if self.losses_ else None,
            "tokens_per_second": self._speed,
        }

    def _new_rows(
        self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries
    ) -> tuple[csr_array | dict[str, csr_array], np.ndarray]:
        matrices = required_matrices(self.name, pair, auxiliary)
        if self.one_recipe and matrices["input"] is not matrices["output"]:
            raise UserError(
                "option 'one_recipe' of initializer 'cw2v': input and output matrix are not tied; "
                "set it to false"
            )
        if self.basis == "shared":
            shared = np.intersect1d(pair.source_ids, pair.source_of)
            pair = self.pair_ = replace(pair, source_ids=shared)
        corpus = required_corpus(self.name, corpus)
        entries = (f"{english} {word}" for english, word in auxiliary.get("dictionary", ()))
        sentences = list(tokenized_sentences(pair.target_tokenizer, chain(corpus, entries)))
        text, validation = map(TokenStream.from_sentences, validation_split(sentences))
        has_neighbour = np.bincount(text.sentence)[text.sentence] > 1
        trained_ids = np.intersect1d(text.tokens[has_neighbour], pair.new_ids)
        self.losses_: list[float] = []
        self._moved, self._speed, self._parameters = 0.0, None, 0
        if not len(trained_ids):
            logger.warning("no new token occurs next to another in the text; nothing is trained")
            return rows_with_fallback(pair, trained_ids, trained_ids, np.zeros(0))
        initial_logits, rng = self._initial_logits(pair), self._generator("training")
        trained, self.losses_, self._speed = train(
            pair, matrices, text, validation, initial_logits, rng, self
        )
        factors = [(rows.left, rows.right) for rows in trained.values()]
        self._parameters = sum(factor.numel() for pair in factors for factor in pair)
        rows, is_missing = self._truncated_rows(pair, trained, trained_ids)
        return rows["input"] if self.one_recipe else rows, is_missing

    def _initial_logits(self, pair: VocabularyPair) -> csr_array:
        """Initial logits [len(new_ids), number of source tokens], zero where not stored."""
        n_source = len(pair.source_ids)
        if self.start == "mean-of-all":
            return csr_array((len(pair.new_ids), n_source))
        means = mean_rows(decompose(pair, pair.new_ids.tolist()), pair.n_source)
        means = csr_array(means[:, pair.source_ids])  # drop the mean of all: its logits are zero
        means.data = np.log1p((1 - _SPREAD_SHARE) * means.data * n_source / _SPREAD_SHARE)
        return means

    def _truncated_rows(
        self, pair: VocabularyPair, trained: dict[str, ConvexRows], trained_ids: np.ndarray
    ) -> tuple[dict[str, csr_array], np.ndarray]:
        """Recipe rows of both matrices with the largest weights, and which new tokens fell back."""
        rows, moved_shares, is_missing = {}, [], np.zeros(0, dtype=bool)
        for which, convex in trained.items():
            tokens, columns, values = [], [], []
            for block, weights in convex.weights(np.searchsorted(pair.new_ids, trained_ids)):
                largest, largest_weights, mean_weights, moved_share = truncate_weights(
                    weights, self.keep
                )
                new_ids = pair.new_ids[block]
                tokens += [np.repeat(new_ids, largest.shape[1]), new_ids]
                columns += [pair.source_ids[largest].ravel(), np.full(len(block), pair.n_source)]
                values += [largest_weights.ravel(), mean_weights]
                moved_shares += [moved_share] * len(block)
            parts = [np.concatenate(part) for part in (tokens, columns, values)]
            nonzero = (part[parts[2] > 0] for part in parts)
            rows[which], is_missing = rows_with_fallback(pair, *nonzero)
        self._moved = float(np.mean(moved_shares))
        return rows, is_missing
