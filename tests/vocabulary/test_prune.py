"""Pruning of two real tokenizers and of an expanded one: what goes, what stays, how text is cut."""

import json

import pytest
import sentencepiece
from tokenizers import AddedToken, Tokenizer, models

from lexigraft.errors import UserError
from lexigraft.source.sentencepiece import sentencepiece_to_fast
from lexigraft.vocabulary.bpe import BYTE_TOKENS, read_bpe
from lexigraft.vocabulary.change import change_tokenizer
from lexigraft.vocabulary.expand import expand_tokenizer, new_token_ids
from lexigraft.vocabulary.prune import prune_tokenizer
from lexigraft.vocabulary.token_bytes import byte_alphabet, unreachable_by_merges
from lexigraft.vocabulary.tokenizer_files import extended_model
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, set_surrounding, settings_of
from tests.conftest import first_merges

KINDS = ("byte-level", "byte-fallback", "expanded")
cells = pytest.mark.parametrize("cell", KINDS, indirect=True)


@pytest.fixture(scope="module")
def mistral_cut(mistral_tokenizer):
    return first_merges(mistral_tokenizer)


@pytest.fixture(scope="module")
def sample(english, telugu, greek):
    """A part of the lines, in three scripts, and lines that tokenizers get wrong."""
    return [*english[:60], *telugu[:30], *greek[:30], "  two  spaces 😀🤷‍♀️", "e\u0301", "tab\t", ""]


@pytest.fixture(scope="module")
def pruned(smollm2_cut, mistral_cut, telugu, sample):
    """Of each kind a tokenizer, the same without what the sample does not use, and ids kept."""
    expanded = expand_tokenizer(smollm2_cut, telugu, 60)
    new = new_token_ids(smollm2_cut, expanded)
    whole = {"byte-level": (smollm2_cut, []), "byte-fallback": (mistral_cut, [])}
    return {
        kind: (tokenizer, prune_tokenizer(tokenizer, sample, keep=keep), keep)
        for kind, (tokenizer, keep) in (whole | {"expanded": (expanded, new)}).items()
    }


@pytest.fixture
def cell(request, pruned):
    return pruned[request.param]


def tokens(tokenizer, texts):
    return [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(texts)["input_ids"]]


@cells
def test_the_sample_is_segmented_into_the_same_tokens(cell, sample):
    before, after, _ = cell
    assert tokens(after, sample) == tokens(before, sample)


@cells
def test_removed_tokens_are_unused_and_kept_tokens_are_needed(cell, sample):
    before, after, keep = cell
    used = {token for line in tokens(before, sample) for token in line}
    stay, bpe = after.get_vocab().keys(), read_bpe(before)
    assert not used - stay
    assert len(stay) < len(bpe.vocab)
    fixed = bpe.added | BYTE_TOKENS | byte_alphabet().keys() | {bpe.unk_token}
    fixed |= {*before.convert_ids_to_tokens(keep)}
    # Unused, a token stays for one that is made of it.
    parts = {
        part for pair in read_bpe(after).merges if "".join(pair) in stay for part in pair
    }  # fmt: skip
    assert stay <= used | fixed | parts


@cells
def test_ids_have_no_gap_and_tokens_keep_their_order(cell):
    before, after, _ = cell
    old, new = before.get_vocab(), after.get_vocab()
    assert sorted(new.values()) == list(range(len(new)))
    order = sorted(new, key=new.__getitem__)
    assert order == sorted(order, key=old.__getitem__)
    assert after.special_tokens_map == before.special_tokens_map
    assert after.chat_template == before.chat_template
    pipelines = [json.loads(each.backend_tokenizer.to_str()) for each in (before, after)]
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        assert pipelines[0][part] == pipelines[1][part]


def test_the_tokens_around_a_text_have_their_new_ids(smollm2_cut, sample):
    backend = Tokenizer.from_str(smollm2_cut.backend_tokenizer.to_str())
    backend.add_special_tokens([AddedToken("<last>", special=True, normalized=False)])
    set_surrounding(backend, ["<last>"], ["<|endoftext|>"], byte_level=True)
    before = fast_tokenizer(backend, settings_of(smollm2_cut))
    after = prune_tokenizer(before, sample)
    (ids,) = after(["the"])["input_ids"]
    assert ids[0] == len(after) - 1 < len(before) - 1
    assert tokens(after, sample[:9]) == tokens(before, sample[:9])


@pytest.fixture
def toy(byte_tokenizer):
    """Tokens `ab`, `abc`, `de` and `def`, in this order."""
    return byte_tokenizer(("a", "b"), ("ab", "c"), ("d", "e"), ("de", "f"))


@pytest.mark.parametrize(
    ("text", "options", "left"),
    [
        ("xyz", {}, set()),
        ("ab", {}, {"ab"}),
        ("abc", {}, {"ab", "abc"}),
        # The last learned goes first: `def`, then `de`, which is a leaf then, then `abc`.
        ("xyz", {"at_most": 1}, {"ab", "abc", "de"}),
        ("xyz", {"at_most": 2}, {"ab", "abc"}),
        ("xyz", {"at_most": 3}, {"ab"}),
        ("def", {"at_most": 1}, {"ab", "de", "def"}),
        ("xyz", {"keep": [260]}, {"de", "def"}),
    ],
)
def test_leaves_are_removed_one_after_the_other(toy, text, options, left):
    after = prune_tokenizer(toy, [text], **options)
    assert {token for token in after.get_vocab() if 1 < len(token) < 4} == left
    assert after.eos_token_id == 0 and len(after) == 257 + len(left)


def test_a_piece_keeps_only_the_parts_of_the_split_that_is_merged():
    """`abc` is `ab` and `c`; `bc`, of another of its splits, is not needed for it."""
    vocab = ["<unk>", *sorted(BYTE_TOKENS), *"abc", "ab", "bc", "abc"]
    merges = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")]
    backend = Tokenizer(
        models.BPE(
            {token: number for number, token in enumerate(vocab)}, merges, unk_token="<unk>",
            fuse_unk=True, byte_fallback=True,
        )
    )  # fmt: skip
    after = prune_tokenizer(fast_tokenizer(backend, {"unk_token": "<unk>"}), ["abc"])
    assert {*vocab} - {*after.get_vocab()} == {"bc"}
    assert after.tokenize("abc") == ["abc"]


def test_tokenizer_model_is_pruned_with_tokenizer_json(pruned, mistral_model_file, lines):
    whole = sentencepiece_to_fast(mistral_model_file)
    after = prune_tokenizer(whole, lines[:100])
    library = sentencepiece.SentencePieceProcessor(
        model_proto=extended_model(mistral_model_file, after)
    )
    assert library.get_piece_size() == len(after) < len(whole)
    assert library.encode(lines) == after(lines, add_special_tokens=False)["input_ids"]
    assert (library.unk_id(), library.bos_id(), library.eos_id()) == (0, 1, 2)


def test_an_expansion_removes_as_many_tokens_as_it_adds(smollm2_cut, telugu, english):
    settings = {"mode": "expand", "new_tokens": 50, "merges": "continued", "prune": "never-used"}
    tokenizer, described = change_tokenizer(smollm2_cut, telugu, settings, english)
    assert len(tokenizer) == len(smollm2_cut) == described["size"] == described["source_size"]
    assert described["mode"] == "expand" and described["rows_saved"] == 50
    new = {token["token"]: token["id"] for token in described["new_tokens"]}
    assert len(new) == 50 and new.items() <= tokenizer.get_vocab().items()
    assert not new.keys() & smollm2_cut.get_vocab().keys()
    assert tokens(tokenizer, english) == tokens(smollm2_cut, english)


def test_tokens_of_english_are_kept_by_default(smollm2_cut, telugu, english):
    settings = {"mode": "prune", "prune": "never-used"}
    kept, described = change_tokenizer(smollm2_cut, telugu, settings, english)
    assert (
        described["rows_saved"] == len(smollm2_cut) - len(kept) > 0 == len(described["new_tokens"])
    )
    assert tokens(kept, english) == tokens(smollm2_cut, english)
    alone, _ = change_tokenizer(smollm2_cut, telugu, settings | {"prune_english": False}, english)
    assert len(alone) < len(kept)
    with pytest.raises(UserError, match="prune_english: there are no English sentences"):
        change_tokenizer(smollm2_cut, telugu, settings)


@cells
def test_other_text_is_still_decoded_correctly(cell, lines):
    before, after, _ = cell
    ids = [tokenizer(lines)["input_ids"] for tokenizer in (before, after)]
    assert after.batch_decode(ids[1]) == before.batch_decode(ids[0])
    assert sum(map(len, ids[1])) > sum(map(len, ids[0]))


@cells
def test_reachable_tokens_stay_reachable(cell):
    before, after, _ = cell
    stay = read_bpe(after).mergeable
    assert unreachable_by_merges(after, stay) == unreachable_by_merges(before, stay)


@pytest.mark.parametrize(
    ("corpus", "options", "message"),
    [
        ("a text", {}, "corpus is one string"),
        ([], {}, "the corpus is empty"),
        (["", ""], {}, "the corpus is empty"),
        (["a"], {"at_most": 0}, "at_most: 0 is not a number of tokens"),
    ],
)
def test_impossible_arguments_are_refused(toy, corpus, options, message):
    with pytest.raises(UserError, match=message):
        prune_tokenizer(toy, corpus, **options)
