"""Kinds of language models: causal (predicts the next token) and masked (restores tokens)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

CAUSAL, MASKED = "causal", "masked"


def kind_of(config: "PretrainedConfig") -> str | None:
    """`causal`, `masked`, or None for any other architecture, such as encoder-decoders."""
    return _kind((config.architectures or [""])[0], config)


def is_masked(model: "PreTrainedModel") -> bool:
    """Whether a loaded model is a masked language model."""
    return _kind(type(model).__name__, model.config) == MASKED


def auto_class(config: "PretrainedConfig") -> Any:
    """The auto class of transformers for the model with its language modelling head."""
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    return AutoModelForMaskedLM if kind_of(config) == MASKED else AutoModelForCausalLM


def _kind(architecture: str, config: "PretrainedConfig") -> str | None:
    from transformers.models.auto import modeling_auto

    if architecture in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        return CAUSAL
    masked = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.values()
    if architecture in masked and not getattr(config, "is_encoder_decoder", False):
        return MASKED
    return None
