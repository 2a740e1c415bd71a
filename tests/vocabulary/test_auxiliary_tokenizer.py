"""Selection of tokens of an auxiliary tokenizer, worked out by hand."""

from collections import Counter

from lexigraft.vocabulary.bpe import Bpe
from lexigraft.vocabulary.expand import choose_tokens, train_auxiliary
from lexigraft.vocabulary.merges import PairRules, PieceRules

EVERYTHING = lambda token: True  # noqa: E731 (reads as a value here)


def test_appending_skips_a_token_that_old_merges_make_unreachable():
    # The source makes b+c first, so "abc" as ab+c can never come about; "ad" takes its place.
    known = {"a", "b", "c", "d", "bc"}
    rules = PairRules(known, [("b", "c")])
    auxiliary = [("a", "b"), ("ab", "c"), ("a", "d")]
    assert choose_tokens(auxiliary, rules, 2, EVERYTHING, reorder=False) == ["ab", "ad"]
    assert rules.merges() == [("b", "c"), ("a", "b"), ("a", "d")]


def test_put_first_the_same_token_is_reachable():
    rules = PairRules({"a", "b", "c", "d", "bc"}, [])
    auxiliary = [("a", "b"), ("ab", "c"), ("a", "d")]
    assert choose_tokens(auxiliary, rules, 2, EVERYTHING, reorder=True) == ["ab", "abc"]


def test_a_token_whose_part_was_skipped_is_skipped():
    rules = PairRules({"a", "b", "c"}, [])
    auxiliary = [("a", "b"), ("ab", "c"), ("b", "c")]
    admits = lambda token: token != "ab"  # noqa: E731
    assert choose_tokens(auxiliary, rules, 5, admits, reorder=False) == ["bc"]


def test_only_the_published_order_moves_merges_of_the_source_forward():
    known = {"a", "b", "c", "ab", "bc"}
    appended, first = PairRules(known, [("b", "c")]), PairRules(known, [])
    choose_tokens([("a", "b")], appended, 1, EVERYTHING, reorder=False)
    choose_tokens([("a", "b")], first, 1, EVERYTHING, reorder=True)
    assert appended.merges() == [("b", "c")]
    assert first.merges() == [("a", "b")]


def test_a_character_without_a_token_comes_before_its_first_token_and_counts():
    rules = PieceRules({"▁", "a"}, [])
    auxiliary = [("▁", "క"), ("▁", "గ"), ("▁", "a")]
    # Three tokens: క, ▁క, and ▁a, since గ and ▁గ would make four.
    assert choose_tokens(auxiliary, rules, 3, EVERYTHING, reorder=False) == ["క", "▁క", "▁a"]


def test_the_auxiliary_tokenizer_learns_by_frequency_and_never_across_words():
    bpe = Bpe({}, [], False, True, frozenset(), False, None, True)
    words = Counter({"▁ab": 5, "▁cd": 3, "▁e": 1})
    merges = train_auxiliary(words, bpe, 1_000)
    assert merges[0] in {("▁", "a"), ("a", "b")}
    joined = {left + right for left, right in merges}
    assert joined >= {"▁ab", "▁cd"} and "▁e" not in joined
    assert not any("▁" in token[1:] for token in joined)
