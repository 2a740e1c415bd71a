"""Toy tokenizers whose tokens fastText would trip over, and a small trained fastText model."""

import random

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TOKENS = ("<s>", "a", "b", "c", "Ġa", " ", "\n", "␊", "␊␊", "</s>", "\u00a0", "__label__a")


@pytest.fixture(scope="session")
def letters():
    """Splits text into the single characters of TOKENS; only `<s>` is special."""
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    merges = [("␊", "␊")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


@pytest.fixture(scope="session")
def mixed_texts():
    """600 sentences in which `a` and `b` stand in the same places, and `c` in others."""
    draws = random.Random(0)
    return [
        "".join(draws.choice("ab") + "\n" if i % 2 else "c " for i in range(8)) for _ in range(600)
    ]


@pytest.fixture
def vec(tmp_path):
    """Factory of `.vec` files: word -> numbers."""

    def write(words, name="words.vec", header=None):
        lines = [header or f"{len(words)} 2", *(f"{w} {numbers}" for w, numbers in words.items())]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / name

    return write


@pytest.fixture(scope="session")
def word_model(tmp_path_factory, fasttext):
    """fastText word vectors of nineteen words with character n-grams, as a `.bin`."""
    folder = tmp_path_factory.mktemp("words")
    words = ["of", "and", "to", "in", *(f"{a}{b}" for a in ("ab", "τη", "నా") for b in "abcdλ")]
    sentences = (" ".join(words[i:] + words[:i]) for i in range(len(words)))
    (folder / "text.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    model = fasttext.train_unsupervised(
        str(folder / "text.txt"), dim=8, minCount=1, bucket=100, thread=1, verbose=0
    )
    model.save_model(str(folder / "words.bin"))
    return folder / "words.bin"


@pytest.fixture(scope="session")
def byte_letters():
    """Splits text into its bytes; no token is special."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)
