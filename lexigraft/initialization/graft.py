"""Graft an initialization onto a model: rows of the target vocabulary, and its special tokens."""

from typing import TYPE_CHECKING, Any

import numpy as np

from lexigraft.errors import UserError
from lexigraft.initialization.interface import Initializer, RecipeInitializer, RowInitializer
from lexigraft.initialization.recipe import DenseRows, Recipe, RecipePair
from lexigraft.source.positions import follow_padding

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

Initialization = Initializer | Recipe | RecipePair | DenseRows

_ROLES = ("bos", "eos", "pad", "sep", "cls", "mask", "unk", "decoder_start")


def graft(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", initializer: Initialization
) -> "PreTrainedModel":
    """Replace a source model's rows with those of the target vocabulary, in place.

    Returns the same model, with matrices and `config.vocab_size` of `initializer.n_target` rows,
    and configs that name the special tokens of the target `tokenizer`. Copied rows are
    bit-identical. An untied head is computed from the source's head, unless the method says
    otherwise; tied matrices stay tied. `initializer` is a fitted initializer, or the result of
    `load_initialization`. If it was fitted for another number of rows or another tokenizer, a
    `UserError` is raised and the model is unchanged.

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
    import torch

    # transformers types its layers as plain modules, without their weights.
    head: Any = model.get_output_embeddings()
    old_input: Any = model.get_input_embeddings().weight
    tied = head.weight is old_input
    check_fit(old_input.shape[0], tokenizer, initializer)
    with torch.no_grad():
        if isinstance(initializer, RowInitializer):
            # The rows may depend on both matrices (ZeTT).
            both = {"input": old_input} if tied else {"input": old_input, "output": head.weight}
            initializer = initializer.rows(both)
        # Create the new matrices in CPU memory: a GPU may not have room for both new and old ones.
        new_input = initializer.apply(old_input.cpu(), "input")
        new_output = None if tied else initializer.apply(head.weight.cpu(), "output")
        by = "input" if tied else "output"
        new_bias = None if head.bias is None else _bias(head.bias, initializer, by)
        if not tied:
            untie(model)  # otherwise resizing might copy the input rows into the head
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
    """The head's bias [n_target]: from the head's recipe, or the mean bias for dense rows.

    Biases are never scaled: only rows are scaled to a norm.
    """
    column = bias[:, None]
    if isinstance(initializer, RecipeInitializer):
        initializer = initializer.recipe_
    if isinstance(initializer, DenseRows):
        mean = column.float().mean().expand(len(initializer.new_ids), 1).cpu().numpy()
        initializer = DenseRows({which: mean}, initializer.source_of, initializer.n_source)
    elif isinstance(initializer, Recipe | RecipePair):
        initializer = initializer.scaled(None)
    return initializer.apply(column, which)[:, 0]


def check_fit(rows: int, tokenizer: "PreTrainedTokenizerFast", initializer: Initialization) -> None:
    """Raise a `UserError` if an initialization is not for `rows` rows and this tokenizer."""
    if initializer.n_source != rows:
        raise UserError(
            f"initializer: it was fitted for {initializer.n_source} matrix rows, but the model has "
            f"{rows}; fit it with n_source={rows}"
        )
    size = max(tokenizer.get_vocab().values()) + 1
    new = initializer.new_ids
    # An expansion may leave padding rows of the source after the last token.
    padded = initializer.n_target == rows and (size == new[-1] + 1 if len(new) else size <= rows)
    if size != initializer.n_target and not padded:
        raise UserError(
            f"tokenizer: it has {size} tokens, but the initializer was fitted for "
            f"{initializer.n_target}; give the target tokenizer that it was fitted with"
        )


def untie(model: "PreTrainedModel") -> None:
    """Give a model's head a separate matrix, in place, unless it already has one.

    A file may contain two matrices although its configuration ties them. Resizing follows the
    configuration, so this is changed too.
    """
    import torch

    head: Any = model.get_output_embeddings()
    embeddings: Any = model.get_input_embeddings()
    if head.weight is embeddings.weight:
        own = head.weight.detach().clone()
        head.weight = torch.nn.Parameter(own, requires_grad=head.weight.requires_grad)
    model.config.tie_word_embeddings = False
    model.config.get_text_config().tie_word_embeddings = False


def update_special_token_ids(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", source_of: np.ndarray
) -> None:
    """Set the special token ids of a model's configs to those of the target tokenizer, in place.

    `source_of` [n_target] is the source row that each target row copies, -1 for new tokens.
    Generation ends at every target token that copies a token at which it ended before: tokens with
    equal rows are equally likely. Positions that are offset by the padding token's id are adjusted.
    """
    text, generation = model.config.get_text_config(), getattr(model, "generation_config", None)
    configs = {id(config): config for config in (model.config, text, generation) if config}
    for config in configs.values():
        for role in _ROLES:
            source = getattr(config, f"{role}_token_id", None)
            if source is not None:
                own = getattr(tokenizer, f"{role}_token_id", None)
                every = role == "eos" and config is generation
                setattr(config, f"{role}_token_id", _target_ids(source, own, source_of, every))
    embeddings: Any = model.get_input_embeddings()
    if getattr(embeddings, "padding_idx", None) is not None:
        # The row at this index gets no gradient; the source's id may now be another token.
        embeddings.padding_idx = text.pad_token_id
    follow_padding(model, text.pad_token_id)


def _target_ids(
    source: int | list[int], own: int | None, source_of: np.ndarray, every: bool
) -> int | list[int] | None:
    """Target ids for the source ids in a config, with the target's own token of the role first.

    For each source id, all target tokens that copy it (`every`), or otherwise one of them. If there
    are none at all, the target's own token of the role.
    """
    ids: set[int] = set()
    for token_id in source if isinstance(source, list) else [source]:
        copies = (source_of == token_id).nonzero()[0].tolist()
        if not every:
            copies = [own] if own is not None and own in copies else copies[:1]
        ids.update(copies)
    if not ids and own is not None:
        ids = {own}
    found = sorted(ids, key=lambda token_id: (token_id != own, token_id))
    return found if isinstance(source, list) or len(found) > 1 else next(iter(found), None)
