"""SentencePiece models as fast tokenizers, against the SentencePiece library, on real lines."""

import io

import pytest
import sentencepiece

from lexigraft.errors import UserError
from lexigraft.source.sentencepiece import sentencepiece_to_fast


def fast_ids(tokenizer, lines):
    return tokenizer(lines, add_special_tokens=False)["input_ids"]


def test_the_fast_tokenizer_is_the_library(mistral_model_file, mistral_tokenizer, lines):
    library = sentencepiece.SentencePieceProcessor(model_file=str(mistral_model_file))
    assert fast_ids(mistral_tokenizer, lines) == library.encode(lines)


def trained(english, **settings):
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(english), model_writer=buffer, num_threads=1, minloglevel=2,
        **{"vocab_size": 600, "model_type": "bpe", "byte_fallback": True, **settings},
    )  # fmt: skip
    return buffer.getvalue()


@pytest.mark.parametrize(
    "settings",
    [
        {"normalization_rule_name": "nmt_nfkc"},
        {"normalization_rule_name": "identity", "add_dummy_prefix": False},
        {"normalization_rule_name": "nfkc", "remove_extra_whitespaces": False},
        {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc", "vocab_size": 500},
        {
            "model_type": "unigram",
            "normalization_rule_name": "identity",
            "vocab_size": 500,
            "remove_extra_whitespaces": False,
            "user_defined_symbols": ["<sep>"],
        },
        {"user_defined_symbols": ["<sep>", "\t"], "pad_id": 3, "add_dummy_prefix": False},
    ],
)
def test_other_settings_of_the_library_are_followed(settings, english, lines, tmp_path):
    file = tmp_path / "tokenizer.model"
    file.write_bytes(trained(english, **settings))
    library = sentencepiece.SentencePieceProcessor(model_file=str(file))
    tokenizer = sentencepiece_to_fast(file)
    differing = [
        text
        for text, ids in zip(lines, fast_ids(tokenizer, lines), strict=True)
        if ids != library.encode(text)
    ]
    assert differing == []


def test_other_models_are_refused_by_name(english, tmp_path):
    file = tmp_path / "tokenizer.model"
    for data, message in (
        (trained(english, model_type="char"), "kind CHAR"),
        (trained(english, byte_fallback=False), "BPE without byte pieces"),
        (trained(english, model_type="unigram", byte_fallback=False), "UNIGRAM without byte"),
        (b"not a model", "not a SentencePiece model"),
    ):
        file.write_bytes(data)
        with pytest.raises(UserError, match=message):
            sentencepiece_to_fast(file)
    with pytest.raises(UserError, match="nowhere"):
        sentencepiece_to_fast(tmp_path / "nowhere")


def test_texts_come_back_with_their_spaces(mistral_tokenizer, lines):
    decoded = [mistral_tokenizer.decode(ids) for ids in fast_ids(mistral_tokenizer, lines)]
    assert decoded == lines
