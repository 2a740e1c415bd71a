"""Selection of tokens of an auxiliary tokenizer, worked out by hand."""

import io
from collections import Counter

import pytest
import sentencepiece

from lexigraft.errors import UserError
from lexigraft.source.sentencepiece import NORMAL, read_model
from lexigraft.vocabulary.auxiliary_tokenizer import choose_tokens, used_pieces
from lexigraft.vocabulary.bpe import Bpe
from lexigraft.vocabulary.expand import expand_tokenizer, new_token_ids
from lexigraft.vocabulary.merges import PairRules, PieceRules
from lexigraft.vocabulary.train import train_pieces

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
    pieces = [piece for piece in train_pieces(LINES, 400) if len(piece) > 1]
    assert "▁సూర్యుడు" in pieces
    assert pieces == merged_pieces(LINES, 400)
    # Longer sentences are left out, as the library's default does.
    assert train_pieces([*LINES, "నది " * 400], 400, longest_sentence=1000) == train_pieces(
        LINES, 400
    )


def test_a_published_piece_that_no_word_uses_is_replaced_by_the_next():
    # "bc" always goes on to "abc"; no word has "కd".
    vocab = {token: number for number, token in enumerate(["a", "b", "c", "d", "ab"])}
    bpe = Bpe(vocab, [("a", "b")], False, True, frozenset(), False, None, True)
    pieces = ["abc", "bc", "కd", "cd", "da"]
    assert used_pieces(pieces, bpe, ["abc", "cd", "da"], 2) == ["abc", "cd"]
    assert used_pieces(pieces, bpe, ["abc", "cd"], 3) == ["abc", "cd"]
    # "క" is no token: it is added first, and kept although all words go on to "కd".
    assert used_pieces(pieces, bpe, ["abc", "కd"], 3) == ["abc", "క", "కd"]


def extended_library(model_file, pieces):
    """SentencePiece itself with further pieces, which it merges before its own, in this order."""
    model = read_model(model_file)
    for rank, text in enumerate(pieces):
        model.pieces.add(piece=text, score=len(pieces) - rank, type=NORMAL)
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())


def test_published_pieces_are_those_of_a_loop_around_sentencepiece(
    mistral_tokenizer, mistral_model_file, greek
):
    """As the code does: add k, tokenize the text, replace what is unused, at most eleven times."""
    k, known = 60, mistral_tokenizer.get_vocab()
    options = {"merges": "auxiliary-first", "auxiliary_size": 1500, "marks": "apart"}
    target = expand_tokenizer(
        mistral_tokenizer, greek, k, auxiliary_trainer="sentencepiece", **options
    )
    pieces = [p for p in train_pieces(greek, 1500, 4192) if p not in known and known.keys() >= {*p}]
    chosen, pieces = pieces[:k], pieces[k:]
    for _ in range(11):
        library = extended_library(mistral_model_file, chosen)
        used = Counter(piece for text in greek for piece in library.encode(text, out_type=str))
        chosen = [piece for piece in chosen if used[piece]]
        missing = k - len(chosen)
        chosen, pieces = chosen + pieces[:missing], pieces[missing:]
    new = target.convert_ids_to_tokens(new_token_ids(mistral_tokenizer, target))
    assert new == chosen
    library = extended_library(mistral_model_file, chosen)
    assert target(greek, add_special_tokens=False)["input_ids"] == library.encode(greek)


def test_byte_level_sources_and_unknown_trainers(smollm2_cut, telugu):
    options = {"merges": "append", "auxiliary_size": 2000, "marks": "apart"}
    made = [
        expand_tokenizer(smollm2_cut, telugu[:200], 20, auxiliary_trainer=name, **options)
        for name in ("tokenizers", "sentencepiece")
    ]
    assert made[0].get_vocab() == made[1].get_vocab()
    with pytest.raises(UserError, match="auxiliary_trainer: 'spm' is not known"):
        expand_tokenizer(smollm2_cut, telugu, 20, auxiliary_trainer="spm")


def test_new_tokens_are_the_first_of_sentencepiece_that_can_be_reached(mistral_cut, telugu):
    source, lines = mistral_cut, telugu[:400]
    options = {"merges": "append", "auxiliary_size": 2000, "marks": "apart"}
    target = expand_tokenizer(source, lines, 40, auxiliary_trainer="sentencepiece", **options)
    new = target.convert_ids_to_tokens(new_token_ids(source, target))
    candidates = train_pieces(lines, 2000)
    # Characters that they need come first; the rest are in SentencePiece's order.
    places = [candidates.index(token) for token in new if len(token) > 1]
    assert len(places) > 20 and places == sorted(places)
    model = target.backend_tokenizer.model
    assert [[piece.value for piece in model.tokenize(token)] for token in new] == [[t] for t in new]


def test_frequent_latin_tokens_are_added_only_without_protect_latin(mistral_cut, telugu):
    lines = [f"{line} WhatsApp!!" for line in telugu[:200]]
    options = {"merges": "append", "auxiliary_size": 1000, "auxiliary_trainer": "sentencepiece"}
    protected, most_frequent = (
        expand_tokenizer(mistral_cut, lines, 60, protect_latin=protect, **options).get_vocab()
        for protect in (True, False)
    )
    assert "▁WhatsApp" in most_frequent.keys() - protected.keys()


def test_tokens_span_words_only_if_the_source_separates_none_and_they_may(
    mistral_cut, smollm2_cut, telugu
):
    options = {"merges": "auxiliary-first", "auxiliary_size": 2000, "marks": "apart"}

    def spanning(source, across_words):
        target = expand_tokenizer(source, telugu, 100, across_words=across_words, **options)
        new = target.batch_decode([[i] for i in new_token_ids(source, target)])
        return sum(" " in text.strip() or text.endswith(" ") for text in new)

    assert spanning(mistral_cut, False) == spanning(smollm2_cut, True) == 0
    assert spanning(mistral_cut, True) > 5
