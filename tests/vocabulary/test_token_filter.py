"""The words of a corpus, and the filter of new tokens."""

from collections import Counter

import pytest

from lexigraft.vocabulary.bpe import Bpe, read_bpe
from lexigraft.vocabulary.token_bytes import byte_alphabet
from lexigraft.vocabulary.token_filter import count_words, token_filter

LETTER = {byte: letter for letter, byte in byte_alphabet().items()}
TELUGU = Counter({"▁తెలుగు": 5, "▁Kolibri": 1})


def spelled(text):
    return "".join(LETTER[byte] for byte in text.encode())


def sentencepiece(words=TELUGU, protect=True):
    bpe = Bpe({"▁": 0}, [], False, True, frozenset(), False, None, True)
    return token_filter(bpe, words, protect)


def byte_level(words, protect=True):
    return token_filter(Bpe({}, [], True, False, frozenset(), False, None, False), words, protect)


@pytest.mark.parametrize("token", ["ను▁", "▁▁ను", "ను▁వె", "ను\u00a0వె"])
def test_a_token_across_words_is_refused(token):
    assert not sentencepiece()(token)
    assert not byte_level(TELUGU)(spelled(token.replace("▁", " ")))


@pytest.mark.parametrize("token", ["ను.", "(ను", "౧ను", "౧౨", "▁౧"])
def test_sentencepiece_tokens_do_not_join_letters_with_digits_or_punctuation(token):
    assert not sentencepiece()(token)


@pytest.mark.parametrize("token", ["ను", "▁తెలుగు", "క్\u200cష", "౧", "।", "▁।।"])
def test_letters_marks_joiners_and_single_characters_are_accepted(token):
    assert sentencepiece()(token)


@pytest.mark.parametrize("token", ["Kolibri", "▁é", "…", "’s", "▁—", "😀"])
def test_tokens_that_english_may_contain_are_rejected_for_corpora_in_another_script(token):
    assert not sentencepiece()(token)
    assert not byte_level(Counter({spelled("తెలుగు"): 1}))(spelled(token.replace("▁", " ")))


@pytest.mark.parametrize(
    ("data", "admitted"),
    [
        (b"\xe0\xb0", True),  # begins a Telugu letter
        (b" \xe1\x80", True),  # begins a Burmese letter
        (b"\xe2\xb4", True),  # begins a Tifinagh letter
        (b"\xf0\x9e\xa4", True),  # begins an Adlam letter
        (b"\xc3", False),  # begins é
        (b" \xe2\x80", False),  # begins a dash
        (b"\xf0\x9f", False),  # begins an emoji
        (b"\x80\x99", False),  # ends any of them
    ],
)
def test_incomplete_characters_are_judged_by_their_completions(data, admitted):
    token = "".join(LETTER[byte] for byte in data)
    assert byte_level(Counter({spelled("తెలుగు"): 1}))(token) is admitted


def test_byte_level_words_are_those_of_the_pre_tokenizer(smollm2_tokenizer):
    backend = smollm2_tokenizer.backend_tokenizer
    words = count_words(backend, read_bpe(smollm2_tokenizer), ["the sea, the é", "\n"])
    assert words == {"the": 1, "Ġsea": 1, ",": 1, "Ġthe": 1, "ĠÃ©": 1}


def test_sentencepiece_words_begin_at_spaces_without_a_pre_tokenizer(mistral_tokenizer):
    backend = mistral_tokenizer.backend_tokenizer
    words = count_words(backend, read_bpe(mistral_tokenizer), ["the sea", "the  sea\r\n"])
    assert words == {"▁the": 2, "▁sea": 1, "▁▁sea": 1}


@pytest.mark.parametrize("token", ["für", "▁für", "ü.", "a", "я1"])
def test_without_ascii_tokens_with_ascii_characters_are_rejected(token):
    german = Counter({"▁für": 5})
    bpe = Bpe({"▁": 0}, [], False, True, frozenset(), False, None, True)
    assert not token_filter(bpe, german, False, ascii=False)(token)


@pytest.mark.parametrize("token", ["ß", "▁ü", "▁తెలుగు", "ను"])
def test_without_ascii_a_leading_space_is_allowed(token):
    bpe = Bpe({"▁": 0}, [], False, True, frozenset(), False, None, True)
    assert token_filter(bpe, Counter({"▁für": 5}), False, ascii=False)(token)
