"""Selection of tokens of an auxiliary tokenizer, worked out by hand."""

import io

import pytest
import sentencepiece

from lexigraft.errors import UserError
from lexigraft.vocabulary.auxiliary_tokenizer import choose_tokens, train_auxiliary_pieces
from lexigraft.vocabulary.bpe import Bpe
from lexigraft.vocabulary.expand import expand_tokenizer, new_token_ids
from lexigraft.vocabulary.merges import PairRules, PieceRules

EVERYTHING = lambda token: True  # noqa: E731 (reads as a value here)


def test_appending_skips_a_token_that_old_merges_make_unreachable():
    # The source makes b+c first, so "abc" as ab+c can never come about; "ad" takes its place.
    known = {"a", "b", "c", "d", "bc"}
    rules = PairRules(known, [("b", "c")])
    auxiliary = [("a", "b"), ("ab", "c"), ("a", "d")]
    assert choose_tokens(auxiliary, rules, 2, EVERYTHING, reorder=False) == ["ab", "ad"]
    assert rules.merges() == [("b", "c"), ("a", "b"), ("a", "d")]


def test_with_auxiliary_merges_first_the_same_token_is_reachable():
    rules = PairRules({"a", "b", "c", "d", "bc"}, [])
    auxiliary = [("a", "b"), ("ab", "c"), ("a", "d")]
    assert choose_tokens(auxiliary, rules, 2, EVERYTHING, reorder=True) == ["ab", "abc"]


def test_a_character_without_a_token_comes_before_its_first_token_and_counts():
    rules = PieceRules({"▁", "a"}, [])
    auxiliary = [("▁", "క"), ("▁", "గ"), ("▁", "a")]
    # Three tokens: క, ▁క, and ▁a, since గ and ▁గ would make four.
    assert choose_tokens(auxiliary, rules, 3, EVERYTHING, reorder=False) == ["క", "▁క", "▁a"]


LINES = ["సూర్యుడు తూర్పున ఉదయిస్తాడు", "సూర్యుడు పడమర అస్తమిస్తాడు", "12 సూర్యుడు"] * 4


def merged_pieces(lines, size):
    """Merges of SentencePiece itself: its pieces by falling score."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=size,
        character_coverage=1.0, byte_fallback=True, normalization_rule_name="identity",
        split_digits=True, hard_vocab_limit=False, num_threads=1, minloglevel=2,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = [i for i in range(processor.vocab_size()) if len(processor.id_to_piece(i)) > 1]
    ids = [i for i in ids if not (processor.is_byte(i) or processor.is_control(i))]
    ids.sort(key=processor.get_score, reverse=True)
    return [processor.id_to_piece(i) for i in ids if not processor.is_unknown(i)]


def test_sentencepiece_trains_the_auxiliary_tokenizer_of_a_byte_fallback_source():
    bpe = Bpe({"▁స": 9}, [], False, True, frozenset(), False, None, True)
    pieces = ["".join(pair) for pair in train_auxiliary_pieces(LINES, bpe, 400)]
    expected = [piece for piece in merged_pieces(LINES, 400) if piece != "▁స"]
    assert "▁సూర్యుడు" in pieces
    assert pieces == expected


def test_byte_level_sources_and_unknown_trainers(smollm2_tokenizer, telugu):
    options = {"merges": "append", "auxiliary_size": 2000, "marks": "apart"}
    made = [
        expand_tokenizer(smollm2_tokenizer, telugu[:200], 20, auxiliary_trainer=name, **options)
        for name in ("tokenizers", "sentencepiece")
    ]
    assert made[0].get_vocab() == made[1].get_vocab()
    with pytest.raises(UserError, match="auxiliary_trainer: 'spm' is not known"):
        expand_tokenizer(smollm2_tokenizer, telugu, 20, auxiliary_trainer="spm")


def test_new_tokens_are_the_first_of_sentencepiece_that_can_be_reached(mistral_tokenizer, telugu):
    source, lines = mistral_tokenizer, telugu[:400]
    options = {"merges": "append", "auxiliary_size": 2000, "marks": "apart"}
    target = expand_tokenizer(source, lines, 40, auxiliary_trainer="sentencepiece", **options)
    new = target.convert_ids_to_tokens(new_token_ids(source, target))
    bpe = Bpe(source.get_vocab(), [], False, True, frozenset(), False, None, True)
    candidates = ["".join(pair) for pair in train_auxiliary_pieces(lines, bpe, 2000)]
    # Characters that they need come first; the rest are in SentencePiece's order.
    places = [candidates.index(token) for token in new if len(token) > 1]
    assert len(places) > 20 and places == sorted(places)
    model = target.backend_tokenizer.model
    assert [[piece.value for piece in model.tokenize(token)] for token in new] == [[t] for t in new]
