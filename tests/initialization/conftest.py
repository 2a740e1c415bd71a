"""Toy tokenizers small enough to work out by hand, and real ones that are expanded."""

import io
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.source.sentencepiece import sentencepiece_to_fast
from lexigraft.vocabulary.expand import expand_tokenizer

PIECES = (
    "<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcdef",
)  # fmt: skip


def _with_merges(vocabulary, merges):
    vocabulary = dict(vocabulary)
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    return vocabulary


@pytest.fixture(scope="session")
def byte_level():
    """Factory of byte-level BPE tokenizers: the byte alphabet, `<s>`, and the results of merges."""

    def build(merges, first=(), **special):
        """`first`: new merges of a higher priority, whose tokens still come last."""
        alphabet = ["<s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
        vocabulary = {token: i for i, token in enumerate(alphabet)}
        vocabulary = _with_merges(vocabulary, [*merges, *first])
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[*first, *merges]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", **special)

    return build


@pytest.fixture(scope="session")
def byte_fallback():
    """Factory of SentencePiece-like BPE tokenizers: a leading `▁`, letters a to f, 256 bytes."""

    def build(merges, new_characters="", new_merges=(), fallback=True):
        vocabulary = _with_merges({piece: i for i, piece in enumerate(PIECES)}, merges)
        for character in new_characters:
            vocabulary[character] = len(vocabulary)
        merges = [*merges, *new_merges]
        vocabulary = _with_merges(vocabulary, new_merges)
        tokenizer = Tokenizer(
            models.BPE(
                vocab=vocabulary, merges=list(merges), unk_token="<unk>", byte_fallback=fallback
            )
        )
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
        )

    return build


@pytest.fixture(scope="session")
def spelled():
    """Text in the byte alphabet: `spelled(" ab")` is `"Ġab"`."""
    alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def spell(text):
        return "".join(piece for piece, _ in alphabet.pre_tokenize_str(text))

    return spell


# Model, normalizer, pre-tokenizer, decoder, trainer and its options, and roles of special tokens.
FAMILIES = {
    "byte-level": (
        models.BPE, None, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel(),
        trainers.BpeTrainer, {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()},
        ["<|end|>"], {"bos_token": "<|end|>", "eos_token": "<|end|>"},
    ),
    "unigram": (
        models.Unigram, normalizers.NFKC(), pre_tokenizers.Metaspace(), decoders.Metaspace(),
        trainers.UnigramTrainer, {"unk_token": "<unk>"}, ["<s>", "<pad>", "</s>", "<unk>"],
        {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
    ),
    "wordpiece": (
        partial(models.WordPiece, unk_token="[UNK]"), normalizers.BertNormalizer(lowercase=True),
        pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(), trainers.WordPieceTrainer, {},
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]"],
        {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"},
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def small_tokenizer():
    """Factory of tokenizers of all families, trained: `small_tokenizer(family, sentences, size)`.

    With the pipeline and the special tokens of each family: GPT-2's, Llama's, XLM-R's, BERT's.
    """

    def build(family, sentences, size):
        if family == "byte-fallback":
            return _sentencepiece_bpe(sentences, size)
        model, normalizer, splitter, decoder, trainer, options, special, roles = FAMILIES[family]
        backend = Tokenizer(model())
        if normalizer:
            backend.normalizer = normalizer
        backend.pre_tokenizer, backend.decoder = splitter, decoder
        options = {"vocab_size": size, "special_tokens": special, "show_progress": False, **options}
        backend.train_from_iterator(sentences, trainer(**options))
        return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)

    return build


def _sentencepiece_bpe(sentences, size):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, vocab_size=size, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", num_threads=1, minloglevel=2,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokenizer.model"
        file.write_bytes(model.getvalue())
        return sentencepiece_to_fast(file)


@pytest.fixture
def row():
    """Recipe of one token as a dict: vocabulary string of the source token -> weight."""

    def look(fitted, token):
        token_id = fitted.pair_.target_tokenizer.get_vocab()[token]
        weights = fitted.weights_[[token_id]]
        strings = fitted.pair_.source_tokenizer.convert_ids_to_tokens(weights.indices.tolist())
        return dict(zip(strings, weights.data.tolist(), strict=True))

    return look


@pytest.fixture(scope="session")
def expanded_telugu(smollm2_cut, telugu):
    """SmolLM2's first merges with 100 new Telugu tokens."""
    return expand_tokenizer(smollm2_cut, telugu, new_tokens=100)


@pytest.fixture
def matrix():
    """Random rows: `matrix(rows, h=8)`, float32."""

    def draw(rows, h=8, seed=0):
        return np.random.default_rng(seed).normal(size=(rows, h)).astype(np.float32)

    return draw


@pytest.fixture(scope="session")
def token_vectors():
    """Vectors by vocabulary string: `token_vectors(tokenizer, {"a": (1, 0), …})`."""

    def build(tokenizer, by_token):
        vocabulary = tokenizer.get_vocab()
        rows = sorted((vocabulary[token], row) for token, row in by_token.items())
        tokens = np.array([token for token, _ in rows], dtype=np.int64)
        return TokenVectors(tokens, np.array([row for _, row in rows], dtype=np.float32))

    return build


@pytest.fixture(scope="session")
def random_vectors():
    """A random vector for every token: `random_vectors(tokenizer, dimensions=8, seed=0)`."""

    def build(tokenizer, dimensions=8, seed=0):
        tokens = np.array(sorted(tokenizer.get_vocab().values()), dtype=np.int64)
        drawn = np.random.default_rng(seed).normal(size=(len(tokens), dimensions))
        return TokenVectors(tokens, drawn.astype(np.float32))

    return build


@pytest.fixture(scope="session")
def many_new(byte_level):
    """A source of 257 tokens, one of them special, and a target with 1,500 tokens more."""
    return byte_level([]), byte_level([("a" + "b" * n, "b") for n in range(1500)])
