"""SentencePiece models against the SentencePiece library, on real lines."""

import pytest
import sentencepiece

from lexigraft.errors import UserError
from lexigraft.source.sentencepiece import read_model, sentencepiece_to_fast
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.sentencepiece_model import extended_model


def fast_ids(tokenizer, lines):
    return tokenizer(lines, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(
    ("language", "merges"),
    [
        ("telugu", "continued"),
        ("telugu", "append"),
        ("telugu", "auxiliary-first"),
        ("english", "continued"),
    ],
)
def test_the_extended_model_is_the_extended_fast_tokenizer(
    language, merges, mistral_model_file, mistral_tokenizer, lines, request
):
    k = 200 if language == "telugu" else 8
    target = expand_tokenizer(
        mistral_tokenizer, request.getfixturevalue(language), k, merges=merges
    )
    data = extended_model(mistral_model_file, target)
    library = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert library.get_piece_size() == 32_000 + k
    ids = fast_ids(target, lines)
    assert library.encode(lines) == ids
    if language == "telugu":
        assert any(number >= 32_000 for text in ids for number in text)


def test_new_pieces_score_below_all_old_ones_in_order(
    mistral_model_file, mistral_tokenizer, telugu, tmp_path
):
    target = expand_tokenizer(mistral_tokenizer, telugu, 50)
    file = tmp_path / "tokenizer.model"
    file.write_bytes(extended_model(mistral_model_file, target))
    scores = [piece.score for piece in read_model(file).pieces]
    assert max(scores[32_000:]) < min(scores[:32_000])
    assert scores[32_000:] == sorted(set(scores[32_000:]), reverse=True)
    assert [piece.type for piece in read_model(file).pieces[32_000:]] == [1] * 50


def test_added_tokens_behind_the_model_become_pieces(mistral_model_file, telugu):
    tokenizer = sentencepiece_to_fast(mistral_model_file)
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    target = expand_tokenizer(tokenizer, telugu, 20)
    data = extended_model(mistral_model_file, target)
    library = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert library.is_control(32_000) and library.id_to_piece(32_000) == "<pad>"
    assert library.encode(telugu) == fast_ids(target, telugu)


def test_a_model_of_another_tokenizer_is_not_extended(
    mistral_model_file, mistral_tokenizer, tmp_path
):
    model = read_model(mistral_model_file)
    model.pieces[500].piece, model.pieces[501].piece = "other", "pieces"
    file = tmp_path / "tokenizer.model"
    file.write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match="belongs to another tokenizer"):
        extended_model(file, mistral_tokenizer)
