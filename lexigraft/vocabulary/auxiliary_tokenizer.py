"""Expansion by an auxiliary tokenizer: the most frequent new tokens of one trained on the corpus.

The method of Yamaguchi et al. (lowres, §3). Its merges come after those of the source (`append`) or
before them (`auxiliary-first`).
"""

import json
from collections import Counter
from collections.abc import Callable

from lexigraft.vocabulary.bpe import Bpe, Pair
from lexigraft.vocabulary.continued import MINIMUM_GAIN
from lexigraft.vocabulary.merge_rules import Key, Rules, segment


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


def choose_tokens(
    auxiliary: list[Pair],
    rules: Rules,
    new_tokens: int,
    accepts: Callable[[str], bool],
    reorder: bool,
) -> list[str]:
    """Add the most frequent new tokens of the auxiliary tokenizer, with their merges, to `rules`.

    A candidate is accepted if the merges so far produce the two parts of its own merge; otherwise
    no text could produce it, and it is skipped. Characters of it that are not tokens are added
    before it and count as new tokens.

    Parameters
    ----------
    auxiliary
        Merges of the auxiliary tokenizer, most frequent first.
    rules
        The merges of the source (`append`), or none yet (`auxiliary-first`).
    reorder
        Also add the auxiliary merges of source tokens into a source token. They move that token
        forward in the order of merges, which changes how English is segmented.

    Returns
    -------
    list[str]
        The new tokens in order; fewer than `new_tokens` if there are not enough candidates.
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
        needed = [
            character
            for character in dict.fromkeys(piece)
            if character not in rules.known and character not in rules.new
        ]
        if len(added) + len(needed) + 1 > new_tokens or not accepts(piece):
            continue
        parts = segment(piece, rules.rank)
        if len(parts) == 2 and rules.key(*parts) == key:
            for character in needed:
                rules.add_character(character)
            rules.add(key)
            added += [*needed, piece]
    return added
