"""A model whose vocabulary another one takes over, special tokens and all."""

import pytest
import torch

from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer

PADDING = 5


@pytest.fixture
def source(byte_level):
    """`<s>` has id 0; ids 257 and 258 end and pad texts."""
    tokenizer = byte_level([])
    tokenizer.add_special_tokens({"eos_token": "<|end|>", "pad_token": "<|pad|>"})
    return tokenizer


@pytest.fixture
def target(byte_fallback):
    """`<unk>`, `<s>` and `</s>` have the ids 0, 1 and 2; new are `ab` and 6 tokens more."""
    return byte_fallback([("a", "b"), ("▁", "ab")], new_characters="తα")


@pytest.fixture
def model(source, tiny_llama):
    """A random Llama of the source, whose configs name the source's special tokens."""

    def build(tied=True):
        made = tiny_llama(len(source) + PADDING, tied=tied)
        for config in (made.config, made.generation_config):
            config.bos_token_id, config.eos_token_id = source.bos_token_id, source.eos_token_id
            config.pad_token_id = source.pad_token_id
        made.get_input_embeddings().padding_idx = source.pad_token_id
        return made

    return build


def fit(source, target, name="mean"):
    return initializer(name).fit(
        source, target, corpus=["ab abc", "త ab"], n_source=len(source) + PADDING, seed=1
    )


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ["mean", "merge", "align", "random", "permutation"])
def test_matrices_have_the_target_s_rows_and_the_shared_ones_are_copies(
    model, source, target, tied, name
):
    made = model(tied)
    before = [made.model.embed_tokens.weight.clone(), made.lm_head.weight.clone()]
    fitted = fit(source, target, name)
    grafted = graft(made, target, fitted)
    after = [grafted.model.embed_tokens.weight, grafted.lm_head.weight]
    assert (after[0] is after[1]) == tied
    shared = (fitted.source_of >= 0).nonzero()[0]
    for old, new in zip(before, after, strict=True):
        assert new.shape == (len(target), 32)
        assert torch.equal(new[shared], old[fitted.source_of[shared]])
        assert torch.isfinite(new).all()
    assert grafted.config.vocab_size == len(target)


def test_generation_ends_at_every_copy_of_an_end_token(byte_level, byte_fallback, tiny_llama):
    source, target = byte_level([], eos_token="<s>"), byte_fallback([])
    made = tiny_llama(len(source))
    for config in (made.config, made.generation_config):
        config.bos_token_id = config.eos_token_id = source.eos_token_id
    grafted = graft(made, target, initializer("mean").fit(source, target))
    rows = grafted.get_output_embeddings().weight
    assert torch.equal(rows[target.bos_token_id], rows[target.eos_token_id])
    assert grafted.generation_config.eos_token_id == [target.eos_token_id, target.bos_token_id]
    assert grafted.config.eos_token_id == target.eos_token_id


def test_an_expansion_leaves_the_configs_as_they_are(byte_level, tiny_llama):
    source, target = byte_level([]), byte_level([("a", "b")])
    made = tiny_llama(len(source))
    before = [config.to_dict() for config in (made.config, made.generation_config)]
    grafted = graft(made, target, initializer("mean").fit(source, target))
    after = [config.to_dict() for config in (grafted.config, grafted.generation_config)]
    before[0]["vocab_size"] += 1
    assert after == before


def test_equal_texts_of_shared_tokens_get_equal_logits(model, source, target):
    made = model(tied=False)
    old = source("cab", return_tensors="pt")["input_ids"]
    fitted = fit(source, target)
    new = torch.tensor([[target.get_vocab()[letter] for letter in "cab"]])
    expected = made(old).logits
    found = graft(made, target, fitted)(new).logits
    shared = (fitted.source_of >= 0).nonzero()[0]
    assert torch.equal(found[..., shared], expected[..., fitted.source_of[shared]])
