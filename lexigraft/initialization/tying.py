"""Input and output matrix as two, whatever the model's configuration says."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def untie(model: "PreTrainedModel") -> None:
    """Give a model's head a matrix of its own, in place; one that has its own keeps it.

    A file may hold two matrices although its configuration ties them, and resizing goes by the
    configuration, so that says from now on that there are two.
    """
    import torch

    # transformers types its layers as plain modules, without the weights that they have.
    head: Any = model.get_output_embeddings()
    embeddings: Any = model.get_input_embeddings()
    if head.weight is embeddings.weight:
        own = head.weight.detach().clone()
        head.weight = torch.nn.Parameter(own, requires_grad=head.weight.requires_grad)
    model.config.tie_word_embeddings = False
    model.config.get_text_config().tie_word_embeddings = False
