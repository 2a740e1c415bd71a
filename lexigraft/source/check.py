"""What a source model must be before anything is computed with it: one clear error each."""

from pathlib import Path

from lexigraft.errors import UserError
from lexigraft.source.kind import CAUSAL, MASKED, kind_of
from lexigraft.source.model import (
    has_output_matrix,
    load_config,
    load_tokenizer,
    matrix_names,
    matrix_rows,
)


def check_source(folder: str | Path, kind: str = CAUSAL) -> None:
    """Check that a folder holds a language model and the tokenizer that belongs to it.

    Reads configuration, tokenizer and file headers; no weights.

    Parameters
    ----------
    kind
        What the model must be: `causal`, or `masked` for an encoder such as RoBERTa.

    Raises
    ------
    UserError
        No `config.json`; a model that is no language model of this kind, is quantized, or needs
        remote code; weights that are missing, pickled, truncated or damaged; no
        `tokenizer.json`; more tokens than the input matrix has rows.
    """
    folder = Path(folder)
    config = load_config(folder)
    _check_kind(folder, config, kind)
    rows = matrix_rows(folder)
    if not has_output_matrix(folder):
        raise UserError(
            f"source {folder}: config.json says that the output matrix is not tied, but the files "
            f"hold no {matrix_names(folder)['output']}; transformers would invent one at random"
        )
    tokenizer = load_tokenizer(folder)
    highest = max(tokenizer.get_vocab().values(), default=-1)
    if highest >= rows:
        raise UserError(
            f"source {folder}: the tokenizer has tokens up to id {highest} and the model only "
            f"{rows} rows, so the tokenizer does not belong to this model"
        )


def _check_kind(folder: Path, config, kind: str) -> None:
    found = kind_of(config)
    if found != kind:
        named = config.architectures[0] if config.architectures else "no architecture"
        examples = {
            CAUSAL: "LlamaForCausalLM, GPT2LMHeadModel …",
            MASKED: "RobertaForMaskedLM, BertForMaskedLM …",
        }
        way = (
            f"say `kind: {found}` in its entry of sources.yaml"
            if found
            else "no other kind of model can be grafted"
        )
        raise UserError(
            f"source {folder}: config.json names {named}, which is not a {kind} language model "
            f"({examples[kind]}); {way}"
        )
    if getattr(config, "quantization_config", None):
        raise UserError(
            f"source {folder}: its weights are quantized (quantization_config in config.json); "
            "use the original model, whose rows are plain numbers"
        )
