"""GGUF files, as llama.cpp uses them, turned into plain Hugging Face folders."""

import logging
import struct
from pathlib import Path

from lexigraft.errors import UserError

logger = logging.getLogger(__name__)


def gguf_to_folder(gguf_file: str | Path, out_folder: str | Path) -> None:
    """Write the model and the tokenizer of a GGUF file in Hugging Face layout.

    Quantized weights are expanded to float32, the values that llama.cpp computes with. The
    tokenizer is rebuilt from the file; the folder loads with transformers alone, without gguf.

    Parameters
    ----------
    gguf_file
        A model whose architecture transformers can read from GGUF (Llama, Qwen2, Mistral …).
    out_folder
        Gets `config.json`, `generation_config.json`, `model.safetensors` and the tokenizer's
        files.

    Raises
    ------
    UserError
        The file is missing, is not GGUF, or transformers does not know its architecture.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    gguf_file, out_folder = Path(gguf_file), Path(out_folder)
    _check_magic(gguf_file)
    where, name = gguf_file.parent, gguf_file.name
    try:
        loaded = AutoModelForCausalLM.from_pretrained(
            where, gguf_file=name, dtype=torch.float32, trust_remote_code=False
        )
        tokenizer = AutoTokenizer.from_pretrained(where, gguf_file=name, trust_remote_code=False)
    except (ValueError, KeyError, NotImplementedError, OSError, struct.error) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"source {gguf_file}: transformers cannot read this GGUF file ({reason})"
        ) from error
    # A model loaded from GGUF counts as quantized and refuses to be saved, although its weights
    # are plain float32 by then; so they move into a fresh model.
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.eos_token_id = _first(config.eos_token_id, tokenizer.eos_token_id)
    config.pad_token_id = _first(config.pad_token_id, tokenizer.pad_token_id)
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
    plain.load_state_dict(loaded.state_dict())
    plain.tie_weights()
    plain.save_pretrained(out_folder)
    tokenizer.save_pretrained(out_folder)
    for file in out_folder.glob("*.safetensors"):
        # The safetensors library makes its files private; results are shared as the umask says.
        file.chmod((out_folder / "config.json").stat().st_mode)
    logger.info("expanded %s to float32 in %s", gguf_file.name, out_folder)


def _check_magic(file: Path) -> None:
    if not file.is_file():
        raise UserError(f"source {file}: there is no such file")
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise UserError(f"source {file}: not a GGUF file")


def _first(*values: int | list[int] | None) -> int | list[int] | None:
    return next((value for value in values if value is not None), None)
