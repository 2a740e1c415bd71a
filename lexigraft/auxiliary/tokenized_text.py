"""Tokenized corpora on disk: as text for fastText, or as token ids for GloVe.

fastText splits at white space and adds `</s>` at the end of a line, but tokens may contain either.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lexigraft.source.encoding import check_corpus, encoded_batches
from lexigraft.vocabulary.token_bytes import special_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

END_OF_LINE = "</s>"  # the word that fastText adds to every line
END_OF_SENTENCE = -1  # in files of ids
# fastText splits at ASCII white space and NUL; Unicode's control pictures replace them.
_BREAKING = {ord(letter): chr(0x2400 + ord(letter)) for letter in " \n\r\t\v\f\0"}
# Thai and Japanese letters, without spaces between words.
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff]")


def numbered_words(tokenizer: "PreTrainedTokenizerFast") -> list[str]:
    """A word for each token, by id: `t` followed by the id, or `""` for special tokens."""
    special = special_ids(tokenizer)
    return [f"t{i}" if i not in special else "" for i in range(_size(tokenizer))]


def spelled_words(tokenizer: "PreTrainedTokenizerFast") -> list[str]:
    """A word for each token, by id: its vocabulary string, or `""` for special tokens.

    For fastText with character n-grams. White space is written as control pictures, repeated if a
    token already has that spelling.
    """
    vocabulary, special = tokenizer.get_vocab(), special_ids(tokenizer)
    words = [""] * _size(tokenizer)
    taken = {*vocabulary, END_OF_LINE}
    for token, number in sorted(vocabulary.items(), key=lambda entry: entry[1]):
        word = token.translate(_BREAKING)
        if word != token or word == END_OF_LINE:
            while word in taken:
                word += word[-1]
            taken.add(word)
        if number not in special:
            words[number] = word
    return words


def write_sentences(
    tokenizer: "PreTrainedTokenizerFast",
    corpus: Iterable[str],
    words: Sequence[str],
    file: str | Path,
    minimum_words: int = 0,
) -> tuple[np.ndarray, int]:
    """Tokenize a corpus into a text file with one line per sentence, in bounded memory.

    `words` are those of the tokens, by id; tokens with `""` are left out, as are sentences with
    fewer than `minimum_words` words between spaces (characters in Thai and Japanese). Returns the
    number of occurrences of each token in the file, int64 [len(words)], and that of sentences.
    """
    check_corpus(corpus)
    counts, lines = np.zeros(len(words), dtype=np.int64), 0
    long_enough = (
        text
        for text in corpus
        if (len(text) if _UNSPACED.search(text) else len(text.split())) >= minimum_words
    )
    with Path(file).open("w", encoding="utf-8", newline="\n") as out:
        for encoded in encoded_batches(tokenizer, long_enough):
            for ids in encoded:
                if line := " ".join([words[i] for i in ids if words[i]]):
                    out.write(line + "\n")
                    lines += 1
            counts += np.bincount([i for ids in encoded for i in ids], minlength=len(words))
    counts[[not word for word in words]] = 0
    return counts, lines


def write_token_ids(
    tokenizer: "PreTrainedTokenizerFast", corpus: Iterable[str], file: str | Path
) -> np.ndarray:
    """Tokenize a corpus into a file of int32 ids, in bounded memory.

    Each sentence ends with `END_OF_SENTENCE`; special tokens are left out. Returns the number of
    occurrences of each token in the file, int64 [largest id + 1].
    """
    check_corpus(corpus)
    size = _size(tokenizer)
    ordinary = np.ones(size, dtype=bool)
    ordinary[list(special_ids(tokenizer))] = False
    counts = np.zeros(size, dtype=np.int64)
    with Path(file).open("wb") as out:
        for encoded in encoded_batches(tokenizer, corpus):
            joined = [i for sentence in encoded for i in (*sentence, END_OF_SENTENCE)]
            ids = np.array(joined, dtype=np.int32)
            ids = ids[(ids == END_OF_SENTENCE) | ordinary[ids]]
            counts += np.bincount(ids[ids != END_OF_SENTENCE], minlength=size)
            ids.tofile(out)
    return counts


def read_token_ids(file: str | Path) -> np.ndarray:
    """The int32 ids that `write_token_ids` wrote, memory-mapped."""
    if not Path(file).stat().st_size:
        return np.empty(0, dtype=np.int32)
    return np.asarray(np.memmap(file, dtype=np.int32, mode="r"))


def _size(tokenizer: "PreTrainedTokenizerFast") -> int:
    """The largest id plus one."""
    return max(tokenizer.get_vocab().values()) + 1
