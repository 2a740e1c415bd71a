"""The tokenizers of the models of Yamaguchi et al. (lowres, §6.1), expanded by real text."""

import pytest
from transformers import PreTrainedTokenizerFast

from lexigraft.initialization import interface
from lexigraft.initialization.decomposition import decompose
from lexigraft.initialization.pairing import pair_vocabularies
from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.expand import expand_tokenizer, new_token_ids
from lexigraft.vocabulary.token_bytes import token_bytes
from tests.conftest import package_folder

# Hundreds of thousands of merges take seconds to read: once for all tests, in one process.
SIZES = {"llama-2": 32_000, "llama-3": 128_256, "gemma-2": 256_000}


K = 100
LANGUAGES = {"llama-2": "telugu", "llama-3": "telugu", "gemma-2": "burmese"}


def open_tokenizer(model):
    if model == "llama-2":
        folder = package_folder("wordllama") / "wordllama" / "tokenizers"
        file = str(folder / "l2_supercat_tokenizer_config.json")
        return PreTrainedTokenizerFast(
            tokenizer_file=file, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
        )
    folder = package_folder(f"{model}-tokenizer") / "package" / "models"
    return PreTrainedTokenizerFast.from_pretrained(folder)


@pytest.fixture(scope="module", params=list(LANGUAGES))
def expansion(request):
    """Name of the model, its tokenizer, the expanded one, and the texts."""
    model = request.param
    source, texts = open_tokenizer(model), request.getfixturevalue(LANGUAGES[model])
    return model, source, expand_tokenizer(source, texts, K), texts


@pytest.fixture(scope="module")
def pair(expansion):
    return pair_vocabularies(expansion[1], expansion[2])


def encoded(tokenizer, texts):
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def test_the_model_keeps_its_flags(expansion):
    model, source, target, *_ = expansion
    before, after = source.backend_tokenizer.model, target.backend_tokenizer.model
    for flag in ("ignore_merges", "byte_fallback", "fuse_unk", "unk_token", "dropout"):
        assert getattr(after, flag) == getattr(before, flag)
    assert after.ignore_merges == (model == "llama-3")
    assert after.byte_fallback == (model != "llama-3")


def test_the_merges_alone_reach_every_new_token(expansion):
    _, source, target, *_ = expansion
    new = target.convert_ids_to_tokens(new_token_ids(source, target))
    model = target.backend_tokenizer.model
    kept, model.ignore_merges = model.ignore_merges, False
    try:
        assert [[part.value for part in model.tokenize(token)] for token in new] == [
            [t] for t in new
        ]
    finally:
        model.ignore_merges = kept


def test_english_keeps_its_tokens_and_the_language_needs_fewer(expansion, english):
    _, source, target, texts = expansion
    lines = [*english, "It's 1,234.5 °C…", "  two  spaces\n", "<|begin_of_text|><bos><s> 😀"]
    assert encoded(target, lines) == encoded(source, lines)
    before, after = encoded(source, texts), encoded(target, texts)
    assert sum(map(len, after)) < 0.8 * sum(map(len, before))
    assert target.batch_decode(after) == source.batch_decode(before)


def test_only_gemma_tokenizes_the_spelling_of_a_token_as_the_token(pair, expansion, monkeypatch):
    # `mean-as-published` is `mean` there, an alias in config/studies/lowres.yaml.
    monkeypatch.setattr(interface, "pair_vocabularies", lambda *_: pair)
    model, source, target, *_ = expansion
    published, mean = (
        initializer("mean", pieces=pieces).fit(source, target) for pieces in ("spelling", "token")
    )
    ids = mean.new_ids
    same = [
        (one != other).nnz == 0
        for one, other in zip(published.recipe_.rows(ids), mean.recipe_.rows(ids), strict=True)
    ]
    assert all(same) if model == "gemma-2" else not any(same)


def test_exactly_k_tokens_follow_the_last_id(expansion):
    model, source, target, *_ = expansion
    size = SIZES[model]
    assert new_token_ids(source, target) == list(range(size, size + K))


def test_pieces_of_a_new_token_are_the_token(pair, expansion):
    data = token_bytes(expansion[2])
    for token_id, pieces in zip(pair.new_ids, decompose(pair, pair.new_ids), strict=True):
        assert len(pieces) > 1
        assert b"".join(pair.source_bytes[piece] for piece in pieces) == data[token_id]


def test_merge_gives_every_new_token_a_convex_recipe_over_its_own_bytes(
    pair, expansion, monkeypatch
):
    # Pairing 256,000 tokens takes seconds too.
    monkeypatch.setattr(interface, "pair_vocabularies", lambda *_: pair)
    _, source, target, *_ = expansion
    fitted = initializer("merge").fit(source, target)
    found = fitted.statistics()
    assert (found["new_tokens"], found["share_in_hull"], found["share_fallback"]) == (K, 1.0, 0.0)
    data = token_bytes(target)
    rows = fitted.recipe_.rows(fitted.new_ids)
    for place, token_id in enumerate(fitted.new_ids):
        pieces = rows[[place]].indices
        assert set(b"".join(pair.source_bytes[i] for i in pieces)) == set(data[token_id])
