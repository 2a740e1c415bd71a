"""Expansion of two real tokenizers, in three languages, with each way of adding merges."""

import json
from functools import cache

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.expand import expand_tokenizer, expanded_sizes, new_token_ids
from lexigraft.vocabulary.token_bytes import token_bytes
from lexigraft.vocabulary.tokenizer_files import describe_vocabulary
from tests.conftest import _pairs

K = 120
MERGES = ("continued", "append", "auxiliary-first")
# Either family once as it is; the rest on its first merges, for which a tenth of the time will do.
GRID = [("smollm2_tokenizer", "telugu", "continued"), ("mistral_tokenizer", "telugu", "append")]
GRID += [("smollm2_cut", "telugu", m) for m in ("append", "auxiliary-first")]
GRID += [("mistral_cut", "telugu", m) for m in ("continued", "auxiliary-first")]
GRID += [
    (s, lang, "continued") for s in ("smollm2_cut", "mistral_cut") for lang in ("greek", "burmese")
]
# Each combination is expanded once for all claims about it.
cells = pytest.mark.parametrize("cell", GRID, indirect=True, ids="-".join)
keeping = pytest.mark.parametrize(
    "cell", [c for c in GRID if c[2] != "auxiliary-first"], indirect=True, ids="-".join
)


@pytest.fixture(scope="module")
def expansions(request):
    @cache
    def expand(source, language, merges):
        tokenizer, texts = request.getfixturevalue(source), request.getfixturevalue(language)
        return tokenizer, expand_tokenizer(tokenizer, texts, K, merges=merges), texts

    return expand


@pytest.fixture
def cell(request, expansions):
    return expansions(*request.param)


def encoded(tokenizer, texts):
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


@cells
def test_exactly_k_tokens_follow_the_last_id(cell):
    source, target, _ = cell
    size = len(source)
    assert new_token_ids(source, target) == list(range(size, size + K))
    assert len(target) == size + K


@cells
def test_every_new_token_can_be_produced(cell):
    source, target, _ = cell
    new = target.convert_ids_to_tokens(new_token_ids(source, target))
    model = target.backend_tokenizer.model
    assert [[part.value for part in model.tokenize(token)] for token in new] == [[t] for t in new]


@cells
def test_no_new_token_spans_two_words(cell):
    source, target, _ = cell
    data = token_bytes(target)
    for number in new_token_ids(source, target):
        text = data[number].decode("utf-8", errors="replace")
        assert not any(character.isspace() for character in text[1:])


@keeping
def test_english_text_keeps_its_tokens(cell, english):
    source, target, _ = cell
    assert encoded(target, english) == encoded(source, english)


@cells
def test_decoding_gives_back_what_it_gave_back_before(cell, english):
    source, target, texts = cell
    lines = [*texts, *english, "two  spaces 😀", " leading"]
    before = source.batch_decode(encoded(source, lines))
    after = target.batch_decode(encoded(target, lines))
    held = [text for text, decoded in zip(lines, before, strict=True) if decoded == text]
    assert held and set(held) <= set(after)


@cells
def test_old_tokens_keep_their_ids_and_the_rest_of_the_pipeline_is_untouched(cell):
    source, target, _ = cell
    vocab = target.get_vocab()
    assert all(vocab[token] == number for token, number in source.get_vocab().items())
    before, after = (json.loads(each.backend_tokenizer.to_str()) for each in (source, target))
    for state in (before, after):
        for changed in ("vocab", "merges"):
            del state["model"][changed]
        # Marks that are joined are the matter of test_marks.py.
        del state["pre_tokenizer"]
    assert after == before
    assert target.special_tokens_map == source.special_tokens_map
    assert target.chat_template == source.chat_template


@pytest.mark.parametrize("source", ["smollm2_cut", "mistral_cut"])
def test_sizes_learned_together_equal_sizes_learned_separately(source, telugu, request):
    source, text = request.getfixturevalue(source), telugu[:25]
    found = dict(expanded_sizes(source, text, [30, 5, 10**6]))
    assert list(found)[:2] == [5, 30]
    for size in (5, 30, list(found)[2]):
        alone = expand_tokenizer(source, text, size)
        assert found[size].backend_tokenizer.to_str() == alone.backend_tokenizer.to_str()
    with pytest.raises(UserError, match=f"only {list(found)[2]} can be added"):
        expand_tokenizer(source, text, list(found)[2] + 1)


@pytest.fixture(scope="module")
def llama3_like(english):
    """Byte-level BPE as Llama 3 has it: special tokens behind the model, words left whole."""
    words = Regex(r" ?[\p{L}\p{M}]+| ?\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]+|\s+")
    split = pre_tokenizers.Split(words, "isolated")
    small = Tokenizer(models.BPE())
    small.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    small.train_from_iterator(
        english, BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    )
    state = json.loads(small.to_str())
    state["model"]["ignore_merges"] = True
    state["model"]["vocab"]["whole"] = 500  # a word that only ignore_merges can produce
    backend = Tokenizer.from_str(json.dumps(state))
    backend.decoder = decoders.ByteLevel()
    specials = ["<|begin_of_text|>", "<|end_of_text|>", *(f"<|reserved_{i}|>" for i in range(20))]
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in specials])
    backend.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 501)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=specials[0], eos_token=specials[1], padding_side="left",
        extra_special_tokens=[specials[2]], model_max_length=8192, chat_template="{{ messages }}",
    )  # fmt: skip


@pytest.mark.parametrize("merges", MERGES)
def test_special_tokens_after_the_model_keep_their_ids(llama3_like, telugu, tmp_path, merges):
    target = expand_tokenizer(llama3_like, telugu, 50, merges=merges)
    assert new_token_ids(llama3_like, target) == list(range(523, 573))
    assert target.bos_token_id == 501 and target.convert_tokens_to_ids("<|reserved_19|>") == 522
    target.save_pretrained(tmp_path)
    again = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert again.get_vocab() == target.get_vocab()
    assert again(telugu[:20])["input_ids"] == target(telugu[:20])["input_ids"]
    assert target.encode("the <|reserved_19|>")[0] == 501 and 522 in again.encode("<|reserved_19|>")


def test_flags_and_settings_survive(llama3_like, telugu, english):
    target = expand_tokenizer(llama3_like, telugu, 50)
    assert read_bpe(target).ignore_merges
    assert encoded(target, ["whole"]) == [[500]]
    assert encoded(target, english) == encoded(llama3_like, english)
    for name in ("padding_side", "model_max_length", "chat_template", "extra_special_tokens"):
        assert getattr(target, name) == getattr(llama3_like, name)


@pytest.mark.bad_input(
    "model",
    "invalid arguments for vocabulary expansion",
    "a one-line error message names the argument",
)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"corpus": []}, "the corpus is empty"),
        ({"corpus": ["", "\n", " "]}, "the corpus is empty"),
        ({"corpus": "తెలుగు"}, "corpus is one string"),
        ({"new_tokens": 0}, "new_tokens: 0 is not a number of tokens"),
        ({"auxiliary_size": -1}, "auxiliary_size: -1 is not"),
        ({"merges": "prepend"}, "merges: 'prepend' is not known; did you mean 'append'"),
    ],
)
def test_impossible_requests_are_refused_in_one_line(llama3_like, arguments, message):
    with pytest.raises(UserError, match=message):
        expand_tokenizer(llama3_like, **{"corpus": ["తెలుగు"], "new_tokens": 5, **arguments})


def test_the_description_lists_every_new_token_as_text(expansions):
    source, target, _ = expansions("smollm2_tokenizer", "telugu", "continued")
    described = describe_vocabulary(
        "expand", source, target, new_token_ids(source, target), "continued"
    )
    assert (described["source_size"], described["size"]) == (49_152, 49_152 + K)
    assert described["new_merges"] >= K
    texts = [token["text"] for token in described["new_tokens"]]
    assert [token["id"] for token in described["new_tokens"]] == new_token_ids(source, target)
    assert "\\xe0\\xb0" in texts and "ర" in texts


# ---- tokens that are used, and English sentences that change -------------------------------------


@pytest.fixture(scope="module")
def german():
    """German sentences, whose new tokens occur in English too."""
    return [target for _, target in _pairs("de")]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.03])
def test_the_share_of_changed_english_sentences_is_limited(share, smollm2_cut, german, english):
    def changed(**options):
        target = expand_tokenizer(smollm2_cut, german, K, english=english, **options)
        before, after = encoded(smollm2_cut, english), encoded(target, english)
        return sum(one != two for one, two in zip(before, after, strict=True)) / len(english)

    assert changed() > 0.03
    assert changed(english_change=share) <= share


@pytest.mark.parametrize(
    ("source", "merges"),
    [("smollm2_cut", "continued"), ("smollm2_cut", "append"), ("mistral_cut", "continued")],
)
def test_text_without_the_letters_of_a_new_token_keeps_its_tokens(source, merges, request, english):
    # A corpus in Latin script may learn ASCII tokens: the English text is the corpus here.
    tokenizer = request.getfixturevalue(source)
    target = expand_tokenizer(tokenizer, english, 8, merges=merges)
    data = token_bytes(target)
    new = [data[number].decode() for number in new_token_ids(tokenizer, target)]
    before, after = encoded(tokenizer, english), encoded(target, english)
    changed = [text for text, one, two in zip(english, before, after, strict=True) if one != two]
    # Appended tokens may be reachable and still lose every place in this text to older merges.
    assert changed or merges == "append"
    assert all(any(token in f" {text}" for token in new) for text in changed)


@pytest.mark.parametrize(
    ("source", "merges"),
    [*(("smollm2_cut", merges) for merges in MERGES), ("mistral_cut", "continued")],
)
def test_expanding_again_gives_the_same_bytes(source, merges, expansions):
    tokenizer, target, texts = expansions(source, "telugu", merges)
    again = expand_tokenizer(tokenizer, iter(texts), K, merges=merges)
    assert again.backend_tokenizer.to_str() == target.backend_tokenizer.to_str()


@pytest.mark.parametrize(
    ("corpus", "sizes", "message"),
    [("తెలుగు", [5], "corpus is one string"), (["తెలుగు"], [5, -1], "sizes: -1 is not a number")],
)
def test_impossible_sizes_are_refused_in_one_line(llama3_like, corpus, sizes, message):
    with pytest.raises(UserError, match=message):
        list(expanded_sizes(llama3_like, corpus, sizes))


@pytest.mark.parametrize(
    ("source", "language"),
    [("smollm2_cut", "telugu"), ("smollm2_cut", "greek"), ("mistral_cut", "burmese")],
)
def test_the_corpus_uses_every_new_token_with_continued_merges(source, language, expansions):
    tokenizer, target, texts = expansions(source, language, "continued")
    used = {number for ids in encoded(target, texts) for number in ids}
    assert used.issuperset(new_token_ids(tokenizer, target))
