import pytest
from tokenizers import models

from lexigraft.errors import UserError
from lexigraft.initialization.pairing import pair_vocabularies


def shared_tokens(source, target, shared="bytes"):
    """Ids of shared target tokens and the source tokens that they copy."""
    source_of = pair_vocabularies(source, target, shared=shared).source_of.tolist()
    return {i: source_id for i, source_id in enumerate(source_of) if source_id >= 0}


def test_new_tokens_may_replace_padding_rows(byte_level):
    source, target = byte_level([]), byte_level([("a", "b"), ("ab", "c")])
    pair = pair_vocabularies(source, target, n_source=len(source) + 10)
    assert pair.n_target == pair.n_source == len(source) + 10
    assert pair.new_ids.tolist() == [len(source), len(source) + 1]


def test_a_target_that_moves_source_tokens_replaces_the_source(byte_level):
    source, target = byte_level([("a", "b"), ("c", "d")]), byte_level([("c", "d"), ("e", "f")])
    pair = pair_vocabularies(source, target, n_source=len(source) + 10)
    assert not pair.expands
    assert pair.n_target == len(target)  # padding rows of the source are not taken over
    assert pair.new_tokens == ["ef"]
    copied = pair.source_of[target.get_vocab()["cd"]]
    assert copied == source.get_vocab()["cd"] != target.get_vocab()["cd"]


def test_a_matrix_smaller_than_the_source_is_an_error(byte_level):
    source = byte_level([("a", "b")])
    with pytest.raises(UserError, match=r"n_source=12: .* does not belong to this model"):
        pair_vocabularies(source, source, n_source=12)


@pytest.mark.parametrize("family", ["byte-level", "byte-fallback", "unigram", "wordpiece"])
@pytest.mark.parametrize("special", [True, False])
def test_an_added_token_without_a_row_is_new_in_the_target(family, special, small_tokenizer):
    sentences = ["the rice and the river", "the river and the rain"] * 9
    source = small_tokenizer(family, sentences, 300 if family == "byte-fallback" else 60)
    rows = len(source)
    source.add_tokens(["<image>", "<video>"], special_tokens=special)
    pair = pair_vocabularies(source, source, n_source=rows)
    assert pair.expands and pair.new_tokens == ["<image>", "<video>"]
    assert pair.n_source == rows and pair.target_bytes[rows:] == [b"<image>", b"<video>"]
    # Methods tokenize texts and spellings with this tokenizer: each id needs a row.
    text = "the river <image> the<video>"
    assert max(pair.source_tokenizer(text, add_special_tokens=False).input_ids) < rows
    assert pair.source_tokenizer.tokenize("the river") == source.tokenize("the river")


def test_a_gap_between_the_new_ids_is_an_error(byte_level):
    source, target = byte_level([]), byte_level([("a", "b")])
    vocabulary = {**source.get_vocab(), "ab": len(source) + 3}
    target.backend_tokenizer.model = models.BPE(vocab=vocabulary, merges=[("a", "b")])
    with pytest.raises(UserError, match=f"no token has id {len(source)}"):
        pair_vocabularies(source, target)


def test_shared_tokens_are_found_by_their_bytes_across_families(byte_level, byte_fallback):
    source, target = byte_level([("Ġ", "a"), ("a", "b")]), byte_fallback([("▁", "a"), ("b", "a")])
    shared = shared_tokens(source, target)
    source_ids, target_ids = source.get_vocab(), target.get_vocab()
    assert shared[target_ids["▁a"]] == source_ids["Ġa"]
    assert shared[target_ids["b"]] == source_ids["b"]
    assert shared[target_ids["<0xE0>"]] == source_ids["à"]
    assert target_ids["ba"] not in shared


@pytest.mark.parametrize(
    ("shared", "expected"),
    [
        ("bytes", {"▁ab": "Ġab", "ba": "ba", "Ba": "Ba", "<0xC3>": "Ã"}),
        ("spelling", {"ba": "ba", "Ba": "Ba"}),
        ("without-space", {"▁ab": "Ġab", "▁ba": "ba", "ba": "ba", "Ba": "Ba", "<0xC3>": "Ã"}),
        (
            "fuzzy",
            {"▁ab": "Ġab", "▁ba": "ba", "ba": "ba", "Ba": "Ba", "▁BA": "ba", "<0xC3>": "Ã"},
        ),
        ("special", {}),
    ],
)
def test_rules_say_which_tokens_are_shared(byte_level, byte_fallback, shared, expected):
    source = byte_level([("Ġ", "a"), ("Ġa", "b"), ("B", "a"), ("b", "a")], eos_token="<end>")
    target = byte_fallback(
        [("a", "b"), ("▁", "ab"), ("b", "a"), ("▁", "ba")],
        "AB",
        [("B", "a"), ("B", "A"), ("▁", "BA")],
    )
    pair = pair_vocabularies(source, target, shared=shared)
    strings = source.convert_ids_to_tokens(range(len(source)))
    copied = {
        token: strings[pair.source_of[token_id]]
        for token, token_id in target.get_vocab().items()
        if pair.source_of[token_id] >= 0
    }
    tokens = ("▁ab", "▁ba", "ba", "Ba", "▁BA", "▁", "<0xC3>")
    assert {token: copied[token] for token in tokens if token in copied} == expected | (
        {"▁": "Ġ"} if shared in ("bytes", "without-space", "fuzzy") else {}
    )
    assert (copied["<s>"], copied["</s>"]) == ("<s>", "<end>")
    assert pair.shared_ids.tolist() == sorted(
        target.get_vocab()[token] for token in copied if token not in ("<s>", "</s>")
    )


def test_similar_source_tokens_are_ranked(byte_level, byte_fallback):
    """By the space before them, then by length, then lower case before upper case."""
    source = byte_fallback([("Д", "а"), ("д", "а"), ("▁", "да"), ("▁", "x")], "Ддаx")
    target = byte_fallback([], "ДАX", [("Д", "А"), ("▁", "ДА"), ("▁", "▁ДА"), ("▁", "X")])
    shared = shared_tokens(source, target, "fuzzy")
    strings = source.convert_ids_to_tokens(range(len(source)))
    of_target = {
        token: strings[shared[i]] for token, i in target.get_vocab().items() if i in shared
    }
    assert of_target["ДА"] == "да" and of_target["▁ДА"] == of_target["▁▁ДА"] == "▁да"
    assert of_target["X"] == "x" and of_target["▁X"] == "▁x"


def test_in_an_expansion_similar_tokens_are_copied_and_equal_bytes_are_new(byte_fallback):
    source = byte_fallback([("a", "b")])
    target = byte_fallback([("a", "b"), ("▁", "ab")], "zA", [("A", "b")])
    of_rule = {
        rule: pair_vocabularies(source, target, len(source) + 1, rule).new_tokens
        for rule in ("bytes", "spelling", "without-space", "fuzzy")
    }
    assert of_rule["bytes"] == of_rule["spelling"] == ["▁ab", "z", "A", "Ab"]
    assert of_rule["without-space"] == ["Ab"]
    assert of_rule["fuzzy"] == []
    assert not pair_vocabularies(source, target, shared="special").expands


def test_shared_special_tokens_match_by_string_and_by_role(byte_level, byte_fallback):
    source, target = byte_level([], eos_token="<|end|>"), byte_fallback([])
    shared = shared_tokens(source, target)
    assert shared[target.bos_token_id] == source.bos_token_id
    assert shared[target.eos_token_id] == source.eos_token_id
    assert target.unk_token_id not in shared


def test_a_special_token_is_never_shared_with_the_text_that_spells_it(byte_level):
    source, target = byte_level([("<", "/"), ("</", "s"), ("</s", ">")]), byte_level([])
    target.add_special_tokens({"eos_token": "</s>"})
    assert target.eos_token_id not in shared_tokens(source, target)


def test_a_letter_is_shared_with_its_token_and_not_with_its_byte(byte_level, byte_fallback):
    source, target = byte_fallback([]), byte_level([])
    shared = shared_tokens(source, target)
    source_ids, target_ids = source.get_vocab(), target.get_vocab()
    assert shared[target_ids["a"]] == source_ids["a"] != source_ids["<0x61>"]
    assert shared[target_ids["z"]] == source_ids["<0x7A>"]  # no token of its own


def test_wordpiece_tokens_match_by_position_in_a_word(bert_tokenizer, mistral_tokenizer):
    shared = shared_tokens(mistral_tokenizer, bert_tokenizer)
    old, new = mistral_tokenizer.get_vocab(), bert_tokenizer.get_vocab()
    assert shared[new["the"]] == old["▁the"]
    assert shared[new["##ing"]] == old["ing"]
    assert shared[new["."]] == old["."]
    back = shared_tokens(bert_tokenizer, mistral_tokenizer)
    assert back[old["▁the"]] == new["the"]
    assert back[old["ing"]] == new["##ing"]
    assert old["▁The"] not in back  # BERT reads no capitals
