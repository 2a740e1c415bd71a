import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
)

from lexigraft.inference.generation import continue_greedily, generate
from lexigraft.inference.shared_prefix import group_by_prefix, shared_prefix

SHOTS = "one = ένα\ntwo = δύο\nthree = τρία\n"
PROMPTS = {
    str(at): f"{SHOTS}{ask} =" for at, ask in enumerate(("four", "nine hundred", "x", "six"))
}
SIZES = {"vocab_size": 257, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
WIDE = {**SIZES, "intermediate_size": 48, "max_position_embeddings": 256}
GROUPED = {**WIDE, "num_key_value_heads": 1}
FAMILIES = {
    "llama": LlamaConfig(**GROUPED),
    "mistral": MistralConfig(**GROUPED, sliding_window=128),
    "gemma2": Gemma2Config(**GROUPED, head_dim=16, sliding_window=128, query_pre_attn_scalar=16),
    "gpt2": GPT2Config(vocab_size=257, n_embd=32, n_layer=2, n_head=2, n_positions=256),
}


def random_model(config):
    """A model whose greedy text is garbage, but varied: attention matters, also to far tokens."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(6)
    model.generation_config.eos_token_id = None
    return model


def without_a_cache(model, ids: list[int], steps: int) -> list[int]:
    """One forward pass over the whole text per token."""
    ids = list(ids)
    for _ in range(steps):
        with torch.no_grad():
            logits = model(torch.tensor([ids]), use_cache=False).logits
        ids.append(int(logits[0, -1].argmax()))
    return ids[-steps:]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_shared_prefix_does_not_change_texts(family, byte_tokenizer):
    model = random_model(FAMILIES[family])
    encoded = byte_tokenizer()(list(PROMPTS.values()))["input_ids"]
    prefix = shared_prefix(model, encoded, 8)
    assert len(prefix.token_ids) == len(SHOTS.encode())
    given = {"padding": 0, "stop_tokens": [], "max_new_tokens": 8}
    rows = continue_greedily(model, encoded, **given, prefix=prefix).tolist()
    assert rows == [without_a_cache(model, ids, 8) for ids in encoded]
    # The cache of the prefix was not written on: the next batch finds it as it was.
    assert continue_greedily(model, encoded[:1], **given, prefix=prefix).tolist() == rows[:1]


def test_a_shared_prefix_does_not_change_texts_of_beam_search(byte_tokenizer):
    model = random_model(FAMILIES["llama"])
    encoded = byte_tokenizer()(list(PROMPTS.values()))["input_ids"]
    given = {"padding": 0, "stop_tokens": [10], "max_new_tokens": 8, "beams": 3}
    prefix = shared_prefix(model, encoded, 8)
    rows = continue_greedily(model, encoded, **given, prefix=prefix).tolist()
    assert rows == continue_greedily(model, encoded, **given).tolist()
    greedy = {"padding": 0, "stop_tokens": [10], "max_new_tokens": 8}
    assert rows != continue_greedily(model, encoded, **greedy).tolist()


def test_short_attention_windows_allow_no_shared_prefix(byte_tokenizer):
    encoded = byte_tokenizer()(list(PROMPTS.values()))["input_ids"]
    longest = max(map(len, encoded))
    model = random_model(MistralConfig(**GROUPED, sliding_window=longest + 9))
    assert shared_prefix(model, encoded, 8) is not None
    assert shared_prefix(model, encoded, 9) is None


def test_every_prompt_keeps_a_token_after_the_shared_prefix(varied_llama):
    whole = list(range(5, 55))
    assert shared_prefix(varied_llama, [whole, [*whole, 7]], 1).token_ids == whole[:-1]


@pytest.mark.parametrize(
    "prompts", [[], [list(range(50))], [[1, 2, 3], [1, 2, 4]], [[], list(range(50))]]
)
def test_short_prefixes_are_not_shared(varied_llama, prompts):
    assert shared_prefix(varied_llama, prompts, 1) is None


def test_the_prefix_is_processed_once(varied_llama, byte_tokenizer, monkeypatch, tmp_path):
    read, inner = [], varied_llama.base_model.forward

    def watched(input_ids, **options):
        read.append(input_ids.shape)
        return inner(input_ids=input_ids, **options)

    monkeypatch.setattr(varied_llama.base_model, "forward", watched)
    generate(
        varied_llama,
        byte_tokenizer(),
        PROMPTS,
        max_new_tokens=3,
        batch_size=2,
    )
    prefix = 1 + len(SHOTS.encode())  # with the start token
    assert read[0] == (1, prefix)
    assert all(length < prefix for _, length in read[1:])
    assert (2, len("nine hundred =")) in read


def test_prompts_in_two_languages_have_a_prefix_each():
    greek, telugu = list(range(100)), list(range(50, 150))
    prompts = {f"{name}{at}": [*ids, at] for at in range(3) for name, ids in
               (("el", greek), ("te", telugu))}  # fmt: skip
    assert group_by_prefix(prompts, 3) == [["el0", "el1", "el2"], ["te0", "te1", "te2"]]
