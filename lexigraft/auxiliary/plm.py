"""Input embeddings of another pretrained language model, as vectors of the target's tokens.

SALT (paper 002) projects those of a model of the target language; others transplant from a donor.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.source.model import load_tokenizer, read_input_matrix

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def read_plm(tokenizer: "PreTrainedTokenizerFast", folder: str | Path) -> TokenVectors:
    """The rows of a model's input matrix, of which only that matrix is read.

    Parameters
    ----------
    tokenizer
        The target tokenizer: that of the model, or one that adds tokens behind its last.
    folder
        A model of any kind in Hugging Face layout: BERT, GPT, T5 and their like, with
        `config.json`, `tokenizer.json` and safetensors.

    Returns
    -------
    TokenVectors
        One row for each token of the model, special tokens too; padding rows are left out.

    Raises
    ------
    UserError
        The folder holds no such model, or the tokenizer is not its own.
    """
    vocabulary = tokenizer.get_vocab()
    own = load_tokenizer(folder).get_vocab()
    strange = next((token for token, i in own.items() if vocabulary.get(token) != i), None)
    if strange is not None:
        raise UserError(
            f"plm {folder}: its token {strange!r} is not in the vocabulary under its id; the "
            "vocabulary must be this model's own: {mode: replace, plm: …} in vocabularies.yaml"
        )
    rows = read_input_matrix(folder)
    tokens = np.array(sorted(own.values()), dtype=np.int64)
    if tokens[-1] >= len(rows):
        raise UserError(
            f"plm {folder}: its tokenizer has tokens up to id {tokens[-1]} and the model "
            f"{len(rows)} rows, so they do not belong together"
        )
    if not np.isfinite(rows[tokens]).all():
        raise UserError(f"plm {folder}: its embeddings are not finite; fetch the model again")
    return TokenVectors(tokens, rows[tokens])
