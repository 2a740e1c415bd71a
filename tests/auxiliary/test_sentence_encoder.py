"""Vectors of tokens by a sentence encoder; what the encoder computes: evaluation/test_alignment."""

import numpy as np

from lexigraft.auxiliary.sentence_encoder import encode_tokens
from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.vocabulary.token_bytes import token_bytes


class Lengths:
    """Stands for an encoder: a text's vector is its length and its first letter."""

    def vectors(self, texts):
        assert len(set(texts)) == len(texts)  # each text is encoded once
        return np.array([(len(text), ord(text[0])) for text in texts], dtype=np.float32)


def test_each_token_has_the_vector_of_its_text(smollm2_cut):
    found = encode_tokens(smollm2_cut, Lengths())
    pieces = token_bytes(smollm2_cut)
    for token, vector in zip(found.tokens.tolist(), found.vectors.tolist(), strict=True):
        text = pieces[token].decode("utf-8", errors="replace")
        assert vector == [len(text), ord(text[0])]
    texts = {token: pieces[token] for token in found.tokens.tolist()}
    assert b" the" in texts.values()
    assert any(piece == b"\xe0" for piece in texts.values())  # no whole character, read as U+FFFD


def test_texts_of_a_known_tokenizer_are_not_encoded_again(smollm2_cut, letters):
    class Noting(Lengths):
        def vectors(self, texts):
            encoded.extend(texts)
            return super().vectors(texts)

    encoded: list[str] = []
    of_letters = encode_tokens(letters, Lengths())
    moved = TokenVectors(of_letters.tokens, of_letters.vectors + 1)
    found = encode_tokens(smollm2_cut, Noting(), (letters, moved))
    texts, pieces = token_bytes(letters), token_bytes(smollm2_cut)
    known = {texts[i].decode(errors="replace") for i in moved.tokens.tolist()}
    assert known and encoded and not known & {*encoded}
    for token, vector in zip(found.tokens.tolist(), found.vectors.tolist(), strict=True):
        text = pieces[token].decode(errors="replace")
        assert vector == [len(text) + (text in known), ord(text[0]) + (text in known)]
    everything = encode_tokens(letters, None, (letters, moved))
    assert (everything.vectors == moved.vectors).all()
