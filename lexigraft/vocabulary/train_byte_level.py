"""Trains byte-level BPE tokenizers, the family of GPT-2, Llama 3 and Qwen."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lexigraft.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Words with the space before them, digits one by one, other signs together, white space. Combining
# marks and the two joiners are parts of words: GPT-2's pattern, which leaves them out, cuts a
# Telugu letter off from its vowel sign.
_WORD = r"[\p{L}\p{M}\x{200C}\x{200D}]"
_PATTERN = rf" ?{_WORD}+|\p{{N}}| ?(?:(?!{_WORD})[^\s\p{{N}}])+|\s+(?!\S)|\s+"
# In letters of the byte alphabet: 16 characters of three bytes, the longest that SentencePiece
# makes. Scripts without spaces would otherwise get whole sentences for tokens.
_LONGEST = 48
_MINIMUM_COUNT = 2


def train_byte_level(texts: Iterable[str], size: int, special: Sequence[str]) -> "Tokenizer":
    """Train a byte-level BPE tokenizer with exactly `size` tokens.

    Parameters
    ----------
    texts
        Read once.
    special
        Special tokens, which have the first ids.

    Raises
    ------
    UserError
        The texts are empty, or too small for so many tokens, or `size` leaves no room for the 256
        bytes and the special tokens.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    smallest = 256 + len(special)
    if size < smallest:
        raise UserError(
            f"size: {size} tokens are too few: the bytes and the special tokens alone are "
            f"{smallest}; ask for more"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=_MINIMUM_COUNT,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=_LONGEST,
        show_progress=False,
    )
    tokenizer.train_from_iterator((text for text in texts if text.strip()), trainer)
    made = tokenizer.get_vocab_size()
    if made < size:
        raise UserError(
            f"size: asked for {size} tokens, but the text yields only {made}; ask for fewer or "
            "give more text"
        )
    return tokenizer
