"""Reading the BPE model: both spellings of merges, unused ids, and corrupt files."""

import json

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.expand import expand_tokenizer, new_token_ids
from lexigraft.vocabulary.prune import prune_tokenizer
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, settings_of
from lexigraft.vocabulary.train import train_tokenizer


def byte_level(vocab, merges, **flags):
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, **flags))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def test_the_family_of_real_tokenizers_is_recognized(smollm2_tokenizer, mistral_tokenizer):
    smollm2, mistral = read_bpe(smollm2_tokenizer), read_bpe(mistral_tokenizer)
    assert smollm2.byte_level and not mistral.byte_level
    assert (len(smollm2.vocab), len(smollm2.merges)) == (49_152, 48_900)
    assert len(mistral.vocab) == 32_000
    assert smollm2.merges[0] == ("Ġ", "t")
    assert "<s>" in mistral.added and "<0x41>" not in mistral.mergeable


@pytest.mark.parametrize("spelling", [" ".join, list])
def test_merges_are_read_as_strings_and_as_pairs(spelling):
    state = json.loads(byte_level({"a": 0, "b": 1, "ab": 2}, [("a", "b")])._tokenizer.to_str())
    state["model"]["merges"] = [spelling(pair) for pair in state["model"]["merges"]]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(state)))
    assert read_bpe(tokenizer).merges == [("a", "b")]


class Stub:
    """A fast tokenizer with this vocabulary and these merges, which the library may not write."""

    def __init__(self, vocab, merges):
        model = {"type": "BPE", "vocab": vocab, "merges": merges, "byte_fallback": True}
        self.state = {"model": model, "added_tokens": [], "pre_tokenizer": None, "decoder": None}
        self.backend_tokenizer = self

    def get_vocab(self, with_added_tokens):
        return self.state["model"]["vocab"]

    def to_str(self):
        return json.dumps(self.state)


@pytest.mark.bad_input(
    "model",
    "a vocabulary with duplicate ids or invalid merges",
    "a one-line error message names the token or the merge",
)
@pytest.mark.parametrize(
    ("vocab", "merges", "message"),
    [
        ({"a": 0, "b": 1, "ab": 1}, [], "'b' and 'ab' share id 1"),
        (
            {"a": 0, "b": 1, "ab": 2},
            [("a", "b"), ("a", "b")],
            r"merge \('a', 'b'\) is listed 2 times",
        ),
        ({"a": 0, "b": 1}, [("a", "b")], r"merge \('a', 'b'\) needs 'ab'"),
    ],
)
def test_what_the_library_loads_without_a_word_is_refused(vocab, merges, message):
    with pytest.raises(UserError, match=message):
        read_bpe(Stub(vocab, merges))


@pytest.mark.bad_input(
    "model",
    "a tokenizer of a family whose vocabulary cannot be expanded",
    "a one-line error message names the family",
)
@pytest.mark.parametrize(
    ("model", "named"),
    [
        (models.Unigram([("a", -1.0), ("b", -2.0)], unk_id=0), "Unigram"),
        (models.WordPiece({"a": 0, "[UNK]": 1}, unk_token="[UNK]"), "WordPiece"),
        (models.BPE(vocab={"a": 0}, merges=[]), "BPE over characters"),
        (models.BPE({"a": 0}, [], end_of_word_suffix="</w>"), "word suffix"),
    ],
)
def test_other_families_are_refused_by_name(model, named):
    with pytest.raises(UserError, match=named):
        read_bpe(PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model)))


def with_unused_ids(tokenizer, moved):
    """The tokenizer with other ids: `moved` maps each id to one, in the same order."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["model"]["vocab"] = {t: moved(i) for t, i in tokenizer.get_vocab().items()}
    for token in state["added_tokens"]:
        token["id"] = moved(token["id"])
    return fast_tokenizer(state, settings_of(tokenizer))


@pytest.mark.parametrize("family", ["byte-level-bpe", "sentencepiece-bpe"])
@pytest.mark.parametrize(
    "moved",
    [lambda i: i + (i > 0), lambda i: i + 7 * (i > 100), lambda i: 3 * i + 5],
    ids=["one", "a range", "nearly all"],
)
def test_new_tokens_of_a_tokenizer_with_unused_ids_follow_its_last_id(family, moved):
    english, swahili = ["the rice and the river"] * 5, ["mto na mvua", "mto na maji ya mvua"] * 5
    plain = train_tokenizer(english, family, 265 if family == "byte-level-bpe" else 280)
    source = with_unused_ids(plain, moved)
    target = expand_tokenizer(source, swahili, new_tokens=2)
    behind = max(source.get_vocab().values()) + 1
    assert new_token_ids(source, target) == list(range(behind, behind + 2))
    same = expand_tokenizer(plain, swahili, new_tokens=2)
    texts = ["mto na maji", "the river", "తెలుగు 😀"]
    assert [target.tokenize(text) for text in texts] == [same.tokenize(text) for text in texts]
    assert [target.decode(target.encode(text)) for text in texts] == [
        same.decode(same.encode(text)) for text in texts
    ]


def test_a_pruned_tokenizer_has_no_unused_ids():
    source = with_unused_ids(train_tokenizer(["the rice and the river"] * 5, "byte-level-bpe", 265),
                             lambda i: i + 7 * (i > 100))  # fmt: skip
    pruned = prune_tokenizer(source, ["the rice"])
    assert sorted(pruned.get_vocab().values()) == list(range(len(pruned)))
    assert pruned.tokenize("the rice") == source.tokenize("the rice")
