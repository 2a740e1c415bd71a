"""Expansion of a tokenizer by k tokens of a target language, each of which some text produces."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from tqdm import tqdm

from lexigraft.errors import UserError
from lexigraft.vocabulary.bpe import Bpe, Pair, read_bpe
from lexigraft.vocabulary.continued import (
    MINIMUM_GAIN,
    SentenceLimit,
    continue_merges,
    learned_tokens,
)
from lexigraft.vocabulary.marks import cuts_at_marks, is_in_marked_script, pre_tokenization
from lexigraft.vocabulary.merges import Key, PairRules, PieceRules, Rules, segment
from lexigraft.vocabulary.token_bytes import piece_bytes, pre_tokens, unreachable_by_merges
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, settings_of
from lexigraft.vocabulary.train import train_pieces

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

MERGES = ("continued", "append", "auxiliary-first")
TRAINERS = ("tokenizers", "sentencepiece")

# The characters of English text: Latin letters, general punctuation, symbols, emoji. The joiners
# U+200C and U+200D are excluded because Indic and Arabic words need them.
_LATIN = re.compile("[\0-\u024f\u2000-\u200b\u2010-\u2bff\ufe0f\U0001f000-\U0001faff]*")
_CONTINUATION = bytes(range(0x80, 0xC0))
_VISIBLE_ASCII = re.compile("[!-~]")


def expand_tokenizer(
    source_tokenizer: "PreTrainedTokenizerFast",
    corpus: Iterable[str],
    new_tokens: int,
    auxiliary_size: int = 50_000,
    merges: str = "continued",
    marks: str = "auto",
    english: Iterable[str] = (),
    english_change: float | None = None,
    ascii: bool = True,
    auxiliary_trainer: str = "tokenizers",
) -> "PreTrainedTokenizerFast":
    """Add exactly `new_tokens` tokens, learned from a corpus, to a BPE tokenizer.

    `append` and `auxiliary-first` follow Yamaguchi et al. [1]_: the most frequent new tokens of an
    auxiliary tokenizer that is trained on the corpus. A UserError is raised if the
    tokenizer is of another family or corrupt, the corpus is empty, or it yields too few tokens
    (with their number).

    Parameters
    ----------
    source_tokenizer
        A fast tokenizer, byte-level BPE (Llama 3, Qwen, GPT-2, SmolLM) or byte-fallback BPE
        (SentencePiece: Llama 2, Mistral, Gemma). It is not changed.
    corpus
        Texts in the target language, for example sentences. Read once.
    merges
        `continued`: segment the corpus with the source tokenizer and continue learning merges.
        `append`: merges of an auxiliary tokenizer of `auxiliary_size` tokens after those of the
        source. `auxiliary-first`: before them, as in the published code; changes how English is
        segmented.
    marks
        Whether the pre-tokenizer may cut letters from their combining marks (vowel signs, tone
        marks) as that of GPT-2, Llama 3 and Qwen does. `joined`: it no longer does. `apart`: it is
        unchanged, and no new token holds both. `auto`: joined where the corpus is in a script with
        marks and the pre-tokenizer can be changed.
    english, english_change
        Of these sentences, at most this share is segmented otherwise than by the source tokenizer:
        merges beyond that are not learned. For target languages in Latin script, with `continued`
        alone.
    ascii
        Whether a new token may have ASCII characters, a space at its beginning aside. False leaves
        the words of Latin script nearly as they were, German ones too (CW2V's code, its Table 3).
    auxiliary_trainer
        What trains the auxiliary tokenizer: `tokenizers`, Hugging Face's library, on the words of
        the source's pre-tokenizer; or, for a byte-fallback source, `sentencepiece`, with its own
        words, as in Yamaguchi et al. (§C.3). Byte-level sources always have the former.

    Returns
    -------
    PreTrainedTokenizerFast
        The ids of new tokens follow the last id of the source, including its added tokens. With
        `continued` and `append`, text without marks to which no new merge applies keeps its tokens.
        For corpora that are not mostly in Latin script, no new token can occur in English text, so
        this holds for all English text. No new token spans two words. With `continued`, the corpus
        uses every new token, unless it has too few of them.

    References
    ----------
    .. [1] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 3.

    Examples
    --------
    A model's tokenizer, here one that has seen a little English, learns eight tokens from Swahili:

    >>> import lexigraft
    >>> english = ["the rice and the river", "the river and the rain"] * 5
    >>> source = lexigraft.train_tokenizer(english, "byte-level-bpe", size=270)
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> tokenizer = lexigraft.expand_tokenizer(source, swahili, new_tokens=8)
    >>> len(tokenizer) - len(source)
    8
    >>> len(source.tokenize("mto na mvua")), tokenizer.tokenize("mto na mvua")
    (11, ['mto', 'Ġna', 'Ġmv', 'ua'])
    >>> tokenizer.tokenize("the river") == source.tokenize("the river")
    True
    """
    if merges not in MERGES:
        raise UserError(f"merges: {merges!r} is none of {', '.join(MERGES)}")
    if auxiliary_trainer not in TRAINERS:
        raise UserError(
            f"auxiliary_trainer: {auxiliary_trainer!r} is none of {', '.join(TRAINERS)}"
        )
    for name, value in (("new_tokens", new_tokens), ("auxiliary_size", auxiliary_size)):
        if not isinstance(value, int) or value < 1:
            raise UserError(f"{name}: {value!r} is not a number of tokens (1, 2, 3 …)")
    if isinstance(corpus, str):
        raise UserError("corpus is one string; give an iterable of texts, for example its lines")
    english = list(english)
    if english_change is not None and (merges != "continued" or not english):
        raise UserError("english_change: needs merges: continued, and English sentences")
    bpe = read_bpe(source_tokenizer)
    by_sentencepiece = auxiliary_trainer == "sentencepiece" and not bpe.byte_level
    # Read twice; a sequence may be on disk.
    twice = marks == "auto" or by_sentencepiece
    texts = list(corpus) if twice and not isinstance(corpus, Sequence) else corpus
    pre_tokenizer = pre_tokenization(source_tokenizer.backend_tokenizer, marks, texts)
    words = count_words(pre_tokenizer, bpe, texts)
    first = merges == "auxiliary-first"
    rules: Rules = (PairRules if bpe.byte_level else PieceRules)(
        bpe.mergeable, [] if first else bpe.merges
    )
    accepts = token_filter(bpe, words, protect_latin=not first, ascii=ascii)
    if merges == "continued":
        limit = None
        if english_change is not None:
            sentences = [words_of(pre_tokenizer, bpe, text) for text in english]
            limit = SentenceLimit(sentences, bpe, rules, english_change)
        added = continue_merges(words, bpe, rules, new_tokens, accepts, limit)
    else:
        if by_sentencepiece:
            auxiliary = train_auxiliary_pieces(texts, bpe, auxiliary_size)
        else:
            auxiliary = train_auxiliary(words, bpe, auxiliary_size)
        added = choose_tokens(auxiliary, rules, new_tokens, accepts, reorder=first)
    if len(added) < new_tokens:
        causes = [f"merges={merges!r}"]
        causes += [f"auxiliary_size={auxiliary_size}"] if merges != "continued" else []
        causes += [f"english_change={english_change}"] if english_change is not None else []
        causes += [] if ascii else ["ascii=False"]
        advice = "ask for fewer or give more text"
        spelled = (piece_bytes(word, bpe.spelling).decode(errors="ignore") for word in words)
        if cuts_at_marks(pre_tokenizer) and is_in_marked_script(spelled):
            causes += ["a pre-tokenizer that cuts words at combining marks"]
            advice = f"set marks: joined, {advice}" if marks == "apart" else advice
        raise UserError(
            f"new_tokens: asked for {new_tokens}, but only {len(added)} can be added with "
            f"{' and '.join(causes)}; {advice}"
        )
    if first:
        for pair in bpe.merges:
            key: Key = rules.key(*pair)
            rules.add(key)
    return _extended(source_tokenizer, bpe, pre_tokenizer, added, rules)


def expanded_sizes(
    source_tokenizer: "PreTrainedTokenizerFast", corpus: Iterable[str], sizes: Sequence[int]
) -> Iterator[tuple[int, "PreTrainedTokenizerFast"]]:
    """Yield for each size in ascending order the tokenizer that `expand_tokenizer` makes of it.

    The merges are `continued`, and learned once for all sizes, since a larger vocabulary begins
    with the tokens of a smaller one. Sizes that the corpus does not yield are left out; the last
    pair then has all the tokens that there are, if any. Raises what `expand_tokenizer` raises.

    Examples
    --------
    >>> import lexigraft
    >>> from lexigraft.vocabulary import expanded_sizes
    >>> source = lexigraft.train_tokenizer(["the rice and the river"] * 5, "byte-level-bpe", 265)
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> for new_tokens, tokenizer in expanded_sizes(source, swahili, [2, 4, 8]):
    ...     print(new_tokens, "new tokens:", len(tokenizer.tokenize("mto na maji")), "tokens")
    2 new tokens: 9 tokens
    4 new tokens: 7 tokens
    8 new tokens: 5 tokens
    """
    bpe = read_bpe(source_tokenizer)
    texts = corpus if isinstance(corpus, Sequence) else list(corpus)
    pre_tokenizer = pre_tokenization(source_tokenizer.backend_tokenizer, "auto", texts)
    words = count_words(pre_tokenizer, bpe, texts)
    rules: Rules = (PairRules if bpe.byte_level else PieceRules)(bpe.mergeable, bpe.merges)
    tokens = learned_tokens(words, bpe, rules, token_filter(bpe, words, protect_latin=True))
    added: list[str] = []
    for size in sorted({*sizes}):
        before = len(added)
        added += islice(tokens, size - len(added))
        if len(added) > before:
            yield len(added), _extended(source_tokenizer, bpe, pre_tokenizer, added, rules)
        if len(added) < size:
            return


def _extended(
    source_tokenizer: "PreTrainedTokenizerFast",
    bpe: Bpe,
    pre_tokenizer: "Tokenizer",
    added: Sequence[str],
    rules: Rules,
) -> "PreTrainedTokenizerFast":
    """The source tokenizer with new tokens, their merges, and the pre-tokenizer of another."""
    state = bpe.extended(added, rules.merges())
    state["pre_tokenizer"] = json.loads(pre_tokenizer.to_str())["pre_tokenizer"]
    target = fast_tokenizer(state, settings_of(source_tokenizer))
    if unreachable := unreachable_by_merges(target, added):
        raise RuntimeError(
            f"{len(unreachable)} new tokens can never be produced, first {unreachable[0]!r}"
        )
    return target


def new_token_ids(
    source_tokenizer: "PreTrainedTokenizerFast", target_tokenizer: "PreTrainedTokenizerFast"
) -> list[int]:
    """Ids that the target tokenizer adds to the source's, in order.

    A UserError is raised if the target is no expansion: the token of a source id differs.
    """
    source, target = source_tokenizer.get_vocab(), target_tokenizer.get_vocab()
    for token, number in source.items():
        if target.get(token) != number:
            raise UserError(
                f"the target tokenizer does not extend the source: {token!r} has id {number} in "
                f"the source and {target.get(token, 'none')} in the target"
            )
    return sorted(number for token, number in target.items() if token not in source)


def train_auxiliary(words: Counter[str], bpe: Bpe, size: int) -> list[Pair]:
    """Merges of a BPE tokenizer with at most `size` tokens trained on the words, in order.

    No merge spans two words, whatever the source's pre-tokenizer.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(BPE())
    trainer = BpeTrainer(
        vocab_size=size,
        min_frequency=MINIMUM_GAIN,
        initial_alphabet=sorted(ByteLevel.alphabet()) if bpe.byte_level else [],
        show_progress=False,
    )
    # The words are already split; each list counts as that many texts.
    tokenizer.train_from_iterator(([word] * count for word, count in words.items()), trainer)
    return [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]


def train_auxiliary_pieces(corpus: Iterable[str], bpe: Bpe, size: int) -> list[Pair]:
    """Merges into the new pieces of a SentencePiece model of at most `size` pieces, in order.

    A merge is a pair for the sake of `choose_tokens`: SentencePiece merges any two tokens into a
    piece.
    """
    pieces = train_pieces(corpus, size)
    return [
        (piece[:-1], piece[-1]) for piece in pieces if len(piece) > 1 and piece not in bpe.vocab
    ]


def choose_tokens(
    auxiliary: list[Pair],
    rules: Rules,
    new_tokens: int,
    accepts: Callable[[str], bool],
    reorder: bool,
) -> list[str]:
    """Add the most frequent new tokens of the auxiliary tokenizer, with their merges, to `rules`.

    `auxiliary` are its merges, most frequent first; `rules` are the merges of the source (`append`)
    or none yet (`auxiliary-first`). Returns the new tokens in order, fewer than `new_tokens` if
    there are not enough candidates.

    A candidate is accepted if the merges so far produce the two parts of its own merge; otherwise
    no text could produce it, and it is skipped. Characters of it that are not tokens are added
    before it and count as new tokens. With `reorder`, auxiliary merges of source tokens into a
    source token are added too: they move that token forward in the order of merges, which changes
    how English is segmented.
    """
    added: list[str] = []
    for left, right in auxiliary:
        key: Key = rules.key(left, right)
        piece = left + right
        if piece in rules.known or piece in rules.new:
            both = all(part in rules.known or part in rules.new for part in (left, right))
            if both and (reorder or rules.touches_new(key)):
                rules.add(key)
            continue
        characters = dict.fromkeys(piece)
        needed = [one for one in characters if one not in rules.known and one not in rules.new]
        if len(added) + len(needed) + 1 > new_tokens or not accepts(piece):
            continue
        parts = segment(piece, rules.rank)
        if len(parts) == 2 and rules.key(*parts) == key:
            rules.new.update(needed)
            rules.add(key)
            added += [*needed, piece]
    return added


def count_words(pre_tokenizer: "Tokenizer", bpe: Bpe, corpus: Iterable[str]) -> Counter[str]:
    """Count the words of a corpus, see `words_of`; a UserError is raised if it has none."""
    words: Counter[str] = Counter()
    for text in tqdm(corpus, desc="words", unit=" texts", disable=None):
        words.update(words_of(pre_tokenizer, bpe, text))
    if not words:
        raise UserError("the corpus is empty: no text has a word to learn tokens from")
    return words


def words_of(pre_tokenizer: "Tokenizer", bpe: Bpe, text: str) -> list[str]:
    """The words of a text, in the spelling of the model's tokens.

    Words are the output of the normalizer and the pre-tokenizer of `pre_tokenizer`, further split
    before every space: SentencePiece models have no pre-tokenizer and would learn tokens across
    words.
    """
    # A byte order mark or a stray line end is not part of any sentence.
    if not (text := text.strip("\r\n\ufeff")):
        return []
    word = re.compile(f"{bpe.boundary}*[^{bpe.boundary}]+")
    return [part for piece in pre_tokens(pre_tokenizer, text) for part in word.findall(piece)]


def token_filter(
    bpe: Bpe, words: Counter[str], protect_latin: bool, ascii: bool = True
) -> Callable[[str], bool]:
    """A function that tells whether a token may be added to a tokenizer.

    A token is rejected if it is already in the vocabulary; if it contains white space after its
    first character; and, in SentencePiece models, if it combines letters with other characters or
    digits with anything, as their trainer does. (In byte-level models the pre-tokenizer ensures
    this.) With `protect_latin` also if it may occur in Latin script, unless the words of the corpus
    are mostly in Latin script themselves. Otherwise names and loan words of, e.g., a Telugu corpus
    would become tokens that change how English is segmented. Without `ascii` also if it has any
    ASCII character but a space at its beginning.
    """
    protect_latin = protect_latin and not _is_mostly_latin(words, bpe.spelling)

    def accepts(token: str) -> bool:
        data = piece_bytes(token, bpe.spelling)
        text = data.decode("utf-8", errors="replace")
        return (
            token not in bpe.vocab
            and not any(character.isspace() for character in text[1:])
            and (bpe.byte_level or not _joins_classes(text))
            and not (protect_latin and _may_be_latin(data))
            and (ascii or not _VISIBLE_ASCII.search(text))
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
