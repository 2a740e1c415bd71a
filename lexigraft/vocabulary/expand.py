"""Expand a tokenizer by k tokens of a target language, all of them reachable."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tokenizers import Tokenizer
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError, unknown
from lexigraft.source.encoding import check_corpus
from lexigraft.source.tokenizer import settings_of
from lexigraft.vocabulary.auxiliary_tokenizer import choose_tokens, train_auxiliary, used_pieces
from lexigraft.vocabulary.bpe import Bpe, read_bpe
from lexigraft.vocabulary.continued import SentenceLimit, learned_tokens
from lexigraft.vocabulary.marks import cuts_at_marks, is_in_marked_script, pre_tokenization
from lexigraft.vocabulary.merges import Key, PairRules, PieceRules, Rules
from lexigraft.vocabulary.token_bytes import WordSplitter, piece_bytes, unreachable_by_merges
from lexigraft.vocabulary.token_filter import count_words, token_filter, words_of
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer
from lexigraft.vocabulary.train import train_pieces

MERGES = ("continued", "append", "auxiliary-first")
TRAINERS = ("tokenizers", "sentencepiece")
# SentencePiece's default, in bytes, which Yamaguchi et al.'s code keeps.
_PUBLISHED_LONGEST_SENTENCE = 4192


def expand_tokenizer(
    source_tokenizer: PreTrainedTokenizerFast,
    corpus: Iterable[str],
    new_tokens: int,
    auxiliary_size: int = 50_000,
    merges: str = "continued",
    marks: str = "auto",
    english: Iterable[str] = (),
    english_change: float | None = None,
    ascii: bool = True,
    auxiliary_trainer: str = "tokenizers",
    protect_latin: bool | None = None,
    across_words: bool = False,
) -> PreTrainedTokenizerFast:
    """Add exactly `new_tokens` tokens, learned from a corpus, to a BPE tokenizer.

    A UserError is raised if the tokenizer is of another family or corrupt, or if the corpus is
    empty or yields too few tokens (the message gives their number).

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
        source [1]_. `auxiliary-first`: before them, as in the published code; changes how English
        is segmented. Of an auxiliary tokenizer of `sentencepiece`, pieces that the corpus then does
        not use are replaced by the next ones.
    marks
        Whether the pre-tokenizer may split letters from their combining marks (vowel signs, tone
        marks), as those of GPT-2, Llama 3 and Qwen do. `joined`: it no longer does. `apart`: it is
        unchanged. `auto`: joined if the corpus is in a script with marks and the pre-tokenizer can
        be changed.
    english, english_change
        Sentences, and the maximum share of them that may be segmented differently than by the
        source tokenizer. For target languages in Latin script, only with `continued`.
    ascii
        Whether a new token may contain ASCII characters other than a leading space. False keeps
        words in Latin script, including German ones, nearly unchanged (CW2V's code, its Table 3).
    auxiliary_trainer
        What trains the auxiliary tokenizer: `tokenizers`, Hugging Face's library, on the words of
        the source's pre-tokenizer; or, for a byte-fallback source, `sentencepiece`, which splits
        words itself, as in [1]_ (§C.3).
    protect_latin
        Whether tokens are refused that may occur in Latin script (Latin letters, punctuation,
        symbols), unless the corpus is mostly in Latin script. By default they are, except with
        `auxiliary-first`. [1]_ adds the k most frequent tokens, whatever they are.
    across_words
        Whether a new token may span words that the source's pre-tokenizer does not separate, as
        those of the published code do with Llama 2, which has no pre-tokenizer. SentencePiece
        always separates words.

    Returns
    -------
    PreTrainedTokenizerFast
        The ids of new tokens follow the last id of the source. With `continued` and `append`, text
        without marks to which no new merge applies keeps its tokens; with `protect_latin`, for
        corpora that are not mostly in Latin script, that is all English text. If the source lacks
        tokens for bytes of the corpus, these bytes are the first new tokens.

    References
    ----------
    .. [1] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 3.

    Examples
    --------
    A model's tokenizer, here trained on a little English, learns eight tokens from Swahili:

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
        raise unknown("merges", merges, MERGES)
    if auxiliary_trainer not in TRAINERS:
        raise unknown("auxiliary_trainer", auxiliary_trainer, TRAINERS)
    for name, value in (("new_tokens", new_tokens), ("auxiliary_size", auxiliary_size)):
        if not isinstance(value, int) or value < 1:
            raise UserError(f"{name}: {value!r} is not a number of tokens (1, 2, 3 …)")
    check_corpus(corpus)
    english = list(english)
    if english_change is not None and (merges != "continued" or not english):
        raise UserError("english_change: needs merges: continued, and English sentences")
    bpe = read_bpe(source_tokenizer)
    by_sentencepiece = auxiliary_trainer == "sentencepiece" and not bpe.byte_level
    # Read twice; a sequence may be on disk.
    reads_twice = marks == "auto" or by_sentencepiece
    texts = list(corpus) if reads_twice and not isinstance(corpus, Sequence) else corpus
    pre_tokenizer = pre_tokenization(source_tokenizer.backend_tokenizer, marks, texts)
    words = count_words(pre_tokenizer, bpe, texts, across_words)
    bpe, missing = bpe.with_missing_bytes(words)
    if len(missing) > new_tokens:
        raise UserError(
            f"new_tokens: asked for {new_tokens}, but the tokenizer has no tokens for "
            f"{len(missing)} of the byte values in the text, and each needs a new token; ask for "
            f"at least {len(missing)}"
        )
    n_merged = new_tokens - len(missing)
    auxiliary_first = merges == "auxiliary-first"
    rules: Rules = (PairRules if bpe.byte_level else PieceRules)(
        bpe.mergeable, [] if auxiliary_first else bpe.merges
    )
    accepts = token_filter(
        bpe,
        words,
        protect_latin=not auxiliary_first if protect_latin is None else protect_latin,
        ascii=ascii,
        # SentencePiece has separated words and classes of characters by its own rules.
        across_words=across_words or (by_sentencepiece and merges != "continued"),
    )
    if merges == "continued":
        limit = None
        if english_change is not None:
            split = WordSplitter(pre_tokenizer)
            sentences = [words_of(split, bpe, text) for text in english]
            limit = SentenceLimit(sentences, bpe, rules, english_change)
        tokens = islice(learned_tokens(words, bpe, rules, accepts, limit), n_merged)
        merged_tokens = list(tqdm(tokens, desc="merges", total=n_merged, disable=None))
    elif by_sentencepiece and auxiliary_first:
        pieces = train_pieces(texts, auxiliary_size, _PUBLISHED_LONGEST_SENTENCE)
        merged_tokens = used_pieces(filter(accepts, pieces), bpe, words, n_merged)
        assert isinstance(rules, PieceRules)  # the model is not byte-level
        for piece in merged_tokens:
            rules.add(piece)
    else:
        if by_sentencepiece:
            pieces = train_pieces(texts, auxiliary_size)
            auxiliary = [(piece[:-1], piece[-1]) for piece in pieces if len(piece) > 1]
        else:
            auxiliary = train_auxiliary(words, bpe, auxiliary_size)
        merged_tokens = choose_tokens(auxiliary, rules, n_merged, accepts, reorder=auxiliary_first)
    if len(merged_tokens) < n_merged:
        causes = [f"merges={merges!r}"]
        causes += [f"auxiliary_size={auxiliary_size}"] if merges != "continued" else []
        causes += [f"english_change={english_change}"] if english_change is not None else []
        causes += [] if ascii else ["ascii=False"]
        advice = "ask for fewer or give more text"
        word_texts = (piece_bytes(word, bpe.spelling).decode(errors="ignore") for word in words)
        if cuts_at_marks(pre_tokenizer) and is_in_marked_script(word_texts):
            causes += ["a pre-tokenizer that cuts words at combining marks"]
            advice = f"set marks: joined, {advice}" if marks == "apart" else advice
        raise UserError(
            f"new_tokens: asked for {new_tokens}, but only {len(missing) + len(merged_tokens)} can "
            f"be added with {' and '.join(causes)}; {advice}"
        )
    if auxiliary_first:
        for pair in bpe.merges:
            key: Key = rules.key(*pair)
            rules.add(key)
    return _extended(source_tokenizer, bpe, pre_tokenizer, merged_tokens, rules)


def expanded_sizes(
    source_tokenizer: PreTrainedTokenizerFast, corpus: Iterable[str], sizes: Sequence[int]
) -> Iterator[tuple[int, PreTrainedTokenizerFast]]:
    """Yield each size in ascending order, with the tokenizer that `expand_tokenizer` returns.

    The merges are `continued`, and learned once for all sizes. Sizes for which the corpus is too
    small are left out; the last pair then has all available tokens, if any.

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
    check_corpus(corpus)
    if wrong := [size for size in sizes if size < 1]:
        raise UserError(f"sizes: {wrong[0]} is not a number of tokens (1, 2, 3 …)")
    bpe = read_bpe(source_tokenizer)
    texts = corpus if isinstance(corpus, Sequence) else list(corpus)
    pre_tokenizer = pre_tokenization(source_tokenizer.backend_tokenizer, "auto", texts)
    words = count_words(pre_tokenizer, bpe, texts)
    bpe, missing = bpe.with_missing_bytes(words)
    rules: Rules = (PairRules if bpe.byte_level else PieceRules)(bpe.mergeable, bpe.merges)
    tokens = learned_tokens(words, bpe, rules, token_filter(bpe, words, protect_latin=True))
    merged_tokens: list[str] = []
    for size in sorted(size for size in {*sizes} if size > len(missing)):
        n_before, n_merged = len(merged_tokens), size - len(missing)
        merged_tokens += islice(tokens, n_merged - len(merged_tokens))
        if len(merged_tokens) > n_before:
            expanded = _extended(source_tokenizer, bpe, pre_tokenizer, merged_tokens, rules)
            yield len(missing) + len(merged_tokens), expanded
        if len(merged_tokens) < n_merged:
            return


def _extended(
    source_tokenizer: PreTrainedTokenizerFast,
    bpe: Bpe,
    pre_tokenizer: Tokenizer,
    added: Sequence[str],
    rules: Rules,
) -> PreTrainedTokenizerFast:
    """The source tokenizer with new tokens, their merges, and another pre-tokenizer."""
    state = bpe.extended(added, rules.merges())
    state["pre_tokenizer"] = json.loads(pre_tokenizer.to_str())["pre_tokenizer"]
    target = fast_tokenizer(state, settings_of(source_tokenizer))
    if unreachable := unreachable_by_merges(target, added):
        raise RuntimeError(
            f"{len(unreachable)} new tokens can never be produced, first {unreachable[0]!r}"
        )
    return target


def new_token_ids(
    source_tokenizer: PreTrainedTokenizerFast, target_tokenizer: PreTrainedTokenizerFast
) -> list[int]:
    """Ids that the target tokenizer adds to the source's, in order.

    A UserError is raised if a source token has another id in the target.
    """
    source, target = source_tokenizer.get_vocab(), target_tokenizer.get_vocab()
    for token, token_id in source.items():
        if target.get(token) != token_id:
            raise UserError(
                f"the target tokenizer does not extend the source: {token!r} has id {token_id} in "
                f"the source and {target.get(token, 'none')} in the target"
            )
    return sorted(token_id for token, token_id in target.items() if token not in source)
