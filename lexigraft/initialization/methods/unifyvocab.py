"""UnifyVocab: a new token copies the source token nearest to it in GloVe vectors."""

from dataclasses import replace
from typing import Any

import numpy as np

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.decomposition import NewRows, rows_with_fallback
from lexigraft.initialization.explanation import example_ids, readable
from lexigraft.initialization.inputs import required_vectors
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.options import boolean, choice, integer, number
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import (
    highest,
    nonzero,
    score_blocks,
    top_k,
    unit_rows,
    unit_vectors,
    vectors_of,
)


class UnifyVocab(RecipeInitializer):
    """A copy of the source token with the highest cosine similarity [1]_.

    The auxiliaries are vectors of the target's tokens (`target`) and of the source's (`source`)
    that were trained separately on the same text (`lexigraft.auxiliary.train_glove`). The paper
    compares them directly, which is little better than chance: they have no common axes. With
    `anchors`, each token is represented by its cosines to shared tokens instead: the relative
    representation of [2]_, `+ Align Rep.` in Table 1 of the paper. Centring and CSLS [3]_ are
    extensions.

    `anchors_` is the number of shared tokens in the representation. The published code shares
    tokens by `spelling`.

    Parameters
    ----------
    anchors
        Number of random shared tokens that represent a token: 300 in the paper. None compares the
        vectors directly.
    renormalized
        Whether relative representations are scaled to length one. The published code does not do
        this: source tokens with long representations are then the nearest to nearly all.
    centred
        Whether the mean vector of each vocabulary is subtracted first.
    csls
        Subtract half of a source token's mean cosine to this many nearest new tokens from its
        score, so that hubs are not chosen for all tokens. None for plain cosines.
    shuffled
        Share of the tokens whose source tokens are permuted at random ([1]_, Figure 7b). The
        alignment includes shared tokens: those that are moved are no longer shared.
    without_vector
        The row of a new token without a vector: the mean of its source `pieces`; or that of a
        `random` source token, as in the published code.

    References
    ----------
    .. [1] UnifyVocab, "Unifying Vocabulary of Large Language Model with Statistical Token-level
       Alignment", section 2.1, appendix B.2 and Table 1.
    .. [2] Moschella et al. 2023, "Relative Representations Enable Zero-shot Latent Space
       Communication".
    .. [3] Conneau et al. 2018, "Word Translation without Parallel Data", section 2.3.
    """

    title = "UnifyVocab"
    version = 2
    needs = ("target", "source")
    counted = ("anchors",)
    anchors: int | None = integer(None)
    renormalized: bool = boolean(True)
    centred: bool = boolean(False)
    csls: int | None = integer(None)
    shuffled: float = number(0.0, maximum=1)
    without_vector: str = choice("pieces", "random")

    def examples(self) -> list[dict[str, Any]]:
        """Examples with `nearest`: the three nearest source tokens, as text, and their scores."""
        ids = example_ids(self._fitted)
        return [
            example | {"nearest": self._nearest.get(token_id, [])}
            for token_id, example in zip(ids, super().examples(), strict=True)
        ]

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        target = self._ordinary(pair, auxiliary, "target", pair.target_special_ids)
        source = self._ordinary(pair, auxiliary, "source", pair.source_special_ids)
        if not len(source.tokens):
            raise UserError("initializer 'unifyvocab': no source token has a vector to compare")
        queries, rows = self._comparable(pair, target, source)
        is_new = np.isin(target.tokens, pair.new_ids)
        queries = queries[is_new]
        penalty = np.zeros(len(rows), dtype=np.float32)
        if self.csls and len(queries):
            k = min(self.csls, len(queries))
            for block, scores in score_blocks(rows, queries):
                best = np.take_along_axis(scores, top_k(scores, k), axis=1)
                penalty[block] = best.mean(axis=1) / 2
        nearest = np.empty(len(queries), dtype=np.int64)
        for block, scores in score_blocks(queries, rows):
            scores -= penalty
            nearest[block] = highest(scores)
        copied_ids = source.tokens[nearest]
        self._nearest: dict[int, list[list[Any]]] = {}
        for index in np.flatnonzero(np.isin(target.tokens[is_new], example_ids(pair))):
            scores = rows @ queries[index] - penalty
            self._nearest[int(target.tokens[is_new][index])] = [
                [
                    readable(pair.source_bytes[source.tokens[anchor]]),
                    round(float(scores[anchor]), 4),
                ]
                for anchor in np.argsort(-scores, kind="stable")[:3]
            ]
        tokens = target.tokens[is_new]
        random_ids = pair.new_ids[:0]
        if self.without_vector == "random":
            random_ids = np.setdiff1d(pair.new_ids, tokens)
            ordinary_ids = np.setdiff1d(pair.source_ids, list(pair.source_special_ids))
            draws = self._generator("random").choice(ordinary_ids, len(random_ids))
            tokens = np.concatenate([tokens, random_ids])
            copied_ids = np.concatenate([copied_ids, draws])
        if self.shuffled:
            rng = self._generator("shuffled")
            tokens = np.concatenate([tokens, pair.shared_ids])
            copied_ids = np.concatenate([copied_ids, pair.source_of[pair.shared_ids]])
            moved = rng.choice(len(tokens), round(self.shuffled * len(tokens)), replace=False)
            copied_ids[moved] = copied_ids[rng.permutation(moved)]
            source_of = pair.source_of.copy()
            source_of[tokens[moved]] = -1
            self.pair_ = pair = replace(pair, source_of=source_of)
            is_new = np.isin(tokens, pair.new_ids)
            tokens, copied_ids = tokens[is_new], copied_ids[is_new]
        rows, is_missing = rows_with_fallback(pair, tokens, copied_ids, np.ones(len(copied_ids)))
        return rows, is_missing | np.isin(pair.new_ids, random_ids)

    def _ordinary(
        self, pair: VocabularyPair, auxiliary: Auxiliaries, role: str, special: set[int]
    ) -> TokenVectors:
        """Unit vectors of the tokens that have a nonzero vector and are not special."""
        vectors = nonzero(required_vectors(self.name, pair, auxiliary, role), special)
        if self.centred and len(vectors.tokens):
            mean = vectors.vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
            vectors = TokenVectors(vectors.tokens, vectors.vectors - mean)
        return unit_vectors(vectors)

    def _comparable(
        self, pair: VocabularyPair, target: TokenVectors, source: TokenVectors
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of target and source tokens whose inner products are similarities."""
        self.anchors_ = 0
        target_rows, source_rows = target.vectors, source.vectors
        if self.anchors:
            shared_ids = np.intersect1d(target.tokens, pair.shared_ids)
            shared_ids = shared_ids[np.isin(pair.source_of[shared_ids], source.tokens)]
            if not len(shared_ids):
                raise UserError(
                    "initializer 'unifyvocab': no shared token has both vectors; remove 'anchors'"
                )
            self.anchors_ = min(self.anchors, len(shared_ids))
            anchor_ids = self._generator("anchors").choice(shared_ids, self.anchors_, replace=False)
            target_rows = target_rows @ vectors_of(target, anchor_ids).T
            source_rows = source_rows @ vectors_of(source, pair.source_of[anchor_ids]).T
        elif target_rows.shape[1] != source_rows.shape[1]:
            raise UserError(
                f"initializer 'unifyvocab': vectors of width {target_rows.shape[1]} and "
                f"{source_rows.shape[1]} cannot be compared; train both in the same way"
            )
        if self.renormalized:
            return unit_rows(target_rows), unit_rows(source_rows)
        return target_rows, source_rows
