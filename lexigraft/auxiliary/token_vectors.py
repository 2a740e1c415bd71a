"""Vectors of the tokens of one vocabulary: in memory, on disk, and the embeddings of a model."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import atomic_file
from lexigraft.errors import UserError
from lexigraft.source.matrices import read_input_matrix
from lexigraft.source.tokenizer import load_tokenizer, tokens_without_row

_FILE = "vectors.safetensors"


@dataclass(frozen=True)
class TokenVectors:
    """Static vectors of tokens of one tokenizer.

    A ValueError is raised for arrays of the wrong type or shape, or that do not match.

    Examples
    --------
    >>> vectors = np.zeros((2, 300), dtype=np.float32)
    >>> TokenVectors(np.array([4, 7]), vectors).tokens.tolist()
    [4, 7]
    """

    tokens: np.ndarray  # int64 [n]: ids of the tokens that have a vector, ascending
    vectors: np.ndarray  # float32 [n, dimensions], finite: one row for each of them

    def __post_init__(self) -> None:
        tokens, vectors = self.tokens, self.vectors
        if tokens.dtype != np.int64 or vectors.dtype != np.float32:
            raise ValueError("ids are not int64 or vectors are not float32")
        if tokens.ndim != 1 or vectors.ndim != 2 or len(tokens) != len(vectors):
            raise ValueError(f"ids {tokens.shape} do not match vectors {vectors.shape}")
        if (tokens < 0).any() or (np.diff(tokens) <= 0).any():
            raise ValueError("ids are not ascending")
        if not np.isfinite(vectors).all():
            raise ValueError("vectors are not finite")


def save_vectors(vectors: TokenVectors, folder: str | Path) -> str:
    """Write token vectors, deterministically; returns the name of the file."""
    with atomic_file(Path(folder) / _FILE) as temporary:
        save_file({"tokens": vectors.tokens, "vectors": vectors.vectors}, temporary)
    return _FILE


def load_vectors(folder: str | Path) -> TokenVectors:
    """Read vectors that `save_vectors` wrote; raises a UserError if missing or damaged."""
    file = Path(folder) / _FILE
    if not file.is_file():
        raise UserError(f"auxiliary {folder}: contains no {_FILE}")
    try:
        tensors = load_file(file)
        return TokenVectors(tensors["tokens"], tensors["vectors"])
    except (SafetensorError, KeyError, ValueError) as error:
        raise UserError(
            f"auxiliary {file}: truncated or damaged ({error}); delete {folder} and run again"
        ) from None


def read_plm(tokenizer: PreTrainedTokenizerFast, folder: str | Path) -> TokenVectors:
    """Read the input embeddings of a model in Hugging Face layout, with a row for each of its
    tokens.

    The target tokenizer is that of the model, or one that appends tokens to it. Padding rows are
    left out. A UserError is raised if the folder holds no model, or the tokenizer does not belong
    to it.

    Examples
    --------
    >>> import lexigraft
    >>> from lexigraft.auxiliary import read_plm
    >>> from transformers import BertConfig, BertModel
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> tokenizer = lexigraft.train_tokenizer(swahili, "byte-level-bpe", size=264)
    >>> _ = tokenizer.save_pretrained("swahili-bert")
    >>> config = BertConfig(vocab_size=264, hidden_size=8, intermediate_size=8,
    ...                     num_hidden_layers=1, num_attention_heads=1)
    >>> BertModel(config).save_pretrained("swahili-bert")
    >>> read_plm(tokenizer, "swahili-bert").vectors.shape
    (264, 8)
    """
    vocabulary = tokenizer.get_vocab()
    plm_tokenizer = load_tokenizer(folder)
    plm_vocabulary = plm_tokenizer.get_vocab()
    foreign_token = next(
        (token for token, i in plm_vocabulary.items() if vocabulary.get(token) != i), None
    )
    if foreign_token is not None:
        raise UserError(
            f"plm {folder}: its token {foreign_token!r} does not have the same id; the vocabulary "
            "must be this model's own: {mode: replace, plm: …}"
        )
    rows = read_input_matrix(folder)
    tokens_without_row(plm_tokenizer, len(rows), f"plm {folder}")
    tokens = np.array(sorted(plm_vocabulary.values()), dtype=np.int64)
    tokens = tokens[tokens < len(rows)]
    if not np.isfinite(rows[tokens]).all():
        raise UserError(f"plm {folder}: its embeddings are not finite; fetch the model again")
    return TokenVectors(tokens, rows[tokens])
