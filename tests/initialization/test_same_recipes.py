"""Initializers that coincide, as the aliases of config/studies/lowres.yaml say."""

import pytest
from transformers import PreTrainedTokenizerFast

from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.expand import expand_tokenizer
from tests.conftest import package_folder


@pytest.fixture(scope="module")
def llama_2():
    folder = package_folder("wordllama") / "wordllama" / "tokenizers"
    file = str(folder / "l2_supercat_tokenizer_config.json")
    return PreTrainedTokenizerFast(
        tokenizer_file=file, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


@pytest.fixture(scope="module", params=["byte-fallback", "byte-level", "whole words first"])
def pair(request, llama_2, smollm2_cut, telugu):
    """Llama 2's tokenizer or SmolLM2's, the latter also as Llama 3 has it, with new tokens."""
    source = llama_2 if request.param == "byte-fallback" else smollm2_cut
    model = source.backend_tokenizer.model
    if request.param == "whole words first":
        model.ignore_merges = True
    merges = {"merges": "append", "auxiliary_size": 3000, "auxiliary_trainer": "sentencepiece"}
    yield source, expand_tokenizer(source, telugu, 100, marks="apart", **merges)
    model.ignore_merges = False


def test_align_equals_mean_with_appended_merges(pair, telugu):
    aligned = initializer("align").fit(*pair, corpus=telugu)
    assert (aligned.occurrences_ > 0).mean() > 0.9
    mean = initializer("mean").fit(*pair)
    assert abs(aligned.weights_ - mean.weights_).max() < 1e-12


def test_the_published_mean_differs(pair):
    published = initializer("mean", pieces="spelling").fit(*pair)
    new = published.new_ids
    apart = abs(published.weights_[new] - initializer("mean").fit(*pair).weights_[new])
    assert (apart.max(axis=1).toarray() > 0.01).mean() > 0.9
