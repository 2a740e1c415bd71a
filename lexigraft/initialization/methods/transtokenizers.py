"""Trans-tokenizers: a new token is a mixture of the source tokens that translate it."""

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise

import numpy as np
from scipy.sparse import csr_array, diags_array, vstack
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.initialization.decomposition import NewRows, row_shares, rows_with_fallback
from lexigraft.initialization.inputs import required_pairs
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.options import choice, integer, number
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.word_alignment import Bitext, expected_counts
from lexigraft.source.encoding import encoder

_PAIRS_AT_ONCE = 1000
# In recipes computed from related tokens, source tokens that begin a word have twice the weight: a
# constant of the published code.
_WORD_START_WEIGHT = 2.0


class Transtokenizers(RecipeInitializer):
    """Weights from how often the token aligns to each source token in parallel text [1]_.

    The auxiliary `parallel` holds pairs of an English sentence and its translation. Tokens are
    joined into words, and words are aligned by EM (`word_alignment`). The count of a pair of words
    is divided among their tokens: one half evenly, the other half by their positions, as if both
    words were equally long.

    A token that does not align gets the mean of the weights of its relatives: the tokens that begin
    with it, and the longest tokens that it contains. Relatives include shared tokens, but no
    fallback bytes. A token without relatives gets the mean of its source pieces. `pairs_` is the
    number of pairs read, `aligned_` the number of new tokens that align, and `related_` the number
    that get the weights of relatives.

    Shared tokens copy their source row; the published code mixes them too. It also uses the
    source's first piece for a number that does not align (here a relative), rounds counts down to
    integers, and accepts relatives whose own weights come from relatives, in an undefined order.

    Parameters
    ----------
    unit
        Unit of alignment: `words`, in which adjacent tokens are joined if a letter follows a
        letter, or `tokens`.
    minimum_count
        Pairs of units that align less often than this are ignored.
    iterations
        Iterations of EM. The 7 of the published code include one that learns nothing.
    diagonal_tension
        Strength of the preference for words at similar positions in their sentences: 0 for none, as
        in the published code, or 4, which fast_align recommends.

    References
    ----------
    .. [1] Remy, Delobelle, Avetisyan, Khabibullina, de Lhoneux and Demeester 2024,
       "Trans-Tokenization and Cross-lingual Vocabulary Transfers: Language Adaptation of LLMs for
       Low-Resource NLP".
    """

    title = "Trans-tokenizers"
    needs = ("parallel",)
    counted = ("pairs", "aligned", "related")
    unit: str = choice("words", "tokens")
    minimum_count: int = integer(10)
    iterations: int = integer(6)
    diagonal_tension: float = number(0.0)

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        pairs = required_pairs(self.name, auxiliary, "parallel")
        counts = self._token_counts(pair, pairs)
        # The published code compares vocabulary strings, in which no token contains `<0x20>`.
        fallback_ids = np.array(sorted(pair.target_fallback_ids), dtype=np.int64)
        shared_ids = np.setdiff1d(pair.shared_ids, [*fallback_ids, *pair.byte_ids])
        copies = csr_array(
            (np.ones(len(shared_ids)), (shared_ids, pair.source_of[shared_ids])), shape=counts.shape
        )
        counts = csr_array(counts + copies)
        totals = counts.sum(axis=1)
        weights = row_shares(counts)
        ordinary_ids = np.setdiff1d(pair.new_ids, list(pair.target_special_ids))
        aligned_ids = ordinary_ids[totals[ordinary_ids] > 0]
        aligned_tokens = np.setdiff1d(np.flatnonzero(totals > 0), fallback_ids)
        unaligned_ids = np.setdiff1d(ordinary_ids[totals[ordinary_ids] == 0], fallback_ids)
        relatives = _relatives(pair.target_bytes, aligned_tokens, unaligned_ids)
        word_starts = [
            number
            for number, piece in enumerate(pair.source_bytes)
            if piece[:1] == b" " and number not in pair.source_fallback_ids
        ]
        start_weights = np.ones(pair.n_source)
        start_weights[word_starts] = _WORD_START_WEIGHT
        related_weights = row_shares(csr_array(relatives @ weights @ diags_array(start_weights)))
        self.aligned_ = len(aligned_ids)
        self.related_ = int(np.count_nonzero(np.diff(relatives.indptr)))
        rows = vstack([weights[aligned_ids], related_weights]).tocoo()
        tokens = np.concatenate([aligned_ids, unaligned_ids])[rows.coords[0]]
        return rows_with_fallback(pair, tokens, rows.coords[1], rows.data)

    def _token_counts(self, pair: VocabularyPair, pairs: Iterable[tuple[str, str]]) -> csr_array:
        """How often target tokens align to source tokens [target ids, n_source]."""
        by_token = self.unit == "tokens"
        sides = [
            _Units(pair.source_tokenizer, pair.source_bytes, pair.source_special_ids, by_token),
            _Units(pair.target_tokenizer, pair.target_bytes, pair.target_special_ids, by_token),
        ]
        bitext = Bitext.from_pairs(_cut_pairs(pairs, *sides))
        self.pairs_ = len(bitext)
        if not self.pairs_:
            raise UserError(
                f"initializer '{self.name}': no pairs of sentences in its auxiliary 'parallel'; "
                "give samples that translate from English"
            )
        counts = expected_counts(
            bitext, iterations=self.iterations, diagonal_tension=self.diagonal_tension
        ).tocoo()
        is_frequent = counts.data >= self.minimum_count
        source_units, target_units = (units[is_frequent] for units in counts.coords)
        shape = (len(pair.target_bytes), pair.n_source)
        return _divide_counts(sides, source_units, target_units, counts.data[is_frequent], shape)


class _Units:
    """The words of one side of parallel text, or its tokens, as numbers."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        pieces: list[bytes],
        special: set[int],
        by_token: bool,
    ) -> None:
        self.encode = encoder(tokenizer)
        size = len(pieces)
        self.ordinary = np.ones(size, dtype=bool)
        self.ordinary[list(special)] = False
        edges = [(False, False) if by_token else _edges(piece) for piece in pieces]
        self.begins_in_word, self.ends_in_word = np.array(edges, dtype=bool).reshape(-1, 2).T
        # The tokens of each unit; the first units are the tokens themselves.
        self.tokens: list[tuple[int, ...]] = [(number,) for number in range(size)]
        self._numbers: dict[tuple[int, ...], int] = {}

    def cut(self, texts: list[str]) -> Iterator[list[int]]:
        """The units of each text."""
        for sentence in self.encode(texts):
            ids = np.array(sentence, dtype=np.int64)
            ids = ids[self.ordinary[ids]]
            joined = self.ends_in_word[ids[:-1]] & self.begins_in_word[ids[1:]]
            starts = np.flatnonzero(np.concatenate([[True], ~joined])) if len(ids) else ids
            tokens, bounds = ids.tolist(), [*starts.tolist(), len(ids)]
            yield [
                tokens[first] if last - first == 1 else self._number(tuple(tokens[first:last]))
                for first, last in pairwise(bounds)
            ]

    def _number(self, word: tuple[int, ...]) -> int:
        number = self._numbers.setdefault(word, len(self.tokens))
        if number == len(self.tokens):
            self.tokens.append(word)
        return number


def _edges(piece: bytes) -> tuple[bool, bool]:
    """Whether a token can continue a word, and whether a word can continue after it.

    This holds for letters and their marks, and for bytes of incomplete characters.
    """
    text = piece.decode("utf-8", errors="replace")
    if not text:
        return False, False
    first, last = (unicodedata.category(letter) for letter in (text[0], text[-1]))
    return (first[0] in "LM" or text[0] == "\ufffd", last[0] in "LM" or text[-1] == "\ufffd")


def _cut_pairs(
    pairs: Iterable[tuple[str, str]], source: _Units, target: _Units
) -> Iterator[tuple[list[int], list[int]]]:
    """The units of both sides of each pair."""
    progress = iter(tqdm(pairs, desc="align", unit=" pairs", disable=None))
    while batch := list(islice(progress, _PAIRS_AT_ONCE)):
        english, translations = map(list, zip(*batch, strict=True))
        yield from zip(source.cut(english), target.cut(translations), strict=True)


def _divide_counts(
    sides: list[_Units],
    source_units: np.ndarray,
    target_units: np.ndarray,
    counts: np.ndarray,
    shape: tuple[int, int],
) -> csr_array:
    """Divide the counts of pairs of units among pairs of their tokens [target, source]."""
    words = [
        [side.tokens[unit] for unit in units.tolist()]
        for side, units in zip(sides, (source_units, target_units), strict=True)
    ]
    lengths = np.array([list(map(len, words_of_side)) for words_of_side in words]).reshape(2, -1)
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    for n, m in np.unique(lengths, axis=1).T.tolist():
        same_lengths = np.flatnonzero((lengths[0] == n) & (lengths[1] == m))
        source, target = (
            np.array([words_of_side[i] for i in same_lengths]) for words_of_side in words
        )
        rows, columns = np.repeat(target, n, axis=1), np.tile(source, (1, m))
        values = counts[same_lengths, None] * token_shares(n, m).ravel()
        parts.append((rows.ravel(), columns.ravel(), values.ravel()))
    rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    return csr_array((values, (rows, columns)), shape=shape)


def token_shares(n: int, m: int) -> np.ndarray:
    """Shares of `n` source tokens in each of `m` target tokens [m, n] of a pair of words."""
    first, last = np.arange(n) / n, np.arange(1, n + 1) / n
    starts, ends = np.arange(m)[:, None] / m, np.arange(1, m + 1)[:, None] / m
    overlap = np.maximum(0, np.minimum(last, ends) - np.maximum(first, starts)) * m
    return (1 / n + overlap) / 2


def _relatives(pieces: list[bytes], known: np.ndarray, unaligned: np.ndarray) -> csr_array:
    """The known tokens to which each unaligned token is related, as ones [unaligned, tokens]."""
    by_text: dict[bytes, list[int]] = {}
    for token in known.tolist():
        by_text.setdefault(pieces[token], []).append(token)
    by_text.pop(b"", None)
    texts = sorted(by_text)
    longest = max(map(len, texts), default=0)
    rows: list[int] = []
    columns: list[int] = []
    for row, token in enumerate(unaligned.tolist()):
        piece, extensions = pieces[token], set()
        for index in range(bisect_left(texts, piece), len(texts)):
            if not texts[index].startswith(piece):
                break
            extensions.add(texts[index])
        parts: list[bytes] = []
        for length in range(min(len(piece), longest), 0, -1):
            for start in range(len(piece) - length + 1):
                part = piece[start : start + length]
                if part in by_text and not any(part in longer for longer in parts):
                    parts.append(part)
        tokens = [i for text in {*extensions, *parts} for i in by_text[text]] if piece else []
        rows += [row] * len(tokens)
        columns += sorted(tokens)
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(unaligned), len(pieces)))
