"""What every initializer offers: `fit`, `weights_`, `fallbacks_`, `apply`, `explain`, `statistics`.

A method is one file in `methods/`: it returns recipe rows (`RecipeInitializer`), draws rows of its
own (`DrawnRows`) or makes them some other way (`RowInitializer`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles, by_role
from lexigraft.initialization.explanation import (
    described,
    parts_of,
    readable,
    source_text,
    token_id_of,
)
from lexigraft.initialization.matrix import Matrix, check_matrix
from lexigraft.initialization.pairing import VocabularyPair, pair_vocabularies
from lexigraft.initialization.recipe import Recipe, assembled
from lexigraft.initialization.rows import Rows
from lexigraft.randomness import generator

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class Initializer(ABC):
    """Embedding rows for a target vocabulary, one matrix at a time.

    Attributes
    ----------
    fallbacks_ : list of str
        Vocabulary strings of the new tokens that no rule of the method covers.
    needs : tuple of str
        Roles of the auxiliaries that the method cannot do without, such as `("target", "source")`;
        a config entry is refused that does not name them.
    reads : tuple of str
        What else `fit` reads as auxiliaries of these names: the source's `matrices` (by `"input"`
        and, unless tied, `"output"`), its `model`, a `dictionary`. Scripts bring them.
    """

    fallbacks_: list[str]
    needs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    pair_: VocabularyPair
    seed_: int

    @property
    def name(self) -> str:
        """The method's name: that of its file."""
        return type(self).__module__.rpartition(".")[2].replace("_", "-")

    def fit(
        self,
        source_tokenizer: "PreTrainedTokenizerFast",
        target_tokenizer: "PreTrainedTokenizerFast",
        *,
        corpus: Iterable[str] | None = None,
        n_source: int | None = None,
        auxiliary: Any = None,
        seed: int = 0,
    ) -> Self:
        """Find out how the new tokens are made.

        Parameters
        ----------
        source_tokenizer, target_tokenizer
            Fast tokenizers; the target expands the source or replaces it, see `pair_vocabularies`.
        corpus
            Sentences of the target language, read once; only some methods use them.
        n_source
            Rows of the source matrices, padding rows included; by default the source tokenizer's
            size. New tokens whose ids fall on padding rows replace these.
        auxiliary
            For methods that need them: vectors of the target's tokens, or several auxiliaries by
            role, such as `{"target": vectors, "source": vectors}`.
        seed
            Seed of every random draw.

        Raises
        ------
        UserError
            The tokenizers do not go together, or the method lacks something that it needs.
        """
        if isinstance(corpus, str):
            raise UserError("corpus: give an iterable of sentences, not one string")
        self.pair_ = pair_vocabularies(source_tokenizer, target_tokenizer, n_source)
        self.fallbacks_ = []
        self.seed_ = seed
        self._fit(corpus, by_role(auxiliary))
        return self

    @property
    @abstractmethod
    def weights_(self) -> csr_array | dict[str, csr_array] | None:
        """The recipe `W` [n_target, n_source], float64, or None for methods that draw rows.

        By `"input"` and `"output"` for methods with a recipe for each matrix.
        """

    @abstractmethod
    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Make the target matrix [n_target, h] of a source matrix [n_source, h].

        The result has the kind, type and device of `matrix`; rows of source tokens and padding rows
        are bit-identical. `which` is `"input"` or `"output"`.
        """

    def explain(self, token: str) -> str:
        """What a token's row is made of, as one line of text.

        Parameters
        ----------
        token
            A token's text (`"తెలుగు"`, with or without its leading space) or its vocabulary string.

        Raises
        ------
        UserError
            The target vocabulary has no such token.
        """
        pair = self._fitted()
        token_id = token_id_of(pair, token)
        return self._explain(token_id, readable(pair.target_bytes[token_id]))

    @abstractmethod
    def parts(self, token_id: int) -> list[tuple[str, float]]:
        """Texts and weights of the source rows that a target row is made of, heaviest first.

        Empty where the row is drawn.
        """

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """Counts and shares over the new tokens, for reports: numbers, texts and None."""

    @property
    def n_source(self) -> int:
        """Rows of the matrices that `apply` takes."""
        return self._fitted().n_source

    @property
    def n_target(self) -> int:
        """Rows of the matrices that `apply` makes."""
        return self._fitted().n_target

    @property
    def new_ids(self) -> np.ndarray:
        """Ids of the new tokens, ascending."""
        return self._fitted().new_ids

    @property
    def source_of(self) -> np.ndarray:
        """[n_target]: the source row that each target row copies, -1 for new tokens."""
        return self._fitted().source_of

    def _fitted(self) -> VocabularyPair:
        if not hasattr(self, "pair_"):
            raise UserError("initializer: it is not fitted yet; call fit first")
        return self.pair_

    @abstractmethod
    def _fit(self, corpus: Iterable[str] | None, auxiliary: Roles) -> None:
        """The method's own part of `fit`."""

    def _draws(self, *names: str) -> np.random.Generator:
        """A generator of the method's own: same seed, method and names, same draws."""
        return generator(self.seed_, "initialization", self.name, *names)

    @abstractmethod
    def _explain(self, token_id: int, text: str) -> str: ...


class RecipeInitializer(Initializer):
    """A method that makes each new row as a weighted sum of source rows.

    Attributes
    ----------
    recipe_ : Recipe
        `W` as factors; `weights_` multiplies them out.
    """

    recipe_: Recipe

    @property
    def weights_(self) -> csr_array:
        """The recipe `W` [n_target, n_source], float64; computed at each access."""
        self._fitted()
        return self.recipe_.weights

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Make the target matrix of a source matrix, see `Recipe.apply`."""
        self._fitted()
        return self.recipe_.apply(matrix, which)

    def parts(self, token_id: int) -> list[tuple[str, float]]:
        """Texts and weights of the source rows that a target row is made of, heaviest first."""
        return parts_of(self.recipe_, token_id, self._fitted().source_bytes)

    def statistics(self) -> dict[str, Any]:
        """What `Recipe.statistics` counts, with the text of the largest hub in place of its id."""
        return counted(self.recipe_, self._fallback_ids, self._fitted().source_bytes)

    def _fit(self, corpus: Iterable[str] | None, auxiliary: Roles) -> None:
        pair = self.pair_
        rows, fallback = self._new_rows(pair, corpus, auxiliary)
        self.recipe_ = assembled(rows, pair.source_of, pair.source_ids)
        self._fallback_ids = pair.new_ids[fallback]
        self.fallbacks_ = [pair.new_tokens[i] for i in np.flatnonzero(fallback)]

    def _explain(self, token_id: int, text: str) -> str:
        return described(text, self.parts(token_id))

    @abstractmethod
    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        """Recipe rows of the new tokens, as `recipe.assembled` takes them, and which fell back.

        Returns
        -------
        rows : csr_array
            [len(new_ids), n_source + 1]; rows sum to one, unless the method says otherwise.
        fallback : ndarray of bool
            [len(new_ids)], true where no rule of the method covers the token.
        """


class RowInitializer(Initializer):
    """A method that makes rows of its own for each matrix. A tied model has one matrix, `input`."""

    @property
    def weights_(self) -> None:
        """None: no recipe over source rows describes these rows."""
        return None

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Make the target matrix of a source matrix, see `Rows.apply`."""
        return self.rows({which: matrix}).apply(matrix, which)

    @abstractmethod
    def rows(self, matrices: dict[str, Matrix]) -> Rows:
        """The new rows of each source matrix, by `"input"` and `"output"`.

        Raises
        ------
        UserError
            A matrix has another number of rows, or is no floating-point matrix.
        """

    def parts(self, token_id: int) -> list[tuple[str, float]]:
        """No parts for a new token, whose row is its own; a source token is itself."""
        pair = self._fitted()
        copied = int(pair.source_of[token_id])
        return [] if copied < 0 else [(source_text(pair.source_bytes, copied), 1.0)]

    def statistics(self) -> dict[str, Any]:
        """The number of new tokens and the share of fallbacks: no recipe has more to count."""
        k = len(self._fitted().new_ids)
        return {"new_tokens": k, "share_fallback": len(self.fallbacks_) / k if k else None}

    def _explain(self, token_id: int, text: str) -> str:
        parts = self.parts(token_id)
        return described(text, parts) if parts else f"'{text}' ~ {self.distribution}"

    @property
    @abstractmethod
    def distribution(self) -> str:
        """What the rows are, or are drawn from, in words."""


class DrawnRows(RowInitializer):
    """A method that draws the rows of each matrix from a distribution made of that matrix."""

    def rows(self, matrices: dict[str, Matrix]) -> Rows:
        """The new rows of each source matrix, see `RowInitializer.rows`.

        Same seed, method and name of the matrix: same draw; each matrix has a draw of its own.
        """
        pair = self._fitted()
        new = {}
        for which, matrix in matrices.items():
            check_matrix(matrix, pair.n_source)
            new[which] = self._draw(matrix, self._draws(which))
        return Rows(new, pair.source_of, pair.n_source)

    def _fit(self, corpus: Iterable[str] | None, auxiliary: Roles) -> None:
        """Nothing: rows are made when a matrix is there."""

    @abstractmethod
    def _draw(self, matrix: Matrix, draws: np.random.Generator) -> np.ndarray:
        """The new rows [len(new_ids), h], float64, for one source matrix."""


def counted(recipe: Recipe, fallback_ids: np.ndarray, pieces: list[bytes]) -> dict[str, Any]:
    """What `Recipe.statistics` counts, with the text of the largest hub in place of its id."""
    found = recipe.statistics(fallback_ids)
    hub = found.pop("largest_hub_id")
    found["largest_hub_token"] = None if hub is None else source_text(pieces, hub)
    return found
