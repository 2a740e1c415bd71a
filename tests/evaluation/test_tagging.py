"""Words and the tokens that they go by, in every family of tokenizers; F1 of whole entities."""

import pytest

from lexigraft.evaluation.tasks.tagging import entity_f1, word_tokens


@pytest.mark.parametrize("name", ["roberta_tokenizer", "mistral_tokenizer", "bert_tokenizer"])
def test_the_first_token_of_each_word_begins_where_the_word_does(name, request, english, greek):
    tokenizer = request.getfixturevalue(name)
    for sentence in [*english[:20], *greek[:20]]:
        words = sentence.split()
        text = " ".join(words)
        encoded = tokenizer(
            text, return_offsets_mapping=True, return_special_tokens_mask=True, truncation=False
        )
        is_text = [not special for special in encoded["special_tokens_mask"]]
        places = word_tokens(words, encoded["offset_mapping"], is_text)
        begin = 0
        for word, place in zip(words, places, strict=True):
            assert place is not None and is_text[place]
            first, last = encoded["offset_mapping"][place]
            shown = text[first:last].strip()
            assert shown and (word.startswith(shown) or shown.startswith(word))
            assert first <= begin < last
            begin += len(word) + 1


def test_a_token_may_represent_two_words_and_a_truncated_word_has_none():
    words = ["a", "b", "cd", "e"]  # "a b cd e"
    offsets = [(0, 0), (0, 3), (3, 5), (5, 6)]
    assert word_tokens(words, offsets, [False, True, True, True]) == [1, 1, 2, None]


def test_only_whole_entities_of_the_right_type_count():
    expected = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "O"]]
    found = [["B-PER", "I-PER", "O", "B-ORG"], ["B-ORG", "I-ORG"]]
    # One of three is right, of three that were found: precision and recall 1/3.
    assert entity_f1(expected, found) == pytest.approx(100 / 3)
    assert entity_f1(expected, expected) == 100
    assert entity_f1(expected, [["O"] * 4, ["O"] * 2]) == 0
