"""A corpus as fastText reads it: a line per sentence, a word per token, words between spaces.

fastText splits at white space and knows `</s>` as the end of a line, while tokens may hold either.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lexigraft.vocabulary.token_bytes import special_ids
from lexigraft.vocabulary.tokenization import encoded_batches

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

END_OF_LINE = "</s>"  # the word that fastText adds to every line
# What fastText splits at: ASCII white space and NUL; shown as the pictures of these characters.
_BREAKING = {ord(letter): chr(0x2400 + ord(letter)) for letter in " \n\r\t\v\f\0"}
# Thai and Japanese letters: no spaces between words.
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff]")


def numbered_words(tokenizer: "PreTrainedTokenizerFast") -> list[str]:
    """`t` and the id as the word of every token, by id; special tokens have none (`""`)."""
    return _without_special(
        tokenizer, [f"t{number}" for number in range(_largest_id(tokenizer) + 1)]
    )


def spelled_words(tokenizer: "PreTrainedTokenizerFast") -> list[str]:
    """The vocabulary string as the word of every token, by id; special tokens have none (`""`).

    For fastText with character n-grams, which reads the spelling. White space is written as the
    picture of its character, repeated where that is a token already.
    """
    vocabulary = tokenizer.get_vocab()
    words = [""] * (_largest_id(tokenizer) + 1)
    taken = {*vocabulary, END_OF_LINE}
    for token, number in sorted(vocabulary.items(), key=lambda entry: entry[1]):
        word = token.translate(_BREAKING)
        if word != token or word == END_OF_LINE:
            while word in taken:
                word += word[-1]
            taken.add(word)
        words[number] = word
    return _without_special(tokenizer, words)


def write_sentences(
    tokenizer: "PreTrainedTokenizerFast",
    corpus: Iterable[str],
    words: Sequence[str],
    file: str | Path,
    minimum_words: int = 0,
) -> tuple[np.ndarray, int]:
    """Tokenize a corpus into a file, a line per sentence, in memory of a bounded size.

    Parameters
    ----------
    words
        How each token is written, by id; tokens written as `""` are left out.
    minimum_words
        Sentences of fewer words between spaces are left out; Thai and Japanese ones, which have
        no such words, of fewer characters.

    Returns
    -------
    counts : ndarray of int
        [len(words)], how often each token was written.
    lines : int
        Sentences written.
    """
    counts, lines = np.zeros(len(words), dtype=np.int64), 0
    long_enough = (text for text in corpus if _length(text) >= minimum_words)
    with Path(file).open("w", encoding="utf-8", newline="\n") as out:
        for encoded in encoded_batches(tokenizer, long_enough):
            for ids in encoded:
                if line := " ".join([words[i] for i in ids if words[i]]):
                    out.write(line + "\n")
                    lines += 1
            counts += np.bincount([i for ids in encoded for i in ids], minlength=len(words))
    counts[[not word for word in words]] = 0
    return counts, lines


def _length(text: str) -> int:
    return len(text) if _UNSPACED.search(text) else len(text.split())


def _largest_id(tokenizer: "PreTrainedTokenizerFast") -> int:
    return max(tokenizer.get_vocab().values())


def _without_special(tokenizer: "PreTrainedTokenizerFast", words: list[str]) -> list[str]:
    special = special_ids(tokenizer)
    return ["" if number in special else word for number, word in enumerate(words)]
