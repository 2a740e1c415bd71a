"""Leaf-based pruning of a BPE vocabulary: tokens that a sample of text never uses are taken out.

BPE makes a long token of shorter ones; a token that no other one is made of is a leaf. Only leaves
are taken out, one after the other, so every token that stays is made by the same merges in the same
order, and the texts of the sample are cut as before.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING

from lexigraft.errors import UserError
from lexigraft.source.encoding import check_corpus, count_tokens
from lexigraft.vocabulary.bpe import Bpe, Pair, read_bpe
from lexigraft.vocabulary.merges import segment
from lexigraft.vocabulary.token_bytes import byte_alphabet, special_ids
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, settings_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def prune_tokenizer(
    tokenizer: "PreTrainedTokenizerFast",
    corpus: Iterable[str],
    *,
    at_most: int | None = None,
    keep: Iterable[int] = (),
) -> "PreTrainedTokenizerFast":
    """A copy of a BPE tokenizer without the tokens that a corpus never uses (leaf-based, [1]_).

    A token is taken out if no text of the corpus has it, and no token that stays is made of it.
    Special tokens, other added ones and bytes always stay. The tokens that stay keep their order,
    and their ids count from 0 on. Texts of the corpus are cut into the same tokens as before; in
    other texts, what a token that is gone stood for is cut into shorter ones. A UserError is raised
    if the tokenizer is neither byte-level BPE nor byte-fallback BPE, or corrupt, or the corpus is
    empty.

    Parameters
    ----------
    tokenizer
        A fast tokenizer, for example of `expand_tokenizer`. It is not changed.
    corpus
        Texts, for example sentences of the target language and of English. Read once.
    at_most
        How many tokens are taken out at most: those first whose merges were learned last, which
        were the rarest in the text that the tokenizer was trained on. By default all.
    keep
        Ids of tokens that stay whether they are used or not, such as those just added.

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
    stay = {*used, *special_ids(tokenizer), *keep}
    fixed = {token for token, number in bpe.vocab.items() if number in stay}
    removed = _unused_leaves(bpe, fixed, math.inf if at_most is None else at_most)
    return fast_tokenizer(bpe.without(removed), settings_of(tokenizer))


def _unused_leaves(bpe: Bpe, fixed: Collection[str], at_most: float) -> set[str]:
    """Tokens to take out: leaves, and what becomes a leaf without them, the last learned first."""
    ranks = {pair: rank for rank, pair in enumerate(bpe.merges)}
    made_by: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in bpe.merges:
        made_by["".join(pair)].append(pair)
    parts = {token: _parts(token, pairs, ranks) for token, pairs in made_by.items()}
    uses = Counter(chain.from_iterable(parts.values()))
    letters = byte_alphabet() if bpe.byte_level else ()
    free = bpe.mergeable.difference(fixed, letters, [bpe.unk_token])

    def order(token: str) -> tuple[float, str]:
        """Tokens that nothing makes go first; characters, which need no merge, last."""
        without = 0 if len(token) == 1 else -math.inf
        return (-1 - ranks[made_by[token][0]] if token in made_by else without), token

    leaves = [order(token) for token in free if not uses[token]]
    heapify(leaves)
    removed: set[str] = set()
    while leaves and len(removed) < at_most:
        _, token = heappop(leaves)
        removed.add(token)
        for part in parts.get(token, ()):
            uses[part] -= 1
            if not uses[part] and part in free:
                heappush(leaves, order(part))
    return removed


def _parts(token: str, pairs: list[Pair], ranks: Mapping[Pair, int]) -> Pair | tuple[()]:
    """The two tokens that a token is made of when it is cut by itself; none if it never is made."""
    if len(pairs) == 1:
        return pairs[0]
    # Of the splits of a piece, those of SentencePiece, only one is ever merged: that of the two
    # tokens which its text becomes where the piece itself is unknown.
    found = segment(token, lambda one, two: None if one + two == token else ranks.get((one, two)))
    return (found[0], found[1]) if len(found) == 2 else ()
