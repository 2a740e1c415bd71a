"""llama2.c checkpoints: a real one, and random ones against the published forward pass."""

import json
import struct

import numpy as np
import pytest
import torch

from lexigraft.bundled.llama2c import Header, llama2c_to_folder
from lexigraft.errors import UserError
from lexigraft.source.model import load_model
from lexigraft.source.preparation import check_source, describe_model, prepare_source
from lexigraft.source.tokenizer import load_tokenizer
from tests.conftest import package_folder
from workflow.config.registries import entries_of

SPECIAL = ["<unk>", "\n<s>\n", "\n</s>\n"]
LETTERS = [" ", "t", "h", "e", "th", "the", " the"]


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """stories15M, prepared as the workflow does it."""
    folder = tmp_path_factory.mktemp("results") / "stories15m"
    package = package_folder("stories15m")
    settings = {
        "package": "stories15m",
        "file": "package/dist/llama2.data",
        "format": "llama2c",
    }
    prepare_source(settings, folder, package)
    return folder


@pytest.fixture(scope="module")
def llama2_tokenizer():
    """Llama 2's tokenizer, from a package that has nothing to do with llama2.c."""
    from transformers import PreTrainedTokenizerFast

    file = package_folder("wordllama") / "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
    return PreTrainedTokenizerFast(tokenizer_file=str(file))


def test_the_source_is_what_it_is_known_to_be(stories):
    assert describe_model(check_source(stories)) == {
        "architecture": "LlamaForCausalLM",
        "parameters": 15_191_712,
        "layers": 6,
        "hidden_size": 288,
        "rows": 32_000,
        "vocabulary_size": 32_000,
        "tied": True,
        "tokenizer_family": "byte-fallback BPE",
    }
    positions = entries_of("sources")["stories15m"].resources.positions
    assert json.loads((stories / "config.json").read_text())["max_position_embeddings"] == positions


def test_its_tokenizer_is_that_of_llama_2(
    stories, llama2_tokenizer, telugu, greek, burmese, english
):
    lines = [*english, *telugu, *greek, *burmese, "  two  spaces", "tab\t😀 ½", "", "1234"]
    tokenizer = load_tokenizer(stories)
    assert tokenizer(lines)["input_ids"] == llama2_tokenizer(lines)["input_ids"]
    assert tokenizer.get_vocab() == llama2_tokenizer.get_vocab()


def tokenizer_bin(pieces):
    data = struct.pack("<i", max(len(piece.encode()) for piece in pieces))
    for number, piece in enumerate(pieces):
        # Like the real file: the later a merge, the lower its score.
        data += struct.pack("<fi", -float(max(0, number - 258)), len(piece.encode()))
        data += piece.encode()
    return data


PIECES = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *LETTERS]


def checkpoint(header, seed=0):
    """A random checkpoint and its arrays by name."""
    generator = np.random.default_rng(seed)
    arrays = {
        name: generator.normal(0, 0.3, shape).astype("<f4")
        for name, shape in header.shapes().items()
    }
    data = struct.pack("<7i", *vars(header).values())
    return data + b"".join(array.tobytes() for array in arrays.values()), arrays


def llama2c_logits(header, w, ids):
    """The forward pass of llama2.c, position by position, in float64: neighbours are rotated."""
    size, groups = header.head_size, header.heads // header.key_value_heads
    length = len(ids)
    angle = np.arange(length)[:, None] / 10_000 ** (np.arange(0, size, 2) / size)[None]
    turn = np.cos(angle) + 1j * np.sin(angle)  # [length, size / 2]

    def norm(x, weight):
        return weight * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)

    def rotate(x):  # [length, heads, size]
        return np.ascontiguousarray(
            (np.ascontiguousarray(x).view(complex) * turn[:, None]).view(float)
        )

    x = w["embedding"][ids].astype(float)
    for layer in range(header.layers):
        h = norm(x, w["attention_norm"][layer])
        q = rotate((h @ w["wq"][layer].T).reshape(length, header.heads, size))
        k = rotate((h @ w["wk"][layer].T).reshape(length, header.key_value_heads, size))
        v = (h @ w["wv"][layer].T).reshape(length, header.key_value_heads, size)
        mixed = np.zeros_like(q)
        for head in range(header.heads):
            scores = q[:, head] @ k[:, head // groups].T / np.sqrt(size)
            scores[np.triu_indices(length, 1)] = -np.inf
            share = np.exp(scores - scores.max(-1, keepdims=True))
            share /= share.sum(-1, keepdims=True)
            mixed[:, head] = share @ v[:, head // groups]
        x = x + mixed.reshape(length, -1) @ w["wo"][layer].T
        h = norm(x, w["ffn_norm"][layer])
        gate = h @ w["w1"][layer].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["w3"][layer].T)) @ w["w2"][layer].T
    return norm(x, w["norm"]) @ w.get("output", w["embedding"]).T


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("key_value_heads", [4, 2])
def test_the_converted_model_computes_what_llama2c_computes(tied, key_value_heads, tmp_path):
    rows = len(PIECES) if tied else -len(PIECES)
    header = Header(32, 48, 2, 4, key_value_heads, rows, 16)
    data, arrays = checkpoint(header)
    (tmp_path / "toy.data").write_bytes(data + tokenizer_bin(PIECES))
    llama2c_to_folder(tmp_path / "toy.data", tmp_path / "out")
    model = load_model(tmp_path / "out", torch.float32)
    ids = [1, 260, 263, 5, 200, 264, 7]
    with torch.inference_mode():
        computed = model(torch.tensor([ids])).logits[0].numpy()
    np.testing.assert_allclose(computed, llama2c_logits(header, arrays, ids), atol=2e-4)
    assert model.config.tie_word_embeddings == tied


def test_a_file_that_is_no_whole_bundle_is_reported(tmp_path):
    header = Header(8, 8, 1, 1, 1, len(PIECES), 8)
    data, _ = checkpoint(header)
    whole = data + tokenizer_bin(PIECES)
    for content, message in (
        (b"", "shorter than its header"),
        (b"GGUF" + bytes(100), "the sizes in its header are invalid"),
        (data[:-8], "truncated"),
        (data, "not followed by a tokenizer.bin of 266 pieces"),
        (whole[:-3], "not followed by a tokenizer.bin of 266 pieces"),
    ):
        (tmp_path / "toy.data").write_bytes(content)
        with pytest.raises(UserError, match=message):
            llama2c_to_folder(tmp_path / "toy.data", tmp_path / "out")
    with pytest.raises(UserError, match="cannot be read"):
        llama2c_to_folder(tmp_path / "nowhere", tmp_path / "out")
