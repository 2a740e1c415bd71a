"""Tokenizers, batches and a small random model of each of several architectures."""

import pytest


@pytest.fixture(autouse=True)
def full_precision(monkeypatch):
    """float32 on every machine; a test says so where it wants bfloat16."""
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "float32")


def train_byte_bpe(sentences, size, begins_with=None):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(sentences, trainer)
    if begins_with:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{begins_with} $A", special_tokens=[(begins_with, 1)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


@pytest.fixture(scope="session")
def with_bos(english):
    """Begins every text with BOS, as Llama's tokenizer does; 300 tokens learned from English."""
    return train_byte_bpe(english, 300, begins_with="<s>")


@pytest.fixture(scope="session")
def without_bos(english):
    """Adds no special token, as SmolLM2's tokenizer; its padding token is its EOS token."""
    return train_byte_bpe(english, 300)


@pytest.fixture(scope="session")
def bare(special_tokenizer):
    """Byte-level, without any special token."""
    return special_tokenizer()


SMALL = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "initializer_range": 0.5,
}
# Each with what it does to its logits; weights are large enough for a soft cap to bend them.
FAMILIES = {
    "llama": ({"tie_word_embeddings": False}, lambda logits: logits),
    "gemma2": ({"final_logit_softcapping": 3.0}, lambda logits: logits.div(3).tanh().mul(3)),
    "gemma3_text": ({}, lambda logits: logits),  # it scales what it looks up
    "cohere": ({"logit_scale": 0.25}, lambda logits: 0.25 * logits),
    "granite": ({"logits_scaling": 4.0}, lambda logits: logits / 4),
    "gpt2": ({}, lambda logits: logits),
    "gpt_neox": ({}, lambda logits: logits),
    "gptj": ({"rotary_dim": 8}, lambda logits: logits),  # its head has a bias
    "opt": ({"word_embed_proj_dim": 16, "ffn_dim": 48}, lambda logits: logits),
}


def family_model(name):
    """A random model of an architecture, in evaluation mode."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(name, **{**SMALL, **FAMILIES[name][0]})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    head = model.get_output_embeddings()
    if head.bias is not None:
        torch.nn.init.normal_(head.bias)
    return model


@pytest.fixture(params=FAMILIES)
def family(request):
    """A random model of each of several architectures, and what it does to its logits."""
    return family_model(request.param), FAMILIES[request.param][1]


@pytest.fixture(scope="session")
def padded():
    """`padded(rows=2, tokens=7)`: a batch of random tokens whose last row is padded by two."""

    def build(rows=2, tokens=7):
        import torch

        ids = torch.randint(1, 50, (rows, tokens), generator=torch.Generator().manual_seed(1))
        mask = torch.ones_like(ids)
        mask[-1, -2:] = 0
        return {"input_ids": ids, "attention_mask": mask}

    return build
