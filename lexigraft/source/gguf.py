"""GGUF files, the format of llama.cpp, read by transformers and saved as Hugging Face folders."""

import logging
import struct
from pathlib import Path

from lexigraft.errors import UserError

logger = logging.getLogger(__name__)


def gguf_to_folder(gguf_file: str | Path, out_folder: str | Path) -> None:
    """Write the model and the tokenizer of a GGUF file in Hugging Face layout.

    Quantized weights are dequantized to float32, the values that llama.cpp computes with.
    `out_folder` receives `config.json`, `generation_config.json`, `model.safetensors` and the
    tokenizer's files, and loads without the gguf library.

    Raises
    ------
    UserError
        The file is missing, is not GGUF, or has an architecture that transformers cannot read from
        GGUF (it can read Llama, Qwen2, Mistral …).
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    gguf_file, out_folder = Path(gguf_file), Path(out_folder)
    if not gguf_file.is_file():
        raise UserError(f"source {gguf_file}: there is no such file")
    with gguf_file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
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
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name, trust_remote_code=False)
    except (ValueError, KeyError, NotImplementedError, OSError, struct.error) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"source {gguf_file}: transformers cannot read this GGUF file ({reason})"
        ) from error
    for key in ("eos_token_id", "pad_token_id"):
        if getattr(model.config, key) is None:
            setattr(model.config, key, getattr(tokenizer, key))
    model.save_pretrained(out_folder)
    tokenizer.save_pretrained(out_folder)
    for file in out_folder.glob("*.safetensors"):
        # safetensors creates files readable by their owner alone; results follow the umask.
        file.chmod((out_folder / "config.json").stat().st_mode)
    logger.info("dequantized %s to float32 in %s", gguf_file.name, out_folder)
