"""Input embeddings of another pretrained language model (PLM), as vectors of the target's tokens.

SALT maps those of a target-language model, CLP and OMP compare tokens in those of a donor model.
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
    """Read the input embeddings of a model; its other weights are not loaded.

    Parameters
    ----------
    tokenizer
        The target tokenizer: that of the model, or one that appends tokens to it.
    folder
        A model of any architecture in Hugging Face layout, with `config.json`, `tokenizer.json` and
        safetensors.

    Returns
    -------
    TokenVectors
        One row for each token of the model, special tokens too; padding rows are left out.

    Raises
    ------
    UserError
        The folder holds no such model, or the tokenizer does not belong to it.

    Examples
    --------
    >>> read_plm(tokenizer, "bert-base-german-cased").vectors.shape  # doctest: +SKIP
    (30000, 768)
    """
    vocabulary = tokenizer.get_vocab()
    own = load_tokenizer(folder).get_vocab()
    foreign = next((token for token, i in own.items() if vocabulary.get(token) != i), None)
    if foreign is not None:
        raise UserError(
            f"plm {folder}: its token {foreign!r} is not in the vocabulary under its id; the "
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
