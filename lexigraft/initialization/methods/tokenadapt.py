"""TokenAdapt: a mixture of a token's own pieces and of the source tokens nearest in meaning."""

import math
from itertools import chain

import numpy as np
from scipy.sparse import csr_array

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.initialization.decomposition import (
    NewRows,
    decompose,
    row_shares,
    rows_with_fallback,
)
from lexigraft.initialization.inputs import required_space
from lexigraft.initialization.interface import Auxiliaries, Corpus
from lexigraft.initialization.options import choice, integer, number, positive
from lexigraft.initialization.pairing import SHARED, VocabularyPair
from lexigraft.initialization.similarity import (
    VectorInitializer,
    softmax_of_nearest,
    unit_vectors,
    vectors_of,
)

# For the pieces of a token, the published code uses 0.7 times the threshold.
_PIECE_THRESHOLD = 0.7


class TokenAdapt(VectorInitializer):
    """A local estimate from the token's pieces and a global one from its neighbours [1]_.

    The auxiliaries `target` and `source` are vectors of the tokens of both vocabularies by a
    sentence encoder (`lexigraft.auxiliary.encode_tokens`). The local estimate is the softmax over
    the scores of the token's source pieces: the mean of the cosine of the piece and the token, and
    of the length of the piece as a share of that of the token. The global estimate is the softmax
    over the cosines to the nearest `neighbours`. The weights are `1 - weight` times the local plus
    `weight` times the global estimate, or the only one if the other does not exist.

    As in the published code, tokens that differ only in case and white space are `shared` by
    default; it draws the rows of tokens without a vector (`without_vector: random`).

    Parameters
    ----------
    temperature
        Divisor of both estimates.
    neighbours
        Number of source tokens of the global estimate.
    weight
        Weight of the global estimate.
    threshold
        Neighbours with a smaller cosine are ignored. In the local estimate, cosines below 0.7 times
        the threshold are set to 0, and a score is the sum of both numbers. This is an earlier
        version of the published code, which its README describes, with 0.6.

    References
    ----------
    .. [1] Sharthak, Pahalwan, Kamath and Shirawalmath 2025, "Achieving Tokenizer Flexibility in
       Language Models through Heuristic Adaptation and Supertoken Learning".
    """

    title = "TokenAdapt"
    needs = ("target", "source")
    version = 2
    shared: str = choice("fuzzy", *SHARED)
    temperature: float = positive(0.3)
    neighbours: int = integer(3)
    weight: float = number(0.3, maximum=1)
    threshold: float | None = positive(None)

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        target, source = required_space(self.name, pair, auxiliary)
        target = unit_vectors(target, pair.target_special_ids)
        source = unit_vectors(source, pair.source_special_ids)
        mixed_ids = np.intersect1d(target.tokens, pair.new_ids)
        new_vectors = vectors_of(target, mixed_ids)
        local_weights = global_weights = csr_array((len(mixed_ids), pair.n_source))
        if len(mixed_ids) and len(source.tokens):
            local_weights = self._local(pair, mixed_ids, new_vectors, source)
            minimum = -math.inf if self.threshold is None else self.threshold
            nearest = softmax_of_nearest(
                new_vectors, source.vectors, self.neighbours, self.temperature, minimum
            ).tocoo()
            positions = nearest.coords[0], source.tokens[nearest.coords[1]]
            global_weights = csr_array((nearest.data, positions), shape=local_weights.shape)
        shares = row_shares(
            csr_array((1 - self.weight) * local_weights + self.weight * global_weights)
        )
        shares.eliminate_zeros()
        weights = shares.tocoo()
        tokens, source_ids = mixed_ids[weights.coords[0]], weights.coords[1]
        return rows_with_fallback(
            pair, tokens, source_ids, weights.data, fallback=self.without_vector
        )

    def _local(
        self, pair: VocabularyPair, new_ids: np.ndarray, vectors: np.ndarray, source: TokenVectors
    ) -> csr_array:
        """Weights on each new token's pieces [len(new_ids), n_source]; or zeros without vectors."""
        pieces = decompose(pair, new_ids.tolist())
        token_of_piece = np.repeat(np.arange(len(new_ids)), list(map(len, pieces)))
        piece_ids = np.array([*chain.from_iterable(pieces)], dtype=np.int64)
        has_vector = np.isin(piece_ids, source.tokens)
        token_of_piece, piece_ids = token_of_piece[has_vector], piece_ids[has_vector]
        rows = vectors[token_of_piece], vectors_of(source, piece_ids)
        cosines = np.einsum("ij,ij->i", *rows, dtype=np.float64)
        lengths = _lengths(pair.source_bytes, piece_ids) / _lengths(
            pair.target_bytes, new_ids[token_of_piece]
        )
        if self.threshold is None:
            scores = (cosines + lengths) / 2
        else:
            cosines[cosines < _PIECE_THRESHOLD * self.threshold] = 0
            scores = cosines + np.minimum(lengths, 1)
        highest = np.full(len(new_ids), -np.inf)
        np.maximum.at(highest, token_of_piece, scores)
        exponents = np.exp((scores - highest[token_of_piece]) / self.temperature)
        return row_shares(
            csr_array((exponents, (token_of_piece, piece_ids)), shape=(len(new_ids), pair.n_source))
        )


def _lengths(pieces: list[bytes], ids: np.ndarray) -> np.ndarray:
    """Number of characters of each token [n], with incomplete characters read as U+FFFD."""
    return np.array([len(pieces[i].decode("utf-8", errors="replace")) for i in ids.tolist()])
