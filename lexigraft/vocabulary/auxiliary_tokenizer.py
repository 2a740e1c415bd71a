"""New tokens from an auxiliary tokenizer trained on the corpus (Yamaguchi et al., section 3)."""

import json
from collections import Counter
from collections.abc import Callable, Iterable

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from lexigraft.vocabulary.bpe import Bpe, Pair
from lexigraft.vocabulary.continued import MINIMUM_GAIN
from lexigraft.vocabulary.merges import Key, Rules, segment
from lexigraft.vocabulary.train import train_pieces


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


def train_auxiliary_pieces(corpus: Iterable[str], bpe: Bpe, size: int) -> list[Pair]:
    """Train a SentencePiece model of at most `size` pieces; returns its merges into new ones."""
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
