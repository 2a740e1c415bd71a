"""Small models with random weights of the architectures that transformers maps to a head."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

import lexigraft
from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer

TEXT = "the river and the rice"
ENGLISH = [TEXT, "the river and the rain", "a house on the green hill"] * 20
SWAHILI = ["mto na mvua", "mto na maji", "maji na mvua ya mto"] * 20
PADDING = 3

# Sizes by the names that configurations give them.
_SIZES = {
    32: "hidden_size d_model n_embd dim embedding_size emb_dim hidden_dim word_embed_proj_dim "
    "intermediate_size ffn_dim d_ff ffn_hidden_size encoder_ffn_dim decoder_ffn_dim "
    "shared_intermediate_size true_hidden_size intra_bottleneck_size",
    16: "moe_intermediate_size sliding_window attention_window embedding_rank bottleneck_size",
    8: "head_dim d_kv attention_head_dim kv_channels v_head_dim qk_nope_head_dim qk_rope_head_dim "
    "q_lora_rank kv_lora_rank o_lora_rank linear_key_head_dim linear_value_head_dim "
    "index_head_dim mamba_n_heads mamba_d_head mamba_num_heads mamba_head_dim "
    "hidden_size_per_layer_input",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads index_topk "
    "decoder_attention_heads num_key_value_heads num_kv_heads num_experts num_local_experts "
    "n_routed_experts moe_num_experts mamba_d_state state_size laurel_rank rotary_dim",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
    "num_decoder_layers num_experts_per_tok moe_k moe_topk conv_kernel o_groups "
    "linear_num_key_heads linear_num_value_heads index_n_heads",
    1: "n_group topk_group n_groups mamba_n_groups",
    64: "max_position_embeddings n_positions n_ctx max_seq_len max_target_positions mamba_d_ssm",
    0: "num_kv_shared_layers",
}
_SIZE_OF = {name: size for size, names in _SIZES.items() for name in names.split()}
_OTHER: dict[str, dict[str, Any]] = {
    "gemma3n_text": {"intermediate_size": [32, 32], "activation_sparsity_pattern": [0.0, 0.0]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "mamba2": {"num_heads": 8},
    "nemotron": {"head_dim": 8},
    "mobilebert": {"embedding_size": 16},
    "neomme": {"head_dim": 16},
}


def tiny_model(auto: Any, model_type: str, rows: int, per_layer_rows: int | None = None) -> Any:
    """A model of a type, without dropout, whose parameters and tables of integers are random."""
    from transformers import CONFIG_MAPPING

    kind = CONFIG_MAPPING[model_type]
    values = vars(kind())
    changed: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, int) and not isinstance(value, bool):
            if key in _SIZE_OF:
                changed[key] = _SIZE_OF[key]
            elif key in ("vocab_size", "decoder_vocab_size"):
                changed[key] = rows
            elif key == "vocab_size_per_layer_input":
                changed[key] = per_layer_rows or rows
            elif key.endswith("_token_id"):
                changed[key] = min(value, 3)
        elif key in ("layer_types", "mlp_layer_types", "layers_block_type") and value:
            changed[key] = (list(dict.fromkeys(value)) * 2)[:2]
    config = kind(**changed | _OTHER.get(model_type, {}))
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in auto.from_config(config).parameters())
    if size > 4_000_000:
        raise ValueError(f"{size} parameters")
    torch.manual_seed(0)
    model = auto.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter) * 0.02)
        for buffer in model.buffers():
            if rows in buffer.shape and not buffer.is_floating_point():  # experts of each token
                buffer.copy_(torch.arange(buffer.numel()).reshape(buffer.shape) // 7 % 4)
    return model


def logits(model: Any, ids: list[int]) -> torch.Tensor:
    """Logits [tokens, rows] of one text."""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].float()


@cache
def tokenizers() -> tuple[Any, dict[str, Any]]:
    """A source tokenizer, and targets that expand it or keep some of its tokens."""
    source = lexigraft.train_tokenizer(ENGLISH, "byte-level-bpe", size=281)
    return source, {
        "expand": lexigraft.expand_tokenizer(source, SWAHILI, new_tokens=8),
        "prune": lexigraft.prune_tokenizer(source, [TEXT]),
    }


def check_that_tokens_keep_their_rows(
    auto: Any, model_type: str, change: str, folder: Path, method: str = "mean"
) -> None:
    """Graft a model, reload it in plain transformers, and compare all that belongs to a token."""
    source_tokenizer, targets = tokenizers()
    target = targets[change]
    rows = len(source_tokenizer) + PADDING
    source = tiny_model(auto, model_type, rows)
    state = {name: tensor.clone() for name, tensor in source.state_dict().items()}
    before = logits(source, source_tokenizer(TEXT).input_ids)
    fitted = initializer(method).fit(source_tokenizer, target, n_source=rows)
    grafted = graft(source, target, fitted)
    grafted.save_pretrained(folder)
    reloaded, report = auto.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    kept = [i for i in range(fitted.n_target) if fitted.source_of[i] >= 0]
    copied = fitted.source_of[kept].tolist()
    after = logits(reloaded.eval(), target(TEXT).input_ids)
    assert after.shape[-1] == fitted.n_target
    torch.testing.assert_close(after[:, kept], before[:, copied], atol=1e-5, rtol=1e-4)
    new_state = reloaded.state_dict()
    tables = [name for name, tensor in state.items() if rows in tensor.shape]
    assert tables
    for name in tables:
        dimension = state[name].shape.index(rows)
        assert new_state[name].shape[dimension] == fitted.n_target, name
        old, new = (
            tensor.index_select(dimension, torch.tensor(ids))
            for tensor, ids in ((state[name], copied), (new_state[name], kept))
        )
        assert torch.equal(old, new), name
