"""Align: a new token is the mean of the source tokens found at its occurrences in the corpus."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from tqdm import tqdm

from lexigraft.errors import UserError
from lexigraft.initialization.decomposition import NewRows, row_shares, rows_with_fallback
from lexigraft.initialization.inputs import required_corpus
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.source.encoding import batches, encoder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_PLAIN = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
_SPACES = np.array([i for i in range(0x3001) if chr(i).isspace()], dtype=np.uint32)


class Align(RecipeInitializer):
    """The mean over the source's segmentations of the token, weighted by their frequency [1]_.

    Both tokenizers split every sentence, and their tokens are aligned by the bytes that they cover.
    If the tokens of one do not reconstruct the sentence (WordPiece, a normalizer that changes
    letters, an unknown character), its character offsets are used; a token that begins a word then
    includes the space before it, as in the other families.

    An occurrence of a new token aligns to the source tokens within it; if there are none, to those
    that contain or overlap it. All occurrences count. Special tokens are never counted: none are
    added to texts, and special tokens in a text and unknown tokens are ignored.

    A new token that never occurs falls back. `sentences_` is the number of sentences read,
    `by_characters_` the number that needed character offsets, and `occurrences_` [len(new_ids)] the
    numbers of aligned occurrences.

    References
    ----------
    .. [1] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 4.3.
    """

    def statistics(self) -> dict[str, Any]:
        """Statistics of the recipe, sentences, sentences_by_characters and occurrences."""
        return {
            **super().statistics(),
            "sentences": self.sentences_,
            "sentences_by_characters": self.by_characters_,
            "occurrences": int(self.occurrences_.sum()),
        }

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        corpus = required_corpus(self.name, corpus)
        summed = csr_array((len(pair.new_ids), pair.n_source))
        self.occurrences_ = np.zeros(len(pair.new_ids), dtype=np.int64)
        self.sentences_ = self.by_characters_ = 0
        source = _Tokens(pair.source_tokenizer, pair.source_bytes)
        target = _Tokens(pair.target_tokenizer, pair.target_bytes)
        for texts in batches(tqdm(corpus, desc="align", unit=" sentences", disable=None)):
            new, lengths, source_ids = self._occurrences(pair, source, target, texts)
            of = np.repeat(new, lengths)
            weights = 1 / np.repeat(lengths, lengths)
            summed = summed + csr_array((weights, (of, source_ids)), shape=summed.shape)
            self.occurrences_ += np.bincount(new, minlength=len(pair.new_ids))
        if not self.sentences_:
            raise UserError("initializer 'align': the corpus has no sentences")
        rows = row_shares(summed).tocoo()
        return rows_with_fallback(pair, pair.new_ids[rows.coords[0]], rows.coords[1], rows.data)

    def _occurrences(
        self, pair: VocabularyPair, source: "_Tokens", target: "_Tokens", texts: list[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All occurrences of new tokens in a batch of sentences.

        Returns the index into `new_ids` [n] and the number of source tokens [n] of each, and these
        source tokens, concatenated.
        """
        begins = np.cumsum([0, *(len(text.encode()) + 1 for text in texts)])[:-1]
        (old, old_by_offsets), (new, new_by_offsets) = (
            _spans(each, texts, begins) for each in (source, target)
        )
        self.sentences_ += len(texts)
        self.by_characters_ += len(old_by_offsets | new_by_offsets)
        # A space that only one tokenizer adds before a text is not part of the text.
        alone = np.setxor1d(begins[np.isin(begins, old[1])], begins[np.isin(begins, new[1])])
        for side in (old, new):
            side[1] += np.isin(side[1], alone)
        ordinary = (old[2] > old[1]) & ~np.isin(old[0], list(pair.source_special_ids))
        old_ids, old_starts, old_ends = old[:, ordinary]
        wanted = np.setdiff1d(pair.new_ids, list(pair.target_special_ids))
        new_ids, starts, ends = new[:, (new[2] > new[1]) & np.isin(new[0], wanted)]
        seen_of = np.searchsorted(pair.new_ids, new_ids)
        # Both ends of spans are sorted, so two lookups find a range of source tokens.
        first = np.searchsorted(old_starts, starts, side="left")
        last = np.searchsorted(old_ends, ends, side="right")
        partly = first >= last  # none lies within: take those that contain or overlap it
        first[partly] = np.searchsorted(old_ends, starts[partly], side="right")
        last[partly] = np.searchsorted(old_starts, ends[partly], side="left")
        seen = last > first
        first, lengths = first[seen], (last - first)[seen]
        before = np.cumsum(lengths) - lengths
        at = np.arange(lengths.sum()) + np.repeat(first - before, lengths)
        return seen_of[seen], lengths, old_ids[at]


class _Tokens:
    """A tokenizer, and the bytes of its tokens."""

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", pieces: list[bytes]):
        self.tokenizer, self.pieces = tokenizer, pieces
        self.encode = encoder(tokenizer)
        self.sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)


def _spans(tokens: _Tokens, texts: list[str], begins: np.ndarray) -> tuple[np.ndarray, set[int]]:
    """Ids, start and end bytes of all tokens [3, n], and the texts that needed offsets.

    The texts are concatenated, each after one byte at `begins` for the space that some tokenizers
    add before a text.
    """
    encoded, pieces = tokens.encode(texts), tokens.pieces
    rebuilt = [b"".join([pieces[i] for i in ids]) for ids in encoded]
    # Number of bytes that the tokenizer adds before a text; -1 if it does not reconstruct it.
    added = np.array(
        [
            len(found) - len(data) if found in (data, b" " + data) else -1
            for found, data in zip(rebuilt, map(str.encode, texts), strict=True)
        ],
        dtype=np.int64,
    )
    whole = np.flatnonzero(added >= 0)
    ids = np.array([i for place in whole for i in encoded[place]], dtype=np.int64)
    sizes = tokens.sizes[ids]
    ends = np.cumsum(sizes)
    # Convert positions in the concatenated reconstructed texts to positions in all texts.
    lengths = np.array([len(rebuilt[place]) for place in whole], dtype=np.int64)
    moves = (begins + 1 - added)[whole] - (np.cumsum(lengths) - lengths)
    ends += np.repeat(moves, np.array([len(encoded[place]) for place in whole], dtype=np.int64))
    spans = np.stack([ids, ends - sizes, ends])
    inexact = set(np.flatnonzero(added < 0).tolist())
    if inexact:
        by_characters = _by_characters(tokens, {i: texts[i] for i in inexact}, begins)
        spans = np.concatenate([spans, *by_characters], axis=1)
        spans = spans[:, np.lexsort((spans[2], spans[1]))]
    return spans, inexact


def _by_characters(
    tokens: _Tokens, texts: dict[int, str], begins: np.ndarray
) -> Iterator[np.ndarray]:
    """Ids, start and end bytes [3, n] of the tokens of each text, from character offsets."""
    encoded = tokens.tokenizer(list(texts.values()), return_offsets_mapping=True, **_PLAIN)
    begins_word = np.array([piece[:1] == b" " for piece in tokens.pieces], dtype=bool)
    space = np.array([piece == b" " for piece in tokens.pieces], dtype=bool)
    for (number, text), token_ids, offsets in zip(
        texts.items(), encoded["input_ids"], encoded["offset_mapping"], strict=True
    ):
        ids = np.array(token_ids, dtype=np.int64)
        starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
        letters = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        widths = 1 + (letters > 0x7F) + (letters > 0x7FF) + (letters > 0xFFFF)
        # Byte positions of characters, preceded by that of the space before a text.
        places = np.concatenate([[-1], np.cumsum([0, *widths])]) + begins[number] + 1
        is_space = np.concatenate([[True], np.isin(letters, _SPACES), [True]])
        leads = begins_word[ids] & ~is_space[starts + 1] & is_space[starts]
        ends = np.where(leads & space[ids], starts, ends)  # its offsets include the letter after it
        yield np.stack([ids, places[starts + 1 - leads], places[ends + 1]])
