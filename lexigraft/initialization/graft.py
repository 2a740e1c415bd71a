"""Graft an initialization onto a model: rows of the target vocabulary, and its token ids."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.initialization.interface import Initializer, RecipeInitializer, RowInitializer
from lexigraft.initialization.recipe import DenseRows, Recipe, RecipePair
from lexigraft.initialization.similarity import score_blocks, unit_rows
from lexigraft.initialization.token_ids import update_special_token_ids
from lexigraft.source.token_tables import empty_tables, resize_vocabulary, set_tables, token_tables
from lexigraft.vocabulary.token_bytes import vocabulary_size

Stored = Recipe | RecipePair | DenseRows  # what `load_initialization` returns
Initialization = Initializer | Stored


def graft(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, initializer: Initialization
) -> PreTrainedModel:
    """Replace a source model's rows with those of the target vocabulary, in place.

    Returns the same model, with matrices of `initializer.n_target` rows, and configs that name the
    special tokens of the target `tokenizer`. Copied rows are bit-identical. An untied head is
    computed from the source's head, unless the method says otherwise. `initializer` is a fitted
    initializer, or the result of `load_initialization`; if it was fitted for another number of rows
    or another tokenizer, a `UserError` is raised and the model is unchanged.

    Examples
    --------
    >>> import lexigraft
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> source = lexigraft.train_tokenizer(["the rice and the river"] * 5, "byte-level-bpe", 265)
    >>> config = LlamaConfig(vocab_size=265, hidden_size=8, intermediate_size=8,
    ...                      num_hidden_layers=1, num_attention_heads=1)
    >>> model = LlamaForCausalLM(config)
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> target = lexigraft.expand_tokenizer(source, swahili, new_tokens=8)
    >>> mean = lexigraft.initializer("mean").fit(source, target)
    >>> model = lexigraft.graft(model, target, mean)
    >>> tuple(model.get_input_embeddings().weight.shape), model.config.vocab_size
    ((273, 8), 273)
    """
    # transformers types its layers as plain modules, without their weights.
    head: Any = model.get_output_embeddings()
    old_input: Any = model.get_input_embeddings().weight
    tables = token_tables(model)
    tied = head.weight is old_input
    check_fit(old_input.shape[0], tokenizer, initializer)
    with torch.no_grad():
        if isinstance(initializer, RowInitializer):
            # The rows may depend on both matrices (ZeTT).
            matrices = {"input": old_input} if tied else {"input": old_input, "output": head.weight}
            initializer = initializer.rows(matrices)
        # Create the new matrices in CPU memory: a GPU may not have room for both new and old ones.
        new_input = initializer.apply(old_input.cpu(), "input")
        new_output = None if tied else initializer.apply(head.weight.cpu(), "output")
        which_bias = "input" if tied else "output"
        rows = initializer.recipe_ if isinstance(initializer, RecipeInitializer) else initializer
        assert not isinstance(rows, Initializer)
        new_bias = None if head.bias is None else _further_rows(head.bias, 0, rows, which_bias)
        new_tables = carry_tables(model, tables, rows)
        if not tied:
            untie(model)
        resize_vocabulary(model, initializer.n_target)
        embeddings: Any = model.get_input_embeddings()
        embeddings.weight.copy_(new_input)
        head = model.get_output_embeddings()
        if new_output is not None:
            head.weight.copy_(new_output)
        if new_bias is not None:
            head.bias.copy_(new_bias)
        set_tables(model, new_tables)
    update_special_token_ids(model, tokenizer, initializer.source_of)
    return model


def carry_tables(
    model: PreTrainedModel, tables: Mapping[str, int], initialization: Stored
) -> dict[str, torch.Tensor]:
    """The further tensors of a source model with a row for each token, for the target vocabulary.

    New rows are weighted sums as in the recipe of the embeddings or, for parts of the head, of the
    head, but never scaled or projected; for initializations without a recipe, the mean row. In a
    table of integers, such as ids of experts, a new token has the row of the source token with the
    largest weight or, without a recipe, with the most similar embedding.
    """
    head: Any = model.get_output_embeddings()
    embeddings: Any = model.get_input_embeddings()
    tied = head.weight is embeddings.weight
    if embeddings.weight.is_meta:
        return empty_tables(model, tables, initialization.n_target)
    target_tables = {}
    for name, dimension in tables.items():
        parent, _, attribute = name.rpartition(".")
        module = model.get_submodule(parent)
        table = getattr(module, attribute)
        if table.is_floating_point():
            in_head = isinstance(module, torch.nn.Linear) and not tied
            which = "output" if in_head else "input"
            target_tables[name] = _further_rows(table, dimension, initialization, which)
            continue
        if isinstance(initialization, DenseRows):
            source_rows = _nearest(initialization, embeddings.weight)
        else:
            target_ids = np.arange(initialization.n_target)
            source_rows = initialization.recipe("input").heaviest(target_ids)
        row_ids = torch.from_numpy(source_rows).to(table.device)
        target_tables[name] = table.index_select(dimension, row_ids)
    return target_tables


def _further_rows(
    tensor: torch.Tensor, dimension: int, initialization: Stored, which: str
) -> torch.Tensor:
    """A tensor [..., n_target, ...] from one [..., n_source, ...] in the same `dimension`."""
    tokens_first = tensor.detach().cpu().movedim(dimension, 0)
    rows = tokens_first.flatten(1) if tokens_first.ndim > 1 else tokens_first[:, None]
    if len(rows) < initialization.n_source:  # Gemma 3n reads row 0 for tokens without a row
        rows = torch.cat([rows, rows[:1].expand(initialization.n_source - len(rows), -1)])
    if isinstance(initialization, DenseRows):
        finite_rows = rows[rows.isfinite().all(dim=1)]  # padding rows may hold anything
        mean = finite_rows.float().mean(dim=0).expand(len(initialization.new_ids), -1).numpy()
        target_rows = replace(initialization, new={which: mean}).apply(rows, which)
    else:
        recipe = replace(initialization.recipe(which), rank=None, norm_of=None, drawn_ids=None)
        target_rows = recipe.apply(rows, which)
    return (
        target_rows.reshape(len(target_rows), *tokens_first.shape[1:])
        .movedim(0, dimension)
        .contiguous()
    )


def _nearest(initializer: DenseRows, matrix: torch.Tensor) -> np.ndarray:
    """[n_target]: the source token that each row copies or, for a new row, the most similar one."""
    # Padding rows that are not finite are near no row.
    finite = np.nan_to_num(matrix.detach().float().cpu().numpy(), posinf=0, neginf=0)
    anchors = unit_rows(finite)
    nearest = np.empty(len(initializer.new_ids), dtype=np.int64)
    for block, cosines in score_blocks(initializer.new["input"], anchors):
        nearest[block] = cosines.argmax(axis=1)
    source_rows = initializer.source_of.copy()
    source_rows[initializer.new_ids] = nearest
    return source_rows


def check_fit(rows: int, tokenizer: PreTrainedTokenizerFast, initializer: Initialization) -> None:
    """Raise a `UserError` if an initialization is not for `rows` rows and this tokenizer."""
    if initializer.n_source != rows:
        raise UserError(
            f"initializer: it was fitted for {initializer.n_source} matrix rows, but the model has "
            f"{rows}; fit it with n_source={rows}"
        )
    size = vocabulary_size(tokenizer)
    # An expansion may leave padding rows of the source after the last token.
    is_padded = initializer.n_target == rows and max(initializer.new_ids, default=0) < size <= rows
    if size != initializer.n_target and not is_padded:
        raise UserError(
            f"tokenizer: it has {size} tokens, but the initializer was fitted for "
            f"{initializer.n_target}; give the target tokenizer that it was fitted with"
        )


def untie(model: PreTrainedModel) -> None:
    """Give a model's head a separate matrix, in place, unless it already has one.

    transformers follows the configuration when it loads the model, so this is changed too.
    """
    head: Any = model.get_output_embeddings()
    embeddings: Any = model.get_input_embeddings()
    if head.weight is embeddings.weight:
        head_rows = head.weight.detach().clone()
        head.weight = torch.nn.Parameter(head_rows, requires_grad=head.weight.requires_grad)
    model.config.tie_word_embeddings = False
    model.config.get_text_config().tie_word_embeddings = False
