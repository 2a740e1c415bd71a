"""Leaf-based pruning of a BPE vocabulary: remove tokens that a sample of text never uses.

A token from which no other token is built is a leaf. Only leaves are removed, one after the other,
so the texts of the sample are segmented as before.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import chain

from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.source.document_start import start_ids
from lexigraft.source.encoding import check_corpus, count_tokens
from lexigraft.source.tokenizer import settings_of
from lexigraft.vocabulary.bpe import Bpe, Pair, read_bpe
from lexigraft.vocabulary.merges import segment
from lexigraft.vocabulary.token_bytes import byte_alphabet, special_ids
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer


def prune_tokenizer(
    tokenizer: PreTrainedTokenizerFast,
    corpus: Iterable[str],
    *,
    at_most: int | None = None,
    keep: Iterable[int] = (),
) -> PreTrainedTokenizerFast:
    """A copy of a BPE tokenizer without the tokens that a corpus never uses (leaf-based, [1]_).

    Special tokens, other added tokens and bytes are always kept. The remaining tokens keep their
    order and are renumbered from 0. A UserError is raised if the tokenizer is not BPE, or is
    corrupt, or if the corpus is empty.

    Parameters
    ----------
    tokenizer
        A fast tokenizer, for example from `expand_tokenizer`. It is not changed.
    corpus
        Texts, for example sentences of the target language and of English. Read once.
    at_most
        Maximum number of tokens to remove, by default all. Tokens whose merges were learned last
        are removed first.
    keep
        Ids of tokens that are always kept, such as those just added.

    References
    ----------
    .. [1] Purason et al. 2025, "Teaching Old Tokenizers New Words: Efficient Tokenizer Adaptation
       for Pre-trained Models", section 3.2.

    Examples
    --------
    >>> import lexigraft
    >>> english = ["the rice and the river", "the river and the rain"] * 5
    >>> source = lexigraft.train_tokenizer(english, "byte-level-bpe", size=270)
    >>> tokenizer = lexigraft.prune_tokenizer(source, ["the rain"])
    >>> len(source), len(tokenizer)
    (270, 261)
    >>> source.tokenize("the rain") == tokenizer.tokenize("the rain")
    True
    """
    check_corpus(corpus)
    if at_most is not None and (not isinstance(at_most, int) or at_most < 1):
        raise UserError(f"at_most: {at_most!r} is not a number of tokens (1, 2, 3 …)")
    bpe = read_bpe(tokenizer)
    used = count_tokens(tokenizer, corpus)
    if not used:
        raise UserError("the corpus is empty: every token would be unused")
    kept_ids = {*used, *special_ids(tokenizer), *start_ids(tokenizer), *keep}
    kept_tokens = {token for token, number in bpe.vocab.items() if number in kept_ids}
    removed = _unused_leaves(bpe, kept_tokens, math.inf if at_most is None else at_most)
    return fast_tokenizer(bpe.without(removed), settings_of(tokenizer))


def _unused_leaves(bpe: Bpe, kept_tokens: Collection[str], at_most: float) -> set[str]:
    """Tokens to remove: leaves, and tokens that then become leaves, the last learned first."""
    ranks = {pair: rank for rank, pair in enumerate(bpe.merges)}
    merges_of_token: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in bpe.merges:
        merges_of_token["".join(pair)].append(pair)
    parts = {token: _parts(token, pairs, ranks) for token, pairs in merges_of_token.items()}
    uses = Counter(chain.from_iterable(parts.values()))
    letters = byte_alphabet() if bpe.byte_level else ()
    removable = bpe.mergeable.difference(kept_tokens, letters, [bpe.unk_token])

    def order(token: str) -> tuple[float, str]:
        """Sort key: tokens that no merge produces first; characters, which need no merge, last."""
        rank = 0 if len(token) == 1 else -math.inf
        return (-1 - ranks[merges_of_token[token][0]] if token in merges_of_token else rank), token

    leaves = [order(token) for token in removable if not uses[token]]
    heapify(leaves)
    removed: set[str] = set()
    while leaves and len(removed) < at_most:
        _, token = heappop(leaves)
        removed.add(token)
        for part in parts.get(token, ()):
            uses[part] -= 1
            if not uses[part] and part in removable:
                heappush(leaves, order(part))
    return removed


def _parts(token: str, pairs: list[Pair], ranks: Mapping[Pair, int]) -> Pair | tuple[()]:
    """The two tokens merged into a token when it is segmented alone; none if it is never built."""
    if len(pairs) == 1:
        return pairs[0]
    # Of the splits of a SentencePiece piece, only one is ever merged: the two tokens into which its
    # text is segmented if the piece itself is unknown.
    symbols = segment(
        token, lambda left, right: None if left + right == token else ranks.get((left, right))
    )
    return (symbols[0], symbols[1]) if len(symbols) == 2 else ()
