"""Continued BPE, compared with a worked example and with recounting before every merge."""

import io
import random
import time
from collections import Counter
from itertools import islice, pairwise

import pytest
import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lexigraft.source.sentencepiece import read_model, sentencepiece_to_fast
from lexigraft.vocabulary.bpe import BYTE_TOKENS, Bpe, read_bpe
from lexigraft.vocabulary.continued import learned_tokens
from lexigraft.vocabulary.merges import PairRules, PieceRules


def first(count, tokens):
    return list(islice(tokens, count))


def small_byte_level(lines, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def byte_level(vocab, merges):
    return Bpe(vocab, merges, True, False, frozenset(), False, None, False)


def test_a_worked_example():
    # Source: a b c d, and ab. "abc" x3 is ab|c, "abcd" x2 is ab|c|d, "cd" x4 is c|d.
    # Pairs: (c,d) 2+4 = 6, (ab,c) 3+2 = 5, so cd comes first; then "abcd" is ab|cd:
    # (ab,c) 3 before (ab,cd) 2.
    bpe = byte_level({"a": 0, "b": 1, "c": 2, "d": 3, "ab": 4}, [("a", "b")])
    rules = PairRules(bpe.mergeable, bpe.merges)
    words = Counter({"abc": 3, "abcd": 2, "cd": 4})
    assert first(3, learned_tokens(words, bpe, rules, lambda token: True)) == ["cd", "abc", "abcd"]
    assert rules.merges() == [("a", "b"), ("c", "d"), ("ab", "c"), ("ab", "cd")]


def test_a_character_and_a_merge_are_compared_by_saved_tokens():
    # "ఆ" has no token: three bytes become one token, so 2 occurrences save 4; (a,b) 3 times saves
    # 3. With its token "ఆ" can merge, twice with "a".
    vocab = {token: number for number, token in enumerate([*sorted(BYTE_TOKENS), "▁", "a", "b"])}
    bpe = Bpe(vocab, [], False, True, frozenset(), False, None, True)
    rules = PieceRules(bpe.mergeable, [])
    words = Counter({"ఆa": 2, "ab": 3})
    assert first(3, learned_tokens(words, bpe, rules, lambda token: True)) == ["ఆ", "ab", "ఆa"]
    assert rules.merges() == [("a", "b"), ("ఆ", "a")]


@pytest.mark.parametrize(
    ("merges", "word", "learned"),
    [
        # b+cd makes "bcd" and a+bcd "abcd", though nothing made bc: the next merge is x+abcd.
        ([("bc", "d"), ("a", "bcd")], "xabcd", ["cd", "xabcd"]),
        # The same to the right: cd+e makes "cde" and cde+f "cdef".
        ([("c", "de"), ("cde", "f")], "cdefx", ["cd", "cdefx"]),
        # Both, with symbols of the same letters on either side.
        ([("bc", "d"), ("a", "bcd"), ("c", "bd")], "xabcdbd", ["cd", "xabcd"]),
    ],
)
def test_a_new_piece_can_enable_old_merges_next_to_it(merges, word, learned):
    tokens = {
        *BYTE_TOKENS,
        *"abcdefx",
        *(part for pair in merges for part in (*pair, "".join(pair))),
    }
    vocab = {token: number for number, token in enumerate(sorted(tokens))}
    bpe = Bpe(vocab, merges, False, True, frozenset(), False, None, True)
    rules = PieceRules(bpe.mergeable, bpe.merges)
    words = Counter({word: 5})
    assert first(2, learned_tokens(words, bpe, rules, set(learned).__contains__)) == learned


def test_it_learns_the_same_pieces_as_recounting_with_sentencepiece(tmp_path, english, telugu):
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(english), model_writer=buffer, vocab_size=600, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        num_threads=1, minloglevel=2,
    )  # fmt: skip
    file = tmp_path / "tokenizer.model"
    file.write_bytes(buffer.getvalue())
    bpe = read_bpe(sentencepiece_to_fast(file))
    texts = Counter(word for line in telugu[:40] for word in line.split())
    words = Counter({"▁" + text: count for text, count in texts.items()})
    rules = PieceRules(bpe.mergeable, bpe.merges)
    learned = first(70, learned_tokens(words, bpe, rules, lambda token: token not in bpe.vocab))

    model = read_model(file)
    new, refused = [], set()
    while len(new) < 70:
        library = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        gains, used = Counter(), set()
        for text, count in texts.items():
            before = None
            for piece in characters_for_bytes(library.encode(text, out_type=str)):
                if piece[0] == "\ud800":
                    gains[piece[1:]] += count * (len(piece[1:].encode()) - 1)
                    before = None
                    continue
                used.add(piece)
                if before is not None:
                    gains[before + piece] += count
                before = piece
        if not used.issuperset(new):  # the last one took the last occurrences of another
            refused.add(new.pop())
            del model.pieces[-1]
            continue
        piece = min(set(gains) - set(bpe.vocab) - refused, key=lambda piece: (-gains[piece], piece))
        new.append(piece)
        model.pieces.add(piece=piece, score=-10_000.0 - len(new), type=1)
    assert learned == new


def characters_for_bytes(pieces):
    held = b""
    for piece in [*pieces, None]:
        if piece in BYTE_TOKENS:
            held += bytes([int(piece[3:5], 16)])
            continue
        yield from ("\ud800" + character for character in held.decode())
        held = b""
        if piece is not None:
            yield piece


def small_world(seed):
    """A random source over three letters, some tokens of it without merges, and random words."""
    draw = random.Random(seed)
    pieces = bool(seed % 2)
    tokens, merges = list("abc"), []
    for _ in range(draw.randint(0, 5)):
        pair = draw.choice(tokens), draw.choice(tokens)
        if pair not in merges and len("".join(pair)) < 6:
            merges.append(pair)
            tokens += [] if "".join(pair) in tokens else ["".join(pair)]
    loose = {"".join(draw.choices("abc", k=draw.randint(2, 4))) for _ in range(2)}
    tokens += sorted(loose - {*tokens})
    vocab = {token: n for n, token in enumerate([*sorted(BYTE_TOKENS), *tokens])}
    bpe = Bpe(vocab, merges, not pieces, pieces, frozenset(), False, None, True)
    letters = "abcతల" if pieces else "abc"
    words = Counter(
        "".join(draw.choices(letters, k=draw.randint(1, 10))) for _ in range(draw.randint(5, 20))
    )
    return bpe, words


@pytest.mark.parametrize("seed", range(200))
def test_on_random_corpora_it_learns_what_recounting_learns_and_all_tokens_are_reachable(seed):
    bpe, words = small_world(seed)
    kind = PairRules if bpe.byte_level else PieceRules
    rules = kind(bpe.mergeable, bpe.merges)
    learned = first(8, learned_tokens(words, bpe, rules, lambda token: token not in bpe.vocab))

    merges, new, refused, postponed = [], [], set(), set()
    while True:
        again = kind(bpe.mergeable, bpe.merges)
        for key in merges:
            again.add(key)
        vocab = {**bpe.vocab, **{token: len(bpe.vocab) + n for n, token in enumerate(new)}}
        model = models.BPE(vocab, again.merges(), byte_fallback=bpe.byte_fallback)
        gains, used = Counter(), set()
        for word, count in words.items():
            before = None
            for piece in characters_for_bytes([token.value for token in model.tokenize(word)]):
                if piece[0] == "\ud800":
                    gains[piece[1:]] += count * (len(piece[1:].encode()) - 1)
                else:
                    used.add(piece)
                    if before is not None:
                        gains[again.key(before, piece)] += count
                before = None if piece[0] == "\ud800" else piece
        if postponed is not None and not used.issuperset(new):
            postponed.add(merges.pop())
            new = [token for token in new if token in {"".join(key) for key in merges}]
            continue
        frequent = {key for key, gain in gains.items() if gain > 1} - refused - (postponed or set())
        if not frequent and postponed:
            postponed = None
            continue
        if not frequent or len(new) == 8:
            break
        key = min(frequent, key=lambda key: (-gains[key], key))
        if "".join(key) not in vocab:
            new.append("".join(key))
        elif not again.involves_new_token(key):
            refused.add(key)
            continue
        merges.append(key)
    assert learned == new
    assert rules.merges() == again.merges()
    assert all([part.value for part in model.tokenize(token)] == [token] for token in new)


def test_learning_from_a_long_run_of_one_letter_is_fast():
    bpe = byte_level({"a": 0, "b": 1}, [])
    rules = PairRules(bpe.mergeable, [])
    began = time.process_time()
    added = first(
        4, learned_tokens(Counter({"a" * 60_000 + "b": 2}), bpe, rules, lambda token: True)
    )
    assert added[0] == "aa" and len(added) == 4
    assert time.process_time() - began < 30


def test_ties_are_resolved_in_favour_of_the_smaller_pair():
    bpe = byte_level({"a": 0, "b": 1, "c": 2, "d": 3}, [])
    rules = PairRules(bpe.mergeable, [])
    words = Counter({"cd": 2, "ab": 2, "ad": 2})
    assert first(3, learned_tokens(words, bpe, rules, lambda token: True)) == ["ab", "ad", "cd"]


@pytest.mark.parametrize("language", ["greek", "telugu", "english"])
def test_it_learns_the_same_merges_as_recounting_the_corpus(language, english, request):
    source = small_byte_level(english[:100], 400)
    bpe = read_bpe(PreTrainedTokenizerFast(tokenizer_object=source))
    words = Counter()
    for line in request.getfixturevalue(language)[100:160]:
        words.update(word for word, _ in source.pre_tokenizer.pre_tokenize_str(line))
    rules = PairRules(bpe.mergeable, bpe.merges)
    learned = first(120, learned_tokens(words, bpe, rules, lambda token: token not in bpe.vocab))

    def segmented(vocab, merges):
        model = models.BPE(vocab=vocab, merges=merges)
        return [([token.value for token in model.tokenize(word)], words[word]) for word in words]

    vocab, merges, new, refused = dict(bpe.vocab), list(bpe.merges), [], set()
    postponed = set()
    while len(new) < 120:
        pairs = Counter()
        for tokens, count in segmented(vocab, merges):
            for pair in pairwise(tokens):
                pairs[pair] += count
        frequent = {pair for pair, count in pairs.items() if count > 1} - refused
        if not frequent - (postponed or set()):
            if not postponed:
                break
            postponed = None
        pair = min(frequent - (postponed or set()), key=lambda pair: (-pairs[pair], pair))
        piece = "".join(pair)
        more = [piece] if piece not in vocab else []
        if not more and not {*pair, piece} & set(new):
            refused.add(pair)
            continue
        with_it = vocab | {token: len(vocab) for token in more}
        used = {token for tokens, _ in segmented(with_it, [*merges, pair]) for token in tokens}
        if postponed is not None and not {*new, *more} <= used:
            postponed.add(pair)
            continue
        vocab, new = with_it, [*new, *more]
        merges.append(pair)
    assert learned == new
    assert rules.merges() == merges
