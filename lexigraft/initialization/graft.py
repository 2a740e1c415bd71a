"""Graft an initialization onto a model: both matrices get the rows of the target vocabulary."""

from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.initialization.dense_rows import DenseRows
from lexigraft.initialization.interface import Initializer, RowInitializer
from lexigraft.initialization.model_configuration import untie, update_special_token_ids
from lexigraft.initialization.recipe import Recipe
from lexigraft.initialization.recipe_pair import RecipePair

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

Initialization = Initializer | Recipe | RecipePair | DenseRows


def graft(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    initializer: Initialization,
) -> "PreTrainedModel":
    """Replace a model's rows by those of the target vocabulary, in place.

    Parameters
    ----------
    model
        The source model. Its head's rows are made of its head; tied matrices stay tied.
    tokenizer
        The target tokenizer.
    initializer
        A fitted initializer, or what `load_initialization` returns.

    Returns
    -------
    PreTrainedModel
        The same object: matrices of `initializer.n_target` rows, `config.vocab_size` with them,
        and configs that name the target's special tokens. Copied rows are bit-identical.

    Raises
    ------
    UserError
        The initializer was fitted for another number of rows or another tokenizer. The model is
        then unchanged.

    Examples
    --------
    >>> mean = lexigraft.initializer("mean").fit(source, target)  # doctest: +SKIP
    >>> model = lexigraft.graft(model, target, mean)  # doctest: +SKIP
    """
    import torch

    # transformers types its layers as plain modules, without the weights that they have.
    head: Any = model.get_output_embeddings()
    old_input: Any = model.get_input_embeddings().weight
    tied = head.weight is old_input
    check_fit(old_input.shape[0], tokenizer, initializer)
    with torch.no_grad():
        if isinstance(initializer, RowInitializer):
            # The rows may depend on both matrices (ZeTT).
            both = {"input": old_input} if tied else {"input": old_input, "output": head.weight}
            initializer = initializer.rows(both)
        new_input = initializer.apply(old_input, "input")
        new_output = None if tied else initializer.apply(head.weight, "output")
        by = "input" if tied else "output"
        new_bias = None if head.bias is None else _bias(head.bias, initializer, by)
        if not tied:
            # Otherwise resizing might copy the input rows into the head.
            untie(model)
        # mean_resizing would compute rows that are replaced below; assigning new modules instead
        # would untie the matrices.
        model.resize_token_embeddings(initializer.n_target, mean_resizing=False)
        embeddings: Any = model.get_input_embeddings()
        embeddings.weight.copy_(new_input)
        head = model.get_output_embeddings()
        if new_output is not None:
            head.weight.copy_(new_output)
        if new_bias is not None:
            head.bias.copy_(new_bias)
    update_special_token_ids(model, tokenizer, initializer.source_of)
    return model


def _bias(bias: "torch.Tensor", initializer: Initialization, which: str) -> "torch.Tensor":
    """The head's bias [n_target]: by the head's recipe, or the mean bias for dense rows."""
    column = bias[:, None]
    if not isinstance(initializer, DenseRows | RowInitializer):
        return initializer.apply(column, which)[:, 0]
    mean = column.float().mean().expand(len(initializer.new_ids), 1).cpu().numpy()
    rows = DenseRows({"output": mean}, initializer.source_of, initializer.n_source)
    return rows.apply(column, "output")[:, 0]


def check_fit(rows: int, tokenizer: "PreTrainedTokenizerFast", initializer: Initialization) -> None:
    """Raise a `UserError` if an initialization is not for `rows` rows and this tokenizer."""
    if initializer.n_source != rows:
        raise UserError(
            f"initializer: it was fitted for {initializer.n_source} matrix rows, the model has "
            f"{rows}; fit it with n_source={rows}"
        )
    size = max(tokenizer.get_vocab().values()) + 1
    new = initializer.new_ids
    # An expansion may leave padding rows of the source after the last token.
    padded = initializer.n_target == rows and (size == new[-1] + 1 if len(new) else size <= rows)
    if size != initializer.n_target and not padded:
        expected = int(new[-1]) + 1 if len(new) and padded else initializer.n_target
        raise UserError(
            f"tokenizer: it has {size} tokens, but the initializer was fitted for {expected}; "
            "give the target tokenizer that it was fitted with"
        )
