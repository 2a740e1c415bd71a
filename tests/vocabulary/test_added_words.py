"""Sources with words that were added before, which are cut out of texts before BPE sees them."""

import copy
from functools import cache

import pytest
from tokenizers import AddedToken

from lexigraft.vocabulary.expand import expand_tokenizer, new_token_ids
from lexigraft.vocabulary.token_bytes import WordSplitter, token_bytes, unreachable_by_merges

OPTIONS = {
    "plain": {},
    "not normalized": {"normalized": False},
    "special": {"special": True, "normalized": False},
    "single words": {"single_word": True},
    "with spaces": {"lstrip": True, "rstrip": True},
}
KINDS = [("smollm2_cut", kind) for kind in OPTIONS] + [("mistral_cut", kind) for kind in OPTIONS]


def frequent_words(texts, count=40):
    words = [word for text in texts for word in text.split()]
    return sorted(sorted(set(words)), key=words.count, reverse=True)[:count]


@pytest.fixture(scope="module")
def sources(request, telugu):
    @cache
    def build(name, kind):
        source = copy.deepcopy(request.getfixturevalue(name))
        words = frequent_words(telugu)
        # The parts of words are added too, in the spelling of a text and with a space before.
        contents = dict.fromkeys([*words, words[0][:2], f" {words[5][:3]}"])
        new = [content for content in contents if content not in source.get_vocab()]
        source.add_tokens([AddedToken(content, **OPTIONS[kind]) for content in new])
        return source

    return build


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def expansion(request, sources, telugu):
    """A source with added words, and its expansion by 100 tokens."""
    source = sources(*request.param)
    return source, expand_tokenizer(source, telugu, 100)


def test_the_corpus_uses_every_new_token_of_a_source_with_added_words(expansion, telugu):
    source, target = expansion
    used = {number for ids in target(telugu).input_ids for number in ids}
    assert used.issuperset(new_token_ids(source, target))


def test_no_new_token_has_the_text_of_an_added_word(expansion):
    source, target = expansion
    stands_for = token_bytes(target)
    added = {stands_for[number] for number in source.added_tokens_decoder}
    assert added.isdisjoint(stands_for[number] for number in new_token_ids(source, target))


def test_words_are_those_that_the_model_of_the_tokenizer_gets(expansion, telugu):
    source, _ = expansion
    split, backend = WordSplitter(source.backend_tokenizer), source.backend_tokenizer
    added = set(source.added_tokens_decoder)
    for text in [*telugu[:100], *frequent_words(telugu)]:
        ids = backend.encode(text, add_special_tokens=False).ids
        own = [piece.id for word in split(text) for piece in backend.model.tokenize(word)]
        assert own == [number for number in ids if number not in added]


@pytest.mark.parametrize("merges", ["append", "auxiliary-first"])
def test_no_new_token_of_an_auxiliary_tokenizer_contains_an_added_word(merges, sources, telugu):
    source = sources("smollm2_cut", "plain")
    target = expand_tokenizer(source, telugu, 100, merges=merges)
    new = target.convert_ids_to_tokens(new_token_ids(source, target))
    assert unreachable_by_merges(target, new) == []
    stands_for = token_bytes(target)
    added = {stands_for[number] for number in source.added_tokens_decoder}
    for number in new_token_ids(source, target):
        assert not any(word in stands_for[number] for word in added)
