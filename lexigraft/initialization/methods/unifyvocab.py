"""UnifyVocab: a new token copies the source token that lies nearest to it in GloVe vectors.

Paper 003, section 2.1 and Table 1 (`+ Align Rep.`: the relative representation of Moschella et al.
2023). Centring and CSLS (Conneau et al. 2018, section 2.3) go beyond the paper.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles, source_vectors, target_vectors
from lexigraft.initialization.fallback import with_fallback
from lexigraft.initialization.highest import highest
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import directions, rows_of, score_blocks
from lexigraft.vocabulary.token_bytes import special_ids


class Unifyvocab(RecipeInitializer):
    """One source token, as it is, for each new token: the one with the highest cosine.

    The auxiliaries are vectors of the target's tokens (`target`) and of the source's (`source`)
    that were trained apart on the same text (`lexigraft.auxiliary.train_glove`). The paper compares
    them as they are; vectors that were trained apart have no axes in common, so that this is little
    better than chance. With `anchors` each token is described by its cosines to shared tokens
    instead, which are the same in both spaces.

    A new token without a vector, or with one of zeros, falls back to the mean of its source pieces,
    and one of which the source knows no piece to the mean of all source tokens. (Published code
    copies a random source token.)

    Parameters
    ----------
    anchors
        How many shared tokens, drawn at random, describe a token: 300 in the paper. None compares
        the vectors as they are.
    renormalized
        Whether these descriptions get length one before they are compared. Published code forgets
        it: source tokens with long descriptions are then the nearest to nearly all.
    centred
        Whether the mean vector of each vocabulary is taken off its vectors first.
    csls
        Takes half its mean cosine to this many nearest new tokens off a source token's score, so
        that tokens that lie near to all are not chosen for all. None for plain cosines.
    shuffled
        Share of the new tokens, drawn at random, that exchange their source tokens with each other
        at random: what a worse alignment would do (Appendix B.2, Figure 7b).

    Attributes
    ----------
    anchors_ : int
        Shared tokens that describe the others; 0 where vectors are compared as they are.
    """

    needs = ("target", "source")

    anchors_: int

    def __init__(
        self,
        anchors: int | None = None,
        renormalized: bool = True,
        centred: bool = False,
        csls: int | None = None,
        shuffled: float = 0.0,
    ) -> None:
        for option, value in (("anchors", anchors), ("csls", csls)):
            if value is not None and (not isinstance(value, int) or value is True or value < 1):
                raise _refused(option, value, "no whole number from 1 up")
        for option, choice in (("renormalized", renormalized), ("centred", centred)):
            if not isinstance(choice, bool):
                raise _refused(option, choice, "neither true nor false")
        number = isinstance(shuffled, int | float) and not isinstance(shuffled, bool)
        if not number or not 0 <= shuffled <= 1:
            raise _refused("shuffled", shuffled, "no number from 0 to 1")
        self.anchors, self.renormalized = anchors, renormalized
        self.centred, self.csls, self.shuffled = centred, csls, shuffled

    def statistics(self) -> dict[str, Any]:
        """What every recipe counts, and: anchors."""
        return {**super().statistics(), "anchors": self.anchors_}

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        special = special_ids(pair.target_tokenizer)
        target = self._ordinary(target_vectors(self.name, auxiliary, pair), special)
        found = source_vectors(self.name, auxiliary, pair)
        source = self._ordinary(found, pair.source_special_ids)
        if not len(source.tokens):
            raise UserError("initializer 'unifyvocab': no source token has a vector to compare")
        queries, rows = self._comparable(pair, target, source)
        new = np.isin(target.tokens, pair.new_ids)
        queries = queries[new]
        off = _nearness(rows, queries, self.csls) / 2 if self.csls and len(queries) else None
        chosen = source.tokens[_nearest(queries, rows, off)]
        if self.shuffled:
            draws = self._draws("shuffled")
            moved = draws.choice(len(chosen), round(self.shuffled * len(chosen)), replace=False)
            chosen[moved] = chosen[draws.permutation(moved)]
        each = np.arange(len(chosen))
        return with_fallback(pair, target.tokens[new], each, chosen, np.ones(len(chosen)))

    def _ordinary(self, vectors: TokenVectors, special: set[int]) -> TokenVectors:
        """Vectors of length one of the tokens that have one and are not special."""
        kept = vectors.vectors.any(axis=1) & ~np.isin(vectors.tokens, list(special))
        rows = vectors.vectors[kept]
        if self.centred and len(rows):
            rows = rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        return directions(TokenVectors(vectors.tokens[kept], rows))

    def _comparable(
        self, pair: VocabularyPair, target: TokenVectors, source: TokenVectors
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of target and source tokens whose products say how alike tokens are."""
        self.anchors_ = 0
        ours, theirs = target.vectors, source.vectors
        if self.anchors:
            shared = np.intersect1d(target.tokens, pair.shared_ids)
            shared = shared[np.isin(pair.source_of[shared], source.tokens)]
            if not len(shared):
                raise UserError(
                    "initializer 'unifyvocab': no shared token has a vector on both sides, so "
                    "there are no anchors; give vectors of more text or take out 'anchors'"
                )
            self.anchors_ = min(self.anchors, len(shared))
            drawn = self._draws("anchors").choice(shared, self.anchors_, replace=False)
            ours = ours @ rows_of(target, drawn).T
            theirs = theirs @ rows_of(source, pair.source_of[drawn]).T
        elif ours.shape[1] != theirs.shape[1]:
            raise UserError(
                f"initializer 'unifyvocab': vectors of width {ours.shape[1]} and "
                f"{theirs.shape[1]} do not compare; train both alike or give 'anchors'"
            )
        return (_unit(ours), _unit(theirs)) if self.renormalized else (ours, theirs)


def _refused(option: str, value: Any, what: str) -> UserError:
    return UserError(f"option '{option}' of initializer 'unifyvocab': {value!r} is {what}")


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows at length one; rows of zeros stay, and are as near to one token as to any other."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def _nearest(queries: np.ndarray, rows: np.ndarray, off: np.ndarray | None) -> np.ndarray:
    """For each query the row with the highest product, less what is taken off that row's."""
    best = np.empty(len(queries), dtype=np.int64)
    for block, scores in score_blocks(queries, rows):
        if off is not None:
            scores -= off
        best[block] = scores.argmax(axis=1)
    return best


def _nearness(rows: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    """For each row the mean of its `k` highest products with the queries."""
    k = min(k, len(queries))
    means = np.empty(len(rows), dtype=np.float32)
    for block, scores in score_blocks(rows, queries):
        best = np.take_along_axis(scores, highest(scores, k), axis=1)
        means[block] = best.mean(axis=1)
    return means
