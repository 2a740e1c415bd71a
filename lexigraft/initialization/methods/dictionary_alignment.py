"""Dictionary alignment: align tokens in dictionary entries, then remove them and align again."""

import json
import math
from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array, diags_array
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from lexigraft.initialization.decomposition import NewRows, row_shares, rows_with_fallback
from lexigraft.initialization.inputs import required_pairs
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.options import choice, integer
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.word_alignment import Bitext, expected_counts
from lexigraft.vocabulary.token_bytes import is_fallback, spelling


class DictionaryAlignment(RecipeInitializer):
    """Weights from how often the token aligns to each source token in dictionary entries [1]_.

    The auxiliary `dictionary` holds pairs of an English word, or a few, and its translation. Both
    are tokenized as words within a text, the translation in lower case, and their tokens are
    aligned by EM (`word_alignment`). Aligned tokens are then removed from the tokenizer, which
    splits the same words into shorter tokens, and these are aligned in the next of `rounds_`
    rounds, until no further token aligns.

    The published code also mixes shared tokens (`shared: special`). A new token that never aligns
    gets the mean of its source pieces. `entries_` is the number of pairs used, `aligned_` the
    number of new tokens that align.

    Parameters
    ----------
    minimum_count
        Pairs of tokens that align less often than this, rounded up, are ignored.
    counts
        Whether the weights follow the `expected` counts, or these `rounded-up` to integers in each
        round, as in the published code.
    alphabet
        Whether letters (bytes in a byte-level tokenizer) are `removed` too, as in the published
        code, or `kept`: without them no merge produces the tokens that begin with them.
    maximum_words
        Entries with more English words are ignored, so that parallel text can be used; None for no
        limit.
    iterations
        Iterations of EM in each round. The 7 of the published code include one that learns nothing.

    References
    ----------
    .. [1] Sakajo, Ide, Vasselli, Sakai, Tian, Kamigaito and Watanabe 2025, "Dictionaries to the
       Rescue: Cross-Lingual Vocabulary Transfer for Low-Resource Languages Using Bilingual
       Dictionaries".
    """

    needs = ("dictionary",)
    counted = ("entries", "rounds", "aligned")
    minimum_count: int = integer(1)
    counts: str = choice("expected", "rounded-up")
    alphabet: str = choice("kept", "removed")
    maximum_words: int | None = integer(None)
    iterations: int = integer(6)

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        maximum = math.inf if self.maximum_words is None else self.maximum_words
        pairs = required_pairs(self.name, auxiliary, "dictionary")
        entries = [entry for entry in pairs if len(entry[0].split()) <= maximum]
        self.entries_ = len(entries)
        english_ids = _tokenized(
            pair.source_tokenizer.backend_tokenizer,
            _as_words(pair.source_tokenizer, pair.source_bytes, [word for word, _ in entries]),
            pair.source_special_ids,
        )
        translations = _as_words(
            pair.target_tokenizer, pair.target_bytes, [word.lower() for _, word in entries]
        )
        shape = (len(pair.target_bytes), pair.n_source)
        total_counts = csr_array(shape)
        shrinking = _ShrinkingTokenizer(pair.target_tokenizer)
        self.rounds_ = 0
        kept_ids = shrinking.alphabet() if self.alphabet == "kept" else np.zeros(0, dtype=np.int64)
        is_aligned = np.zeros(shape[0], dtype=bool)
        while True:
            translation_ids = _tokenized(
                shrinking.tokenizer(), translations, pair.target_special_ids
            )
            counts = self._counts(english_ids, translation_ids, shape)
            newly_aligned = np.flatnonzero((counts.sum(axis=1) > 0) & ~is_aligned)
            if not len(newly_aligned):
                break
            total_counts = total_counts + diags_array((~is_aligned).astype(np.float64)) @ counts
            is_aligned[newly_aligned] = True
            shrinking.remove(np.setdiff1d(newly_aligned, kept_ids))
            self.rounds_ += 1
        total_counts = csr_array(total_counts)[pair.new_ids]
        self.aligned_ = int(is_aligned[pair.new_ids].sum())
        rows = row_shares(total_counts).tocoo()
        return rows_with_fallback(pair, pair.new_ids[rows.coords[0]], rows.coords[1], rows.data)

    def _counts(
        self, english_ids: list[list[int]], translation_ids: list[list[int]], shape: tuple[int, int]
    ) -> csr_array:
        """How often target tokens align to source tokens [target ids, n_source]."""
        bitext = Bitext.from_pairs(zip(english_ids, translation_ids, strict=True))
        counts = expected_counts(bitext, iterations=self.iterations).tocoo()
        # fast_align prints six digits, so that 1.0000001 is 1, which rounding up leaves unchanged.
        rounded = np.ceil([float(f"{count:.6g}") for count in counts.data.tolist()])
        is_frequent = rounded >= self.minimum_count
        weights = rounded if self.counts == "rounded-up" else counts.data
        positions = (counts.coords[1][is_frequent], counts.coords[0][is_frequent])
        return csr_array((weights[is_frequent], positions), shape=shape)


class _ShrinkingTokenizer:
    """A tokenizer from which tokens are removed, so that it splits words into shorter ones.

    The remaining tokens keep their ids.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._state = json.loads(tokenizer.backend_tokenizer.to_str())
        self._strings = {number: token for token, number in tokenizer.get_vocab().items()}
        self._spelling = spelling(tokenizer)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer without the removed tokens."""
        return Tokenizer.from_str(json.dumps(self._state))

    def alphabet(self) -> np.ndarray:
        """Ids of the tokens that the model cannot split any further: letters and bytes."""
        prefix = "##" if self._spelling == "wordpiece" else ""
        letters = [
            token_id
            for token_id, token in self._strings.items()
            if len(token.removeprefix(prefix)) == 1 or is_fallback(token, self._spelling)
        ]
        return np.array(letters, dtype=np.int64)

    def remove(self, tokens: Iterable[int]) -> None:
        """Remove tokens by their ids."""
        model = self._state["model"]
        removed = {self._strings[int(token)] for token in tokens}
        self._state["added_tokens"] = [
            token for token in self._state["added_tokens"] if token["content"] not in removed
        ]
        if isinstance(model["vocab"], list):
            # Unigram ids are positions in a list: fill them with a string that no text contains.
            model["vocab"] = [
                [f"\0{token_id}", score] if piece in removed else [piece, score]
                for token_id, (piece, score) in enumerate(model["vocab"])
            ]
            return
        for token in removed:
            model["vocab"].pop(token, None)
        if "merges" in model:
            model["merges"] = [
                merge for merge in model["merges"] if removed.isdisjoint((*merge, "".join(merge)))
            ]


def _as_words(
    tokenizer: PreTrainedTokenizerFast, pieces: list[bytes], words: list[str]
) -> list[str]:
    """Texts in which the words are tokenized as within a text, after a space."""
    first_ids = tokenizer("a", add_special_tokens=False)["input_ids"][:1]
    adds_space = bool(first_ids) and pieces[first_ids[0]].startswith(b" ")
    return words if adds_space else [f" {word}" for word in words]


def _tokenized(tokenizer: Tokenizer, texts: list[str], special: set[int]) -> list[list[int]]:
    """Token ids of each text, without special and unknown tokens."""
    return [
        [i for i in encoding.ids if i not in special]
        for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)
    ]
