"""New tokens from an auxiliary tokenizer trained on the corpus (Yamaguchi et al., section 3)."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from lexigraft.vocabulary.bpe import Bpe, Pair
from lexigraft.vocabulary.continued import MINIMUM_GAIN
from lexigraft.vocabulary.merges import Key, PieceRules, Rules, segment


def train_auxiliary(words: Counter[str], bpe: Bpe, size: int) -> list[Pair]:
    """Train a BPE tokenizer of at most `size` tokens on words; returns its merges in order."""
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


def used_pieces(
    pieces: Iterable[str], bpe: Bpe, words: Iterable[str], new_tokens: int
) -> list[str]:
    """Choose new pieces as Yamaguchi et al.'s code does for SentencePiece.

    The first `new_tokens` pieces are added before all those of the source. The ones that no word
    then contains are replaced by the next, until all are used (the code ends after eleven rounds in
    any case); fewer are returned if there are no more. Characters that are not tokens come before
    the first piece that has them and count, since no merge applies to their bytes.
    """
    chosen: list[str] = []
    tokens = dict.fromkeys(part for piece in pieces for part in (*piece, piece))
    candidates = (token for token in tokens if token not in bpe.vocab)
    first_id = max(bpe.vocab.values()) + 1
    while more := list(islice(candidates, new_tokens - len(chosen))):
        chosen += more
        vocab = bpe.vocab | {piece: first_id + index for index, piece in enumerate(chosen)}
        rules = PieceRules(bpe.mergeable, [])
        for piece in (*chosen, *map("".join, bpe.merges)):
            rules.add(piece)
        model = replace(bpe, vocab=vocab, merges=rules.merges()).model
        used = {token.value for word in words for token in model.tokenize(word)}
        used.update(*used)  # a character is used by the pieces that are built from it
        chosen = [piece for piece in chosen if piece in used]
    return chosen


def choose_tokens(
    auxiliary: list[Pair],
    rules: Rules,
    new_tokens: int,
    accepts: Callable[[str], bool],
    reorder: bool,
) -> list[str]:
    """Add the most frequent new tokens of the auxiliary tokenizer, with their merges, to `rules`.

    `auxiliary` are its merges, most frequent first; `rules` are the merges of the source (`append`)
    or empty (`auxiliary-first`). Returns the new tokens in order, fewer than `new_tokens` if there
    are not enough. A candidate is skipped unless the merges so far produce the two parts of its own
    merge: otherwise no text could produce it. Its characters that are not tokens come before it and
    count. With `reorder`, auxiliary merges of source tokens into a source token are added too,
    which changes how English is segmented.
    """
    added: list[str] = []
    for left, right in auxiliary:
        key: Key = rules.key(left, right)
        piece = left + right
        if piece in rules.known or piece in rules.new:
            has_parts = all(part in rules.known or part in rules.new for part in (left, right))
            if has_parts and (reorder or rules.involves_new_token(key)):
                rules.add(key)
            continue
        characters = dict.fromkeys(piece)
        new_characters = [
            character
            for character in characters
            if character not in rules.known and character not in rules.new
        ]
        if len(added) + len(new_characters) + 1 > new_tokens or not accepts(piece):
            continue
        parts = segment(piece, rules.rank)
        if len(parts) == 2 and rules.key(*parts) == key:
            rules.new.update(new_characters)
            rules.add(key)
            added += [*new_characters, piece]
    return added
