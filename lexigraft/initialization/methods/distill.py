"""Token distillation: rows for which the model's hidden states match those for the pieces."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lexigraft.initialization.decomposition import decompose, mean_rows
from lexigraft.initialization.distillation import distill
from lexigraft.initialization.inputs import required_corpus, required_model
from lexigraft.initialization.interface import Auxiliaries, Corpus, RowInitializer
from lexigraft.initialization.matrix import Matrix, working_type
from lexigraft.initialization.options import choice, integer, positive
from lexigraft.initialization.recipe import assemble_recipe
from lexigraft.initialization.training_text import (
    find_snippets,
    tokenized_sentences,
    validation_split,
)
from lexigraft.source.document_start import beginning_ids
from lexigraft.source.positions import positions_of

_DEFAULT_CONTEXT = 2048  # source tokens of a snippet, for models without a maximum position


class TokenDistillation(RowInitializer):
    """Input rows trained so that hidden states match those for the source pieces [1]_.

    The source model, in `auxiliary` as `model`, reads snippets of the corpus as source tokens, and
    with new tokens in place of their pieces. Adam minimizes the mean squared difference of the last
    hidden states at the ends of all target tokens from the first new token on. Only the rows of new
    tokens are trained; they start as the mean of their source pieces' rows. The new rows of an
    untied head are trained at the same time on the cross-entropy of each token given the student's
    preceding hidden states, which affects no other weights.

    A new token that occurs in none of the `snippets_` snippets falls back to the mean of its source
    pieces. `losses_` are the mean squared differences on held-out snippets, before training and
    after each epoch, and `head_losses_` the cross-entropy in nats per token.

    Parameters
    ----------
    snippets
        Number of snippets of text per new token, if the corpus has that many.
    length
        Maximum number of target tokens of a snippet.
    epochs, learning_rate, batch_size
        Epochs over the snippets, Adam's learning rate, snippets per update; defaults of the paper.
    head
        Rows of an untied head: trained with `cross-entropy`, the default of the published code, or
        the `mean` of the source pieces' rows in the head.

    References
    ----------
    .. [1] Dobler, Elliott and de Melo 2025, "Token Distillation: Attention-aware Input Embeddings
       For New Tokens" (arXiv 2505.20133), section 3.
    """

    reads = ("model",)
    distribution = "a row trained so that hidden states match those of its source pieces"
    snippets: int = integer(25)
    length: int = integer(50)
    epochs: int = integer(1, minimum=0)
    learning_rate: float = positive(1e-4)
    batch_size: int = integer(16)
    head: str = choice("cross-entropy", "mean")

    def statistics(self) -> dict[str, Any]:
        """New tokens, share of fallbacks, snippets, and both losses before and after training."""
        extra: dict[str, Any] = {"snippets": self.snippets_}
        for name, losses in (("loss", self.losses_), ("head_loss", self.head_losses_)):
            before, after = (losses[0], losses[-1]) if losses else (None, None)
            extra |= {f"{name}_before": before, f"{name}_after": after}
        return {**super().statistics(), **extra}

    def _rows(self, matrices: Mapping[str, Matrix]) -> dict[str, np.ndarray]:
        return {
            which: self._mean(matrix, which) if (rows := self._trained.get(which)) is None else rows
            for which, matrix in matrices.items()
        }

    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        pair, model = self.pair_, required_model(self.name, auxiliary)
        corpus = required_corpus(self.name, corpus)
        pieces = decompose(pair, pair.new_ids.tolist())
        self._means = assemble_recipe(
            mean_rows(pieces, pair.n_source), pair.source_of, pair.source_ids
        )
        prefix = beginning_ids(pair.source_tokenizer)
        snippets = find_snippets(
            tokenized_sentences(pair.target_tokenizer, corpus),
            pair,
            {int(i): ids for i, ids in zip(pair.new_ids, pieces, strict=True) if ids},
            per_token=self.snippets,
            length=self.length,
            context=(positions_of(model) or _DEFAULT_CONTEXT) - len(prefix),
        )
        self.snippets_ = len(snippets)
        embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
        initial_rows = {"input": self._mean(embeddings.weight, "input")}
        self._trained = dict(initial_rows)
        if self.head == "cross-entropy" and head.weight is not embeddings.weight:
            initial_rows["output"] = self._mean(head.weight, "output")
        self.losses_: list[float] = []
        self.head_losses_: list[float] = []
        training, validation = validation_split(snippets)
        if snippets:
            copied_ids = np.unique(pair.source_of[pair.source_of >= 0])
            rng = self._generator("order")
            self._trained, self.losses_, self.head_losses_ = distill(
                model, initial_rows, copied_ids, training, validation, prefix, rng, self
            )
        trained_tokens = {-1 - i for snippet in training for i in snippet.target.tolist() if i < 0}
        self.fallbacks_ = [
            token for i, token in enumerate(pair.new_tokens) if i not in trained_tokens
        ]

    def _mean(self, matrix: Matrix, which: str) -> np.ndarray:
        rows = np.empty((len(self.pair_.new_ids), matrix.shape[1]), working_type(matrix))
        for columns, values in self._means.new_rows(matrix, which):
            rows[:, columns] = values
        return rows
