"""Train tokenizers that replace the source's: SentencePiece and byte-level BPE."""

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import Any

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError, unknown
from lexigraft.source.document_start import start_ids, surrounding
from lexigraft.source.encoding import check_corpus
from lexigraft.source.sentencepiece import parse_model, pipeline
from lexigraft.source.tokenizer import ROLES, settings_of
from lexigraft.vocabulary.bpe import read_bpe_pipeline
from lexigraft.vocabulary.continued import learned_tokens
from lexigraft.vocabulary.merges import PairRules
from lexigraft.vocabulary.token_bytes import piece_bytes, pre_tokens, special_ids
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, pair_separators, set_surrounding

FAMILIES = ("sentencepiece-bpe", "sentencepiece-unigram", "byte-level-bpe")
_UNKNOWN = "<unk>"

# Words with the preceding space, single digits, runs of other characters, white space. Combining
# marks and the two joiners are parts of words: GPT-2's pattern, without them, separates a Telugu
# letter from its vowel sign.
_WORD = r"[\p{L}\p{M}\x{200C}\x{200D}]"
_PATTERN = rf" ?{_WORD}+|\p{{N}}| ?(?:(?!{_WORD})[^\s\p{{N}}])+|\s+(?!\S)|\s+"
# Superwords span anything but digits and line ends.
_SUPERWORD_PATTERN = r"\p{N}|[^\p{N}\r\n]+|[\r\n]+"
_MOST_WORDS = 4
# In bytes: 16 characters of three bytes, the maximum of SentencePiece. Otherwise, whole sentences
# would become tokens in scripts without spaces.
_LONGEST_TOKEN = 48
_MINIMUM_COUNT = 2
# Fixed, so that Unigram training sums in the same order on every machine.
_THREADS = 8
# The library drops longer sentences (by default from 4,192 bytes on) with no more than a log line.
_LONGEST_SENTENCE = 100_000_000
_TOO_LITTLE_TEXT = (
    "size: asked for {size} tokens, but the text yields only {available}; ask for fewer or give "
    "more text"
)
_TOO_MANY = re.compile(r"Vocabulary size too high.*<= (\d+)")
_TOO_FEW = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


def train_tokenizer(
    corpus: Iterable[str],
    family: str,
    size: int = 50_000,
    source_tokenizer: PreTrainedTokenizerFast | None = None,
    superwords: float = 0.0,
) -> PreTrainedTokenizerFast:
    """Train a tokenizer of exactly `size` tokens that replaces the tokenizer of a model.

    Special tokens and bytes count. Decoding restores every text exactly, and no text has unknown
    tokens. The same texts give the same tokenizer. A UserError is raised for an unknown family, an
    empty corpus, or a size that is too large for the corpus or too small for its characters.

    Parameters
    ----------
    family
        `sentencepiece-bpe` (as in Llama 2, Mistral and Gemma) or `sentencepiece-unigram`, both with
        byte fallback, or `byte-level-bpe` (as in GPT-2, Llama 3 and Qwen).
    source_tokenizer
        The tokenizer to replace: its special tokens with their roles, its chat template, and the
        tokens that it adds to texts are preserved. By default the special tokens are `<unk>`, `<s>`
        and `</s>` (`<|endoftext|>` for byte-level BPE), and none is added to texts.
    superwords
        Share of the tokens that are learned last, across spaces (SuperBPE [1]_, which uses 0.1).
        These have at most four words and, with several words, no colon. Only for `byte-level-bpe`.

    References
    ----------
    .. [1] Liu et al. 2025, "SuperBPE: Space Travel for Language Models".

    Examples
    --------
    >>> import lexigraft
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> tokenizer = lexigraft.train_tokenizer(swahili, "sentencepiece-bpe", size=275)
    >>> len(tokenizer), tokenizer.tokenize("mto na maji")
    (275, ['▁mto', '▁na', '▁m', 'aj', 'i'])
    """
    return train_family(corpus, family, size, source_tokenizer, superwords)[0]


def train_family(
    corpus: Iterable[str],
    family: str,
    size: int,
    source_tokenizer: PreTrainedTokenizerFast | None = None,
    superwords: float = 0.0,
) -> tuple[PreTrainedTokenizerFast, bytes | None]:
    """Like `train_tokenizer`; also returns the content of `tokenizer.model` for SentencePiece."""
    if family not in FAMILIES:
        raise unknown("family", family, FAMILIES)
    check_corpus(corpus)
    if not isinstance(size, int) or size < 1:
        raise UserError(f"size: {size!r} is not a number of tokens (1, 2, 3 …)")
    byte_level = family == "byte-level-bpe"
    if not 0 <= superwords < 1:
        raise UserError(
            f"superwords: {superwords} is not a share of the tokens (from 0 to below 1)"
        )
    if superwords and not byte_level:
        raise UserError(f"superwords: only family byte-level-bpe supports them, not {family}")
    if source_tokenizer is not None:
        settings = settings_of(source_tokenizer) | {"clean_up_tokenization_spaces": False}
        settings |= {role: str(settings[role]) for role in ROLES if role in settings}
        # In the order of their ids.
        kept_ids = special_ids(source_tokenizer) | set(start_ids(source_tokenizer))
        special_tokens = source_tokenizer.convert_ids_to_tokens(sorted(kept_ids))
    else:
        begin, end = ("<|endoftext|>", "<|endoftext|>") if byte_level else ("<s>", "</s>")
        settings = {"bos_token": begin, "eos_token": end}
        special_tokens = list(dict.fromkeys((begin, end)))
    model: bytes | None = None
    if superwords and not isinstance(corpus, Sequence):
        corpus = list(corpus)  # to be read twice; a sequence may be on disk
    if byte_level:
        backend = _train_byte_level(
            _clean_texts(corpus), size - int(superwords * size), special_tokens
        )
        if superwords:
            backend = _with_superwords(backend, _clean_texts(corpus), size)
    else:
        # In GPT-2 the unknown token is also the end-of-text token; a piece can be only one of them.
        unknown_token = settings.get("unk_token", _UNKNOWN)
        other_roles = [value for role, value in settings.items() if role != "unk_token"]
        settings["unk_token"] = _UNKNOWN if unknown_token in other_roles else unknown_token
        model_proto = _train_sentencepiece(
            _clean_texts(corpus), family, size, special_tokens, settings
        )
        model, backend = model_proto.SerializeToString(), pipeline(model_proto)
    if source_tokenizer is not None:
        surrounding_tokens = surrounding(source_tokenizer)
        pair_format = pair_separators(source_tokenizer)
        set_surrounding(backend, *surrounding_tokens, byte_level, pair_format)
    return fast_tokenizer(backend, settings), model


def train_pieces(
    corpus: Iterable[str], size: int, longest_sentence: int = _LONGEST_SENTENCE
) -> list[str]:
    """Train a SentencePiece BPE model of at most `size` pieces; returns these in training order.

    Merged pieces come first, then single characters. Sentences of more than `longest_sentence`
    bytes are left out. The other settings are those of Yamaguchi et al.'s code.
    """
    settings = {
        "character_coverage": 0.99995,
        "hard_vocab_limit": False,
        "max_sentence_length": longest_sentence,
    }
    model = _train_sentencepiece(
        corpus, "sentencepiece-bpe", size, (), {"unk_token": _UNKNOWN}, settings
    )
    normal = model.SentencePiece.NORMAL
    return [piece.piece for piece in model.pieces if piece.type == normal]


def _clean_texts(corpus: Iterable[str]) -> Iterator[str]:
    """Yield the texts that are not blank, without byte order marks and stray line ends."""
    return (text for line in corpus if (text := line.strip("\r\n\ufeff")).strip())


def _splitter(pattern: str) -> pre_tokenizers.PreTokenizer:
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), to_bytes])


def _train_byte_level(texts: Iterable[str], size: int, special_tokens: Sequence[str]) -> Tokenizer:
    """Train byte-level BPE with exactly `size` tokens; the special tokens have the first ids."""
    smallest = 256 + len(special_tokens)
    if size < smallest:
        raise UserError(
            f"size: {size} tokens are too few: the bytes and the special tokens alone are "
            f"{smallest}; ask for more"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = _splitter(_PATTERN)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=_MINIMUM_COUNT,
        special_tokens=[
            AddedToken(token, special=True, normalized=False) for token in special_tokens
        ],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=_LONGEST_TOKEN,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if (size_reached := tokenizer.get_vocab_size()) < size:
        raise UserError(_TOO_LITTLE_TEXT.format(size=size, available=size_reached))
    return tokenizer


def _with_superwords(backend: Tokenizer, texts: Iterable[str], size: int) -> Tokenizer:
    """Continue learning merges up to `size` tokens, on texts that are not split into words."""
    backend.pre_tokenizer = _splitter(_SUPERWORD_PATTERN)
    bpe = read_bpe_pipeline(backend)
    words = Counter(word for text in texts for word in pre_tokens(backend, text))
    rules = PairRules(bpe.mergeable, bpe.merges)
    # SuperBPE always takes the most frequent pair, even if it uses up a token.
    tokens = learned_tokens(words, bpe, rules, _may_be_superword, postpones=False)
    added = list(islice(tokens, size - len(bpe.vocab)))
    if (size_reached := len(bpe.vocab) + len(added)) < size:
        raise UserError(_TOO_LITTLE_TEXT.format(size=size, available=size_reached))
    return Tokenizer.from_str(json.dumps(bpe.extended(added, rules.merges())))


def _may_be_superword(token: str) -> bool:
    """Whether a token has few enough words, none too long, and no colon if there are several."""
    words = piece_bytes(token, "byte-level").split()
    return (
        len(words) <= _MOST_WORDS
        and not (len(words) > 1 and any(b":" in word for word in words))
        and all(len(word) <= _LONGEST_TOKEN for word in words)
    )


def _train_sentencepiece(
    texts: Iterable[str],
    family: str,
    size: int,
    special_tokens: Sequence[str],
    roles: Mapping[str, Any],
    overrides: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Train a SentencePiece model with exactly `size` pieces; returns its protocol buffer.

    The settings are those of Llama 2, Mistral and Gemma. The piece for unknown characters has id 0;
    the other special tokens follow in their order. `overrides` are settings of the library.
    """
    sentences = (line for text in texts for line in text.split("\n") if line.strip())
    first = next(sentences, None)
    if first is None:
        raise UserError("the corpus is empty: no text has a word to learn tokens from")
    control = [token for token in special_tokens if token != roles["unk_token"]]
    buffer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=chain([first], sentences),
            model_writer=buffer,
            **{
                "model_type": family.removeprefix("sentencepiece-"),
                "vocab_size": size,
                "byte_fallback": True,
                "character_coverage": 0.9995,
                "normalization_rule_name": "identity",
                "remove_extra_whitespaces": False,
                "add_dummy_prefix": True,
                "split_digits": True,
                "allow_whitespace_only_pieces": True,
                "max_sentence_length": _LONGEST_SENTENCE,
                "unk_id": 0,
                "unk_piece": roles["unk_token"],
                "bos_id": -1,
                "eos_id": -1,
                "pad_id": -1,
                "control_symbols": control,
                "num_threads": _THREADS,
                "minloglevel": 2,
                **overrides,
            },
        )
    except RuntimeError as error:
        if match := _TOO_MANY.search(str(error)):
            raise UserError(_TOO_LITTLE_TEXT.format(size=size, available=match[1])) from None
        if match := _TOO_FEW.search(str(error)):
            raise UserError(
                f"size: {size} tokens are too few: special tokens, bytes and the characters of the "
                f"text alone are {match[1]}; ask for more"
            ) from None
        raise
    model = parse_model(buffer.getvalue(), "the model trained")
    for role in ("bos", "eos", "pad"):
        piece = roles.get(f"{role}_token")
        if piece in control:
            setattr(model.trainer_spec, f"{role}_piece", piece)
            setattr(model.trainer_spec, f"{role}_id", control.index(piece) + 1)
    return model
