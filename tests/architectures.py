"""Small models with random weights of the architectures that transformers maps to a head."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import PretrainedConfig

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
_ATTENTION = "full_attention", "sliding_attention"
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_MROPE = {"rope_parameters": _ROPE | {"mrope_section": [2, 1, 1]}}
_LINEAR = {"linear_head_dim": 8, "linear_num_heads": 4, "num_experts_per_token": 2}
_OTHER: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "bailing_hybrid": _LINEAR | {"num_expert_group": 1},
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROPE}},
    "deepseek_v2": {"num_experts_per_tok": 2, "qk_head_dim": 16},
    "dots1": {"n_shared_experts": 1, "n_routed_experts": 4, "num_experts_per_tok": 2},
    "dots3_note_text": {"shared_experts_intermediate_size": 16, "max_position_embeddings": 64},
    "dbrx": {
        "attn_config": {"rope_theta": 1e4, "kv_n_heads": 2, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 32},
    },
    "esm": {"pad_token_id": 1, "mask_token_id": 3},
    "funnel": {"block_sizes": [1, 1], "num_decoder_layers": 1, "d_inner": 32},
    "gemma3n_text": {"intermediate_size": [32, 32], "activation_sparsity_pattern": [0.0, 0.0]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": _LINEAR | {"num_expert_group": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "longcat_flash": {"expert_ffn_hidden_size": 16, "zero_expert_num": 2, "moe_topk": 2},
    "luke": {"entity_vocab_size": 8, "entity_emb_size": 16},
    "mamba2": {"num_heads": 8},
    "mimo_v2_flash": {"head_dim": 16, "rope_parameters": dict.fromkeys(_ATTENTION, _ROPE)},
    "ministral": {"head_dim": 8},
    "mobilebert": {"embedding_size": 16},
    "nemotron": {"head_dim": 8, "num_key_value_heads": 4},
    "nemotron_h": {"layers_block_type": ["linear_attention", "full_attention"]},
    "neomme": {"head_dim": 16},
    "perceiver": {"d_latents": 32, "num_latents": 8, "num_self_attends_per_block": 1},
    "qwen4_exp_text": {
        "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 4,
        "indexer_compress_ratio": 1, "hc_lowrank": 8, "ple_embed_dim": 8,
        "shared_expert_intermediate_size": 16, "ngram_vocab_size_base": 64, "split_ngram_parts": 1,
    },
    "qwen2_vl_text": _MROPE,
    "qwen2_5_vl_text": _MROPE,
    "qwen2_5_omni_text": _MROPE,
    "qwen2_vl": {"vision_config": {"embed_dim": 32, "hidden_size": 32, "num_heads": 4, "depth": 1}},
    "qwen2_5_omni_thinker": {"vision_start_token_id": 3},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 3},
    "glm_ocr_text": _MROPE,
    "paddleocr_vl_text": _MROPE,
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "reformer": {
        "attn_layers": ["local", "local"], "axial_pos_shape": [8, 8],
        "axial_pos_embds_dim": [16, 16],
        "attention_head_size": 8, "is_decoder": True, "feed_forward_size": 32,
    },
    "roc_bert": {
        "pronunciation_vocab_size": 8, "pronunciation_embed_dim": 8,
        "shape_vocab_size": 8, "shape_embed_dim": 8,
    },
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "attention_hidden_size": 64, "attention_head_dim": 16, "mamba_dt_rank": 4,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
        "num_hidden_layers": 4,
    },
    "zaya": {"router_hidden_size": 8, "num_experts_per_tok": 1, "num_key_value_heads": 2},
}  # fmt: skip


def tiny_model(auto: Any, model_type: str, rows: int, per_layer_rows: int | None = None) -> Any:
    """A model of a type, without dropout, whose parameters and tables of integers are random."""
    from transformers import CONFIG_MAPPING

    config = _small(CONFIG_MAPPING[model_type](), rows, per_layer_rows)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in auto.from_config(config).parameters())
    if size > 40_000_000:
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


def _small(config: Any, rows: int, per_layer_rows: int | None) -> Any:
    """A configuration of the same type with small sizes, also of its parts."""
    changed: dict[str, Any] = {}
    for key, value in vars(config).items():
        if isinstance(value, PretrainedConfig):
            # Images and sounds have vocabularies of their own.
            of_text = not key.startswith(("vision", "audio"))
            changed[key] = _small(value, rows if of_text else 40, per_layer_rows)
        elif key in ("vocab_size", "decoder_vocab_size"):
            changed[key] = rows
        elif isinstance(value, int) and not isinstance(value, bool):
            if key in _SIZE_OF:
                changed[key] = _SIZE_OF[key]
            elif key == "vocab_size_per_layer_input":
                changed[key] = per_layer_rows or rows
            elif key.endswith(("_token_id", "_token_index")):
                changed[key] = min(value, 3)
        elif key in ("layer_types", "mlp_layer_types", "layers_block_type") and value:
            changed[key] = (list(dict.fromkeys(value)) * 2)[:2]
    return type(config)(**changed | _OTHER.get(config.model_type, {}))


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
    before = rows_of_tokens(source, rows, source_tokenizer(TEXT).input_ids)
    fitted = initializer(method).fit(source_tokenizer, target, n_source=rows)
    graft(source, target, fitted).save_pretrained(folder)
    reloaded, report = auto.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    after = rows_of_tokens(reloaded.eval(), fitted.n_target, target(TEXT).input_ids)
    check_kept_rows(before, after, fitted.source_of)


def rows_of_tokens(model: Any, rows: int, ids: list[int]) -> dict[str, tuple[int, torch.Tensor]]:
    """Copies of all that a model has for each token, and the dimension of the tokens.

    That is each tensor with a size of `rows`, and the logits of a text, named "".
    """
    tensors = {
        name: (tensor.shape.index(rows), tensor.clone())
        for name, tensor in model.state_dict().items()
        if rows in tensor.shape
    }
    assert tensors
    return tensors | {"": (1, logits(model, ids))}


def check_kept_rows(
    before: dict[str, tuple[int, torch.Tensor]],
    after: dict[str, tuple[int, torch.Tensor]],
    source_of: Any,
) -> None:
    """Tokens of the source keep all that belongs to them; logits may be rounded differently."""
    kept = [token for token, source in enumerate(source_of) if source >= 0]
    copied = source_of[kept].tolist()
    assert before.keys() == after.keys()
    for name, (dimension, tensor) in before.items():
        old = tensor.index_select(dimension, torch.tensor(copied))
        new = after[name][1].index_select(dimension, torch.tensor(kept))
        if name:
            assert torch.equal(old, new), name
        else:
            torch.testing.assert_close(new, old, atol=1e-5, rtol=1e-4)
