"""Documents of a sequence come out as they do alone, in every architecture that is let through."""

import numpy as np
import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from lexigraft.errors import UserError
from lexigraft.training.data import SequenceDataset, collate, concatenate, pack
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.objectives.mtp import EXTRA_HEAD, MultiTokenPrediction, new_extra_head
from lexigraft.training.train import check_length
from lexigraft.training.trainable import check_document_separation

DOCUMENTS = [[5, 9, 3, 7, 11], [6, 2], [8, 4, 10, 12, 13, 14, 15], [1], [16, 17, 18]]
SIZES = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.3,
}  # fmt: skip


def gpt2(attention):
    config = GPT2Config(
        vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=32, initializer_range=0.3
    )
    return GPT2LMHeadModel._from_config(config, attn_implementation=attention)


def llama(attention):
    return LlamaForCausalLM._from_config(LlamaConfig(**SIZES), attn_implementation=attention)


def mistral(attention):
    config = MistralConfig(**SIZES, sliding_window=3)  # a window shorter than a document
    return MistralForCausalLM._from_config(config, attn_implementation=attention)


def built(make, *arguments):
    torch.manual_seed(0)
    return make(*arguments).eval()


MADE = [(llama, "sdpa"), (mistral, "eager"), (gpt2, "sdpa")]


def blocks_of(length):
    """The documents as blocks, and the pieces of documents that each block holds."""
    blocks = pack(concatenate(DOCUMENTS), length, "apart")
    tokens = [(number, token) for number, ids in enumerate(DOCUMENTS) for token in ids]
    pieces = []
    for begin in range(0, len(tokens), length):
        block = tokens[begin : begin + length]
        numbers = list(dict.fromkeys(number for number, _ in block))
        pieces.append([[token for own, token in block if own == number] for number in numbers])
    return [blocks[index] for index in range(len(blocks))], pieces


@pytest.mark.parametrize(("make", "attention"), MADE)
def test_logits_of_a_packed_document_are_those_that_it_has_alone(make, attention):
    model = built(make, attention)
    check_document_separation(model)
    blocks, pieces = blocks_of(7)
    batch = collate(blocks)
    del batch["labels"]
    with torch.no_grad():
        packed = model(**batch, use_cache=False).logits
        for row, documents in enumerate(pieces):
            begin = 0
            for document in documents:
                alone = model(input_ids=torch.tensor([document])).logits[0]
                end = begin + len(document)
                assert torch.allclose(packed[row, begin:end], alone, atol=1e-4)
                begin = end


def summed(objective, model, sequences):
    """Losses and counts of an objective, each summed over the sequences."""
    batch = collate(sequences)
    count = objective.count_targets(batch)
    with torch.no_grad():
        return objective.losses(model, batch), count


@pytest.mark.parametrize("objective", ["clm", "mtp"])
def test_the_loss_of_packed_documents_is_the_sum_of_their_own(objective):
    model = built(llama, "sdpa")
    head = new_extra_head(model, "random", 0)
    model.add_module(EXTRA_HEAD, head)
    loss = (
        CausalModeling()
        if objective == "clm"
        else MultiTokenPrediction(head, as_head=True, trained=True)
    )
    blocks, pieces = blocks_of(7)
    packed, count = summed(loss, model, blocks)
    alone = [
        summed(loss, model, [pack(concatenate([document]), 99)[0]])
        for documents in pieces
        for document in documents
        if len(document) > 1
    ]
    assert torch.allclose(packed, torch.stack([one for one, _ in alone]).sum(0), rtol=1e-4)
    assert count.tolist() == torch.stack([own for _, own in alone]).sum(0).tolist()


def test_a_model_that_mixes_documents_is_refused():
    alibi = BloomForCausalLM(BloomConfig(vocab_size=40, hidden_size=16, n_layer=1, n_head=2))
    with pytest.raises(UserError, match="packing: BloomForCausalLM does not keep the documents"):
        check_document_separation(alibi)


@pytest.mark.bad_input(
    "model",
    "a sequence longer than the model's context",
    "a one-line error message gives both lengths",
)
def test_a_sequence_longer_than_the_model_is_refused(tiny_llama):
    def plan(length):
        blocks = pack(concatenate([[3] * 1000]), length)
        return [
            SequenceDataset(blocks, np.arange(1)),
            SequenceDataset(blocks, np.arange(len(blocks))),
        ]

    check_length(tiny_llama(50), plan(512))
    with pytest.raises(UserError, match=r"phase 0 reads .* of 600 tokens, .* 512 positions"):
        check_length(tiny_llama(50), plan(600))
