"""Merges of the two families of BPE, and segmentation with them."""

import time

from hypothesis import given, settings, strategies

from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.merges import PairRules, PieceRules, segment


def test_a_new_piece_is_merged_from_all_its_splits_after_old_pieces():
    rules = PieceRules({"a", "b", "c", "ab", "bc"}, [("a", "b"), ("b", "c")])
    rules.add("abc")
    assert rules.rank("b", "c") < rules.rank("ab", "c") < rules.rank("a", "bc")
    assert rules.merges() == [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")]


def test_a_split_of_an_old_piece_with_a_new_token_has_the_priority_of_the_piece():
    # "abc" is old and made of ab+c; the new piece "bc" makes it of a+bc as well, as early.
    rules = PieceRules(
        {"a", "b", "c", "x", "ab", "abc", "xx"}, [("a", "b"), ("ab", "c"), ("x", "x")]
    )
    rules.add("bc")
    assert rules.merges() == [("a", "b"), ("ab", "c"), ("a", "bc"), ("x", "x"), ("b", "c")]


def test_the_best_rank_merges_first_and_then_the_leftmost():
    # b+c ranks before a+b, so "abc" becomes a|bc and a+b never fires; "abab" becomes ab|ab.
    ranks = {("b", "c"): 0, ("a", "b"): 1}
    rank = lambda left, right: ranks.get((left, right))  # noqa: E731 (a table as a function)
    assert segment("abcabab", rank) == ["a", "bc", "ab", "ab"]
    assert segment("aaa", lambda left, right: 0 if left == right == "a" else None) == ["aa", "a"]


def one_merge_at_a_time(symbols, rank, places):
    """BPE by its definition: of all candidates the best, then the leftmost; places move along."""
    symbols, places = list(symbols), set(places)
    while True:
        ranked = [(rank(symbols[at], symbols[at + 1]), at) for at in sorted(places)]
        candidates = [one for one in ranked if one[0] is not None]
        if not candidates:
            return symbols
        at = min(candidates)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        places = {other - (other > at) for other in places if other != at} | {at - 1, at}
        places &= set(range(len(symbols) - 1))


LETTERS = strategies.text(alphabet="ab", min_size=1, max_size=30)


@settings(max_examples=200)
@given(LETTERS, strategies.data(), strategies.sampled_from([PairRules, PieceRules]))
def test_a_word_is_segmented_as_by_one_merge_at_a_time(word, data, kind):
    known, merges = ["a", "b"], []
    for _ in range(data.draw(strategies.integers(0, 12))):
        pair = tuple(data.draw(strategies.sampled_from(known)) for _ in range(2))
        if pair not in merges:
            merges.append(pair)
            known += ["".join(pair)] * ("".join(pair) not in known)
    rules = kind(frozenset(known), merges)
    for _ in range(data.draw(strategies.integers(0, 3))):
        rules.add(rules.key(*(data.draw(strategies.sampled_from(known)) for _ in range(2))))
    places = data.draw(strategies.sets(strategies.integers(0, max(len(word) - 2, 0))))
    for candidates in (range(len(word) - 1), places & set(range(len(word) - 1))):
        expected = one_merge_at_a_time(word, rules.rank, candidates)
        assert segment(word, rules.rank, candidates) == expected


def test_a_run_of_one_letter_takes_time_in_proportion_to_its_length():
    rules = PairRules({"a", "aa", "aaaa"}, [("a", "a"), ("aa", "aa")])
    began = time.process_time()
    assert segment("a" * 100_000, rules.rank) == ["aaaa"] * 25_000
    assert time.process_time() - began < 30  # a search for each merge would take hours


def test_it_segments_real_words_as_the_tokenizers_library_does(smollm2_tokenizer, english):
    bpe = read_bpe(smollm2_tokenizer)
    ranks = {pair: place for place, pair in enumerate(bpe.merges)}
    model = bpe.model
    words = {word for line in english[:60] for word in line.split()}
    for word in words:
        if all(letter in bpe.vocab for letter in word):
            expected = [token.value for token in model.tokenize(word)]
            assert segment(word, lambda left, right: ranks.get((left, right))) == expected


def test_two_old_tokens_get_no_new_merge_into_an_old_token():
    # a+bc is no merge of this source, though its pieces are all there.
    rules = PieceRules({"a", "b", "c", "ab", "bc", "abc"}, [("a", "b"), ("b", "c"), ("ab", "c")])
    rules.add("xy")
    assert rules.rank("a", "bc") is None
    assert ("a", "bc") not in rules.merges()
