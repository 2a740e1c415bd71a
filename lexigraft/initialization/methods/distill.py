"""Token distillation: rows with which the model reads a new token as it reads its source pieces.

Dobler, Elliott and de Melo 2025 (arXiv 2505.20133).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.decomposition import decompose, mean_rows
from lexigraft.initialization.distillation import Settings, distill
from lexigraft.initialization.interface import RowInitializer
from lexigraft.initialization.matrix import Matrix, check_matrix, working_type
from lexigraft.initialization.options import above_zero, whole
from lexigraft.initialization.recipe import assembled
from lexigraft.initialization.rows import Rows
from lexigraft.initialization.snippets import find_snippets
from lexigraft.initialization.target_text import encoded, monitored_apart
from lexigraft.source.positions import positions_of

_LONGEST = 2048  # source tokens of a snippet, where the model does not say how many it holds


class Distill(RowInitializer):
    """Input rows learned so that hidden states match those that the model has for the pieces.

    The source model itself is teacher and student: it reads snippets of the corpus as source
    tokens, and with the new tokens in their place. Adam makes the difference of its last hidden
    states, at the ends of all tokens from the first new one on, as small as it can by the rows of
    the new tokens alone, which start as the mean of their source pieces' rows. `auxiliary` brings
    the source `model`. Settings are those of the paper.

    Hidden states say nothing of the head: a new token's row in an untied head is the mean of its
    pieces' rows there. A tied model has one matrix, which gets the learned rows.

    A new token that no snippet holds falls back to the mean of its source pieces, and one of which
    the source knows no piece to the mean of all source tokens.

    Parameters
    ----------
    snippets
        Stretches of text for each new token, where the corpus has as many.
    length
        Target tokens of a snippet, at most.
    epochs
        Passes over the snippets.
    learning_rate
        Adam's.
    batch_size
        Snippets in one update.

    Attributes
    ----------
    losses_ : list of float
        Mean squared difference on snippets that are not learned from, before training and after
        each epoch; empty where the corpus shows no new token.
    snippets_ : int
        How many were found.
    """

    reads = ("model",)
    losses_: list[float]
    snippets_: int

    def __init__(
        self,
        snippets: int = 25,
        length: int = 50,
        epochs: int = 1,
        learning_rate: float = 1e-4,
        batch_size: int = 16,
    ) -> None:
        self.snippets = whole("distill", "snippets", snippets)
        self.length = whole("distill", "length", length)
        self.settings = Settings(
            epochs=whole("distill", "epochs", epochs, lowest=0),
            learning_rate=above_zero("distill", "learning_rate", learning_rate),
            batch_size=whole("distill", "batch_size", batch_size),
        )

    @property
    def distribution(self) -> str:
        """What the rows are, in words."""
        return "a row learned so that hidden states match those of its source pieces"

    def statistics(self) -> dict[str, Any]:
        """What drawn rows count, snippets, and the watched loss before and after training."""
        before, after = (self.losses_[0], self.losses_[-1]) if self.losses_ else (None, None)
        own = {"snippets": self.snippets_, "loss_before": before, "loss_after": after}
        return {**super().statistics(), **own}

    def rows(self, matrices: dict[str, Matrix]) -> Rows:
        """The learned rows as `input`, and means of pieces as `output`."""
        pair = self._fitted()
        new = {}
        for which, matrix in matrices.items():
            check_matrix(matrix, pair.n_source)
            new[which] = self._learned if which == "input" else self._mean(matrix, which)
        return Rows(new, pair.source_of, pair.n_source)

    def _fit(self, corpus: Iterable[str] | None, auxiliary: Roles) -> None:
        pair, model = self.pair_, auxiliary.get("model")
        if model is None or not hasattr(model, "get_input_embeddings"):
            raise UserError(
                "initializer 'distill': it learns by the source model; call fit(…, auxiliary="
                "{'model': model})"
            )
        if corpus is None:
            raise UserError(
                "initializer 'distill': it needs a corpus; call fit(…, corpus=sentences)"
            )
        cut = decompose(pair, pair.new_ids.tolist())
        self._means = assembled(mean_rows(cut, pair.n_source), pair.source_of, pair.source_ids)
        first = _first(pair.source_tokenizer)
        found = find_snippets(
            encoded(pair.target_tokenizer, corpus),
            pair,
            {int(i): ids for i, ids in zip(pair.new_ids, cut, strict=True) if ids},
            per_token=self.snippets,
            length=self.length,
            context=(positions_of(model) or _LONGEST) - len(first),
        )
        self.snippets_ = len(found)
        start, self.losses_ = self._mean(model.get_input_embeddings().weight, "input"), []
        self._learned = start
        learned, watched = monitored_apart(found)
        if found:
            self._learned, self.losses_ = distill(
                model, start, learned, watched, first, self.settings, self._draws("order")
            )
        seen = {-1 - i for snippet in learned for i in snippet.target.tolist() if i < 0}
        self.fallbacks_ = [t for i, t in enumerate(pair.new_tokens) if i not in seen]

    def _mean(self, matrix: Matrix, which: str) -> np.ndarray:
        rows = np.empty((len(self.pair_.new_ids), matrix.shape[1]), working_type(matrix))
        for columns, values in self._means.new_rows(matrix, which):
            rows[:, columns] = values
        return rows


def _first(tokenizer: Any) -> list[int]:
    """The special token that begins a text, as in training."""
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return [token]
    return []
