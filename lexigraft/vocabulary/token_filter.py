"""The words of a corpus that new tokens are learned from, and which tokens may be added."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable

from tokenizers import Tokenizer
from tqdm import tqdm

from lexigraft.errors import UserError
from lexigraft.vocabulary.bpe import Bpe
from lexigraft.vocabulary.token_bytes import WordSplitter, contains_any, piece_bytes

# The characters of English text: Latin letters, general punctuation, symbols, emoji. The joiners
# U+200C and U+200D are excluded because Indic and Arabic words need them.
_LATIN = re.compile("[\0-\u024f\u2000-\u200b\u2010-\u2bff\ufe0f\U0001f000-\U0001faff]*")
_CONTINUATION = bytes(range(0x80, 0xC0))
_VISIBLE_ASCII = re.compile("[!-~]")


def count_words(
    pre_tokenizer: Tokenizer, bpe: Bpe, corpus: Iterable[str], across_words: bool = False
) -> Counter[str]:
    """Count the words of a corpus, as `words_of` splits them; a UserError if there are none."""
    words: Counter[str] = Counter()
    split = WordSplitter(pre_tokenizer)
    for text in tqdm(corpus, desc="words", unit=" texts", disable=None):
        words.update(words_of(split, bpe, text, across_words))
    if not words:
        raise UserError("the corpus is empty: no text has a word to learn tokens from")
    return words


def words_of(split: WordSplitter, bpe: Bpe, text: str, across_words: bool = False) -> list[str]:
    """The words of a text, in the spelling of the model's tokens, split before every space.

    SentencePiece models have no pre-tokenizer and would learn tokens across words, which
    `across_words` allows.
    """
    # A byte order mark or a stray line end is not part of any sentence.
    if not (text := text.strip("\r\n\ufeff")):
        return []
    boundary = bpe.boundary
    word = re.compile(f"{boundary}*[^{boundary}]+")
    words: list[str] = []
    for piece in split(text):
        # Nearly always a single word; a search in every piece takes several times longer.
        if across_words or (len(piece) > 1 and piece.rfind(boundary) < 1):
            words.append(piece)
        else:
            words += word.findall(piece)
    return words


def token_filter(
    bpe: Bpe,
    words: Counter[str],
    protect_latin: bool,
    ascii: bool = True,
    across_words: bool = False,
) -> Callable[[str], bool]:
    """Return a function that decides whether a token may be added to a tokenizer.

    A token is rejected if it is in the vocabulary or contains an added token; unless
    `across_words`, if it contains white space after its first character or, in SentencePiece
    models, combines letters with other characters or digits with anything, as their trainer does;
    with `protect_latin`, if it may occur in Latin script, unless the corpus is mostly in Latin
    script itself; and without `ascii`, if it contains ASCII characters other than a leading space.
    """
    protect_latin = protect_latin and not _is_mostly_latin(words, bpe.spelling)
    added_tokens = bpe.state.get("added_tokens", ())
    added = {token["content"].encode() for token in added_tokens}
    inside_words = {token["content"].encode() for token in added_tokens if not token["single_word"]}

    def accepts(token: str) -> bool:
        data = piece_bytes(token, bpe.spelling)
        text = data.decode("utf-8", errors="replace")
        return (
            token not in bpe.vocab
            and data not in added
            and not contains_any(data, inside_words)
            and (across_words or not any(character.isspace() for character in text[1:]))
            and (across_words or bpe.byte_level or not _mixes_character_classes(text))
            and not (protect_latin and _may_be_latin(data))
            and (ascii or not _VISIBLE_ASCII.search(text))
        )

    return accepts


def _mixes_character_classes(text: str) -> bool:
    """Whether a token combines digits with anything, or letters with characters of another kind."""
    categories = map(unicodedata.category, text.removeprefix(" "))
    # Marks and joiners (Cf) are parts of words.
    classes = {
        "letter" if category[0] in "LM" or category == "Cf" else category[0] == "N" and "number"
        for category in categories
    }
    return len(classes) > 1 or (classes == {"number"} and len(text) > 1)


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
