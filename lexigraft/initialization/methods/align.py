"""Align: a new token is the mean of the source tokens found at its occurrences in the corpus."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.initialization.decomposition import NewRows, row_shares, rows_with_fallback
from lexigraft.initialization.inputs import required_corpus
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.source.encoding import batches, encoder

_TOKENIZER_OPTIONS = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
_SPACES = np.array([i for i in range(0x3001) if chr(i).isspace()], dtype=np.uint32)


class Align(RecipeInitializer):
    """The mean over the source's segmentations of the token, weighted by their frequency [1]_.

    Both tokenizers split every sentence, and their tokens are aligned by the bytes that they cover,
    or by character offsets if the tokens of one do not reconstruct the sentence. An occurrence of a
    new token aligns to the source tokens within it; if there are none, to those that contain or
    overlap it. Special and unknown tokens are not counted.

    A new token that never occurs gets the mean of its source pieces. `sentences_` is the number of
    sentences read, `sentences_by_characters_` those that needed character offsets, `occurrences_`
    [len(new_ids)] the numbers of aligned occurrences.

    References
    ----------
    .. [1] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 4.3.
    """

    counted = ("sentences", "sentences_by_characters")

    def statistics(self) -> dict[str, Any]:
        """Statistics of the recipe and of the corpus."""
        return super().statistics() | {"occurrences": int(self.occurrences_.sum())}

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        corpus = required_corpus(self.name, corpus)
        summed_weights = csr_array((len(pair.new_ids), pair.n_source))
        self.occurrences_ = np.zeros(len(pair.new_ids), dtype=np.int64)
        self.sentences_ = self.sentences_by_characters_ = 0
        source = _Tokens(pair.source_tokenizer, pair.source_bytes)
        target = _Tokens(pair.target_tokenizer, pair.target_bytes)
        for texts in batches(tqdm(corpus, desc="align", unit=" sentences", disable=None)):
            new_tokens, lengths, source_ids = self._occurrences(pair, source, target, texts)
            row_of_weight = np.repeat(new_tokens, lengths)
            weights = 1 / np.repeat(lengths, lengths)
            summed_weights = summed_weights + csr_array(
                (weights, (row_of_weight, source_ids)), shape=summed_weights.shape
            )
            self.occurrences_ += np.bincount(new_tokens, minlength=len(pair.new_ids))
        if not self.sentences_:
            raise UserError("initializer 'align': the corpus has no sentences")
        rows = row_shares(summed_weights).tocoo()
        return rows_with_fallback(pair, pair.new_ids[rows.coords[0]], rows.coords[1], rows.data)

    def _occurrences(
        self, pair: VocabularyPair, source: "_Tokens", target: "_Tokens", texts: list[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All occurrences of new tokens in a batch of sentences.

        Returns the index into `new_ids` [n] and the number of source tokens [n] of each, and these
        source tokens, concatenated.
        """
        text_starts = np.cumsum([0, *(len(text.encode()) + 1 for text in texts)])[:-1]
        (source_spans, source_inexact), (target_spans, target_inexact) = (
            _spans(tokens, texts, text_starts) for tokens in (source, target)
        )
        self.sentences_ += len(texts)
        self.sentences_by_characters_ += len(source_inexact | target_inexact)
        # A space that only one tokenizer adds before a text is not part of the text.
        unpaired_spaces = np.setxor1d(
            text_starts[np.isin(text_starts, source_spans[1])],
            text_starts[np.isin(text_starts, target_spans[1])],
        )
        for spans in (source_spans, target_spans):
            spans[1] += np.isin(spans[1], unpaired_spaces)
        is_ordinary = (source_spans[2] > source_spans[1]) & ~np.isin(
            source_spans[0], list(pair.source_special_ids)
        )
        source_ids, source_starts, source_ends = source_spans[:, is_ordinary]
        ordinary_new_ids = np.setdiff1d(pair.new_ids, list(pair.target_special_ids))
        new_ids, starts, ends = target_spans[
            :, (target_spans[2] > target_spans[1]) & np.isin(target_spans[0], ordinary_new_ids)
        ]
        new_tokens = np.searchsorted(pair.new_ids, new_ids)
        # Both ends of spans are sorted, so two lookups find a range of source tokens.
        first = np.searchsorted(source_starts, starts, side="left")
        last = np.searchsorted(source_ends, ends, side="right")
        has_none_within = first >= last  # none lies within: take those that contain or overlap it
        first[has_none_within] = np.searchsorted(source_ends, starts[has_none_within], side="right")
        last[has_none_within] = np.searchsorted(source_starts, ends[has_none_within], side="left")
        is_aligned = last > first
        first, lengths = first[is_aligned], (last - first)[is_aligned]
        lengths_before = np.cumsum(lengths) - lengths
        indices = np.arange(lengths.sum()) + np.repeat(first - lengths_before, lengths)
        return new_tokens[is_aligned], lengths, source_ids[indices]


class _Tokens:
    """A tokenizer, and the bytes of its tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, pieces: list[bytes]):
        self.tokenizer, self.pieces = tokenizer, pieces
        self.encode = encoder(tokenizer)
        self.sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)


def _spans(
    tokens: _Tokens, texts: list[str], text_starts: np.ndarray
) -> tuple[np.ndarray, set[int]]:
    """Ids, start and end bytes of all tokens [3, n], and the texts that needed offsets.

    The texts are concatenated, each after one byte at `text_starts` for the space that some
    tokenizers add before a text.
    """
    encoded, pieces = tokens.encode(texts), tokens.pieces
    rebuilt = [b"".join([pieces[i] for i in ids]) for ids in encoded]
    # Number of bytes that the tokenizer adds before a text; -1 if it does not reconstruct it.
    added_bytes = np.array(
        [
            len(rebuilt_text) - len(data) if rebuilt_text in (data, b" " + data) else -1
            for rebuilt_text, data in zip(rebuilt, map(str.encode, texts), strict=True)
        ],
        dtype=np.int64,
    )
    exact = np.flatnonzero(added_bytes >= 0)
    ids = np.array([i for index in exact for i in encoded[index]], dtype=np.int64)
    sizes = tokens.sizes[ids]
    ends = np.cumsum(sizes)
    # Convert positions in the concatenated reconstructed texts to positions in all texts.
    lengths = np.array([len(rebuilt[index]) for index in exact], dtype=np.int64)
    shifts = (text_starts + 1 - added_bytes)[exact] - (np.cumsum(lengths) - lengths)
    ends += np.repeat(shifts, np.array([len(encoded[index]) for index in exact], dtype=np.int64))
    spans = np.stack([ids, ends - sizes, ends])
    inexact = set(np.flatnonzero(added_bytes < 0).tolist())
    if inexact:
        by_characters = _by_characters(tokens, {i: texts[i] for i in inexact}, text_starts)
        spans = np.concatenate([spans, *by_characters], axis=1)
        spans = spans[:, np.lexsort((spans[2], spans[1]))]
    return spans, inexact


def _by_characters(
    tokens: _Tokens, texts: dict[int, str], text_starts: np.ndarray
) -> Iterator[np.ndarray]:
    """Ids, start and end bytes [3, n] of the tokens of each text, from character offsets."""
    encoded = tokens.tokenizer(
        list(texts.values()), return_offsets_mapping=True, **_TOKENIZER_OPTIONS
    )
    begins_word = np.array([piece[:1] == b" " for piece in tokens.pieces], dtype=bool)
    is_space_token = np.array([piece == b" " for piece in tokens.pieces], dtype=bool)
    for (number, text), token_ids, offsets in zip(
        texts.items(), encoded["input_ids"], encoded["offset_mapping"], strict=True
    ):
        ids = np.array(token_ids, dtype=np.int64)
        starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
        characters = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        widths = 1 + (characters > 0x7F) + (characters > 0x7FF) + (characters > 0xFFFF)
        # Byte positions of characters, preceded by that of the space before a text.
        byte_positions = np.concatenate([[-1], np.cumsum([0, *widths])]) + text_starts[number] + 1
        is_white_space = np.concatenate([[True], np.isin(characters, _SPACES), [True]])
        adds_space = begins_word[ids] & ~is_white_space[starts + 1] & is_white_space[starts]
        # The offsets of a token that is a space include the letter after it.
        ends = np.where(adds_space & is_space_token[ids], starts, ends)
        yield np.stack([ids, byte_positions[starts + 1 - adds_space], byte_positions[ends + 1]])
