"""GGUF, the format of llama.cpp: transformers reads it, and it is stored as a plain folder."""

import logging
import struct
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from lexigraft.errors import UserError, first_line
from lexigraft.source.saving import save_model

logger = logging.getLogger(__name__)


def gguf_to_folder(gguf_file: str | Path, out_folder: str | Path) -> None:
    """Write the model and the tokenizer of a GGUF file in Hugging Face layout.

    Quantized weights are dequantized to float32, the values that llama.cpp computes with.
    `out_folder` receives `config.json`, `generation_config.json`, `model.safetensors` and the
    tokenizer's files, and loads without the gguf library. Raises `UserError` if the file is
    missing, is not GGUF, or has an architecture that transformers cannot read from GGUF (it can
    read Llama, Qwen2, Mistral …).
    """
    gguf_file = Path(gguf_file)
    if not gguf_file.is_file():
        raise UserError(f"source {gguf_file}: there is no such file")
    with gguf_file.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UserError(f"source {gguf_file}: not a GGUF file")
    folder, name = gguf_file.parent, gguf_file.name
    try:
        # Without `dequantize`, the weights may stay packed, and the model cannot be saved.
        model = AutoModelForCausalLM.from_pretrained(
            folder,
            gguf_file=name,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            trust_remote_code=False,
        )
        tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, gguf_file=name, trust_remote_code=False
        )
    except (ValueError, KeyError, NotImplementedError, OSError, struct.error) as error:
        raise UserError(
            f"source {gguf_file}: transformers cannot read this GGUF file ({first_line(error)})"
        ) from error
    for key in ("eos_token_id", "pad_token_id"):
        if getattr(model.config, key) is None:
            setattr(model.config, key, getattr(tokenizer, key))
    save_model(model, tokenizer, out_folder)
    logger.info("dequantized %s to float32 in %s", name, out_folder)
