"""Expansion of a tokenizer by k tokens of a target language, each of which some text produces."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tqdm import tqdm

from lexigraft.errors import UserError
from lexigraft.vocabulary.auxiliary_tokenizer import choose_tokens, train_auxiliary
from lexigraft.vocabulary.bpe import Bpe, extended, read_bpe
from lexigraft.vocabulary.continued import continue_merges
from lexigraft.vocabulary.merge_rules import Key, PairRules, PieceRules, Rules
from lexigraft.vocabulary.reachability import unreachable_by_merges
from lexigraft.vocabulary.token_bytes import piece_bytes, pre_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MERGES = ("continued", "append", "auxiliary-first")

# The characters of English text: Latin letters, general punctuation, symbols, emoji. The joiners
# U+200C and U+200D are excluded because Indic and Arabic words need them.
_LATIN = re.compile("[\0-\u024f\u2000-\u200b\u2010-\u2bff\ufe0f\U0001f000-\U0001faff]*")
_CONTINUATION = bytes(range(0x80, 0xC0))


def expand_tokenizer(
    source_tokenizer: "PreTrainedTokenizerFast",
    corpus: Iterable[str],
    new_tokens: int,
    auxiliary_size: int = 50_000,
    merges: str = "continued",
) -> "PreTrainedTokenizerFast":
    """Add exactly `new_tokens` tokens, learned from a corpus, to a BPE tokenizer.

    `append` and `auxiliary-first` follow Yamaguchi et al. (lowres, §3): the most frequent new
    tokens of an auxiliary tokenizer that is trained on the corpus.

    Parameters
    ----------
    source_tokenizer
        A fast tokenizer, byte-level BPE (Llama 3, Qwen, GPT-2, SmolLM) or byte-fallback BPE
        (SentencePiece: Llama 2, Mistral, Gemma). It is not changed.
    corpus
        Texts in the target language, for example sentences. Read once.
    new_tokens
        The number of tokens to add. Their ids follow the last id of the source, including its
        added tokens.
    auxiliary_size
        Size of the auxiliary tokenizer of `append` and `auxiliary-first`.
    merges
        `continued`: segment the corpus with the source tokenizer and continue learning merges.
        `append`: merges of an auxiliary tokenizer after those of the source.
        `auxiliary-first`: before them, as in the published code; changes how English is segmented.

    Returns
    -------
    PreTrainedTokenizerFast
        With `continued` and `append`, text to which no new merge applies keeps its tokens. For
        corpora that are not mostly in Latin script, no new token can occur in English text, so this
        holds for all English text. No new token spans two words.

    Raises
    ------
    UserError
        The tokenizer is of another family or corrupt, the corpus is empty, or it yields too few
        tokens (with their number).

    Examples
    --------
    >>> tokenizer = expand_tokenizer(source, open("train.txt"), new_tokens=100)  # doctest: +SKIP
    >>> len(tokenizer) - len(source)  # doctest: +SKIP
    100
    """
    if merges not in MERGES:
        raise UserError(f"merges: {merges!r} is none of {', '.join(MERGES)}")
    for name, value in (("new_tokens", new_tokens), ("auxiliary_size", auxiliary_size)):
        if not isinstance(value, int) or value < 1:
            raise UserError(f"{name}: {value!r} is not a number of tokens (1, 2, 3 …)")
    bpe = read_bpe(source_tokenizer)
    words = count_words(source_tokenizer, bpe, corpus)
    first = merges == "auxiliary-first"
    rules: Rules = (PairRules if bpe.byte_level else PieceRules)(
        bpe.mergeable, [] if first else bpe.merges
    )
    accepts = token_filter(bpe, words, protect_latin=not first)
    if merges == "continued":
        added = continue_merges(words, bpe, rules, new_tokens, accepts)
    else:
        auxiliary = train_auxiliary(words, bpe, auxiliary_size)
        added = choose_tokens(auxiliary, rules, new_tokens, accepts, reorder=first)
    if len(added) < new_tokens:
        limit = "" if merges == "continued" else f" and auxiliary_size={auxiliary_size}"
        raise UserError(
            f"new_tokens: asked for {new_tokens}, but only {len(added)} can be added with "
            f"merges={merges!r}{limit}; ask for fewer or give more text"
        )
    if first:
        for left, right in bpe.merges:
            key: Key = rules.key(left, right)
            rules.add(key)
    target = extended(source_tokenizer, added, rules.merges())
    if unreachable := unreachable_by_merges(read_bpe(target), added):
        raise RuntimeError(
            f"{len(unreachable)} new tokens can never be produced, first {unreachable[0]!r}"
        )
    return target


def new_token_ids(
    source_tokenizer: "PreTrainedTokenizerFast", target_tokenizer: "PreTrainedTokenizerFast"
) -> list[int]:
    """Ids that the target tokenizer adds to the source's, in order.

    Raises
    ------
    UserError
        The target is not an expansion of the source: the token of a source id differs.
    """
    source, target = source_tokenizer.get_vocab(), target_tokenizer.get_vocab()
    for token, number in source.items():
        if target.get(token) != number:
            raise UserError(
                f"the target tokenizer does not extend the source: {token!r} has id {number} in "
                f"the source and {target.get(token, 'none')} in the target"
            )
    return sorted(number for token, number in target.items() if token not in source)


def count_words(
    tokenizer: "PreTrainedTokenizerFast", bpe: Bpe, corpus: Iterable[str]
) -> Counter[str]:
    """Count the words of a corpus, in the spelling of the model's tokens.

    Words are the output of the tokenizer's normalizer and pre-tokenizer, further split before every
    space: SentencePiece models have no pre-tokenizer and would learn tokens across words.

    Raises
    ------
    UserError
        The corpus has no word, or is one string instead of an iterable of texts.
    """
    if isinstance(corpus, str):
        raise UserError("corpus is one string; give an iterable of texts, for example its lines")
    word = re.compile(f"{bpe.boundary}*[^{bpe.boundary}]+")
    words: Counter[str] = Counter()
    for text in tqdm(corpus, desc="words", unit=" texts", disable=None):
        # A byte order mark or a stray line end is not part of any sentence.
        if not (text := text.strip("\r\n\ufeff")):
            continue
        words.update(part for piece in pre_tokens(tokenizer, text) for part in word.findall(piece))
    if not words:
        raise UserError("the corpus is empty: no text has a word to learn tokens from")
    return words


def token_filter(bpe: Bpe, words: Counter[str], protect_latin: bool) -> Callable[[str], bool]:
    """A function that tells whether a token may be added to a tokenizer.

    A token is rejected if it is already in the vocabulary; if it contains white space after its
    first character; and, in SentencePiece models, if it combines letters with other characters or
    digits with anything, as their trainer does. (In byte-level models the pre-tokenizer ensures
    this.)

    Parameters
    ----------
    words
        The words of the corpus with their counts.
    protect_latin
        Reject tokens that may occur in Latin script, unless the corpus itself is mostly in Latin
        script. Otherwise names and loan words of, e.g., a Telugu corpus would become tokens that
        change how English is segmented.
    """
    spelling = "byte-level" if bpe.byte_level else "sentencepiece"
    protect_latin = protect_latin and not _is_mostly_latin(words, spelling)

    def accepts(token: str) -> bool:
        data = piece_bytes(token, spelling)
        text = data.decode("utf-8", errors="replace")
        return (
            token not in bpe.vocab
            and not any(character.isspace() for character in text[1:])
            and (bpe.byte_level or not _joins_classes(text))
            and not (protect_latin and _may_be_latin(data))
        )

    return accepts


def _joins_classes(text: str) -> bool:
    """Whether a token combines digits with anything, or letters with characters of another kind."""
    kinds = {_kind(character) for character in text.removeprefix(" ")}
    return len(kinds) > 1 or (kinds == {"number"} and len(text) > 1)


def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] == "N":
        return "number"
    # Marks and joiners (Cf) are parts of words.
    return "letter" if category[0] in "LM" or category == "Cf" else "other"


def _may_be_latin(data: bytes) -> bool:
    """Whether these bytes may occur in Latin script.

    An incomplete character at the end is completed to its first possibility: every block of Latin
    letters, punctuation and symbols begins with such a completion.
    """
    data = data.lstrip(_CONTINUATION)
    for missing in range(4):
        try:
            return bool(_LATIN.fullmatch((data + b"\x80" * missing).decode("utf-8")))
        except UnicodeDecodeError:
            continue
    return False


def _is_mostly_latin(words: Counter[str], spelling: str) -> bool:
    latin = total = 0
    for word, count in words.items():
        text = piece_bytes(word, spelling).decode("utf-8", errors="ignore")
        letters = "".join(character for character in text if character.isalpha())
        latin += count * sum(map(len, _LATIN.findall(letters)))
        total += count * len(letters)
    return 2 * latin >= total
