"""The interface of all initializers: `fit`, `weights_`, `fallbacks_`, `apply`, `explain`.

A method is one file in `methods/` with a subclass of `RecipeInitializer` (weighted sums of source
rows), `RandomInitializer` (rows from a distribution) or `RowInitializer` (any other rows).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np
from scipy.sparse import csr_array
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.initialization.explanation import (
    describe,
    example_tokens,
    parts_of,
    readable,
    recipe_statistics,
    source_text,
    token_id_of,
)
from lexigraft.initialization.matrix import Matrix, check_matrix
from lexigraft.initialization.options import boolean, check_options, choice
from lexigraft.initialization.pairing import SHARED, VocabularyPair, pair_vocabularies
from lexigraft.initialization.recipe import DenseRows, Recipe, RecipePair, assemble_recipe
from lexigraft.randomness import generator
from lexigraft.source.weights import check_finite

Corpus = Iterable[str] | None
# Inputs by role: `target` for vectors of the target's tokens, `source` for those of the source's;
# methods may define further roles.
Auxiliaries = Mapping[str, Any]


@dataclass_transform(eq_default=False, kw_only_default=True)
@dataclass(eq=False, kw_only=True)
class Initializer(ABC):
    """Embedding rows for a target vocabulary, one matrix at a time.

    Each subclass is a dataclass: its annotated attributes are its options, see `options`. It
    declares `title`, `version`, `needs` and `reads` as literals in its body, since the workflow
    reads these from the text of the file (`registry.declaration`).

    Parameters
    ----------
    shared
        Which tokens of both vocabularies count as the same and copy their source row: those with
        the same `bytes`, `spelling`, bytes `without-space` or `fuzzy` text, or `special` tokens
        only; see `pairing.pair_vocabularies`.

    Attributes
    ----------
    n_source, n_target : int
        Numbers of rows of the matrices that `apply` takes and returns.
    new_ids : array
        Ids of the new tokens, ascending.
    source_of : array [n_target]
        The source row that each target row copies, -1 for new tokens.
    fallbacks_ : list of str
        Vocabulary strings of the new tokens that the method does not cover.
    title : str
        The name in reports; by default the method's name, capitalized.
    version : int
        The version of the results: raise it if the same inputs give other rows than before.
    needs : tuple of str
        Roles of required auxiliaries, such as `("target", "source")`; a config entry must name
        them. Two roles hold text instead of vectors: `dictionary`, pairs of an English word and its
        translation, and `parallel`, pairs of sentences.
    reads : tuple of str
        Further auxiliaries that scripts provide: the source's `matrices` (by `"input"` and, unless
        tied, `"output"`), its `model`, and an optional `dictionary`.
    counted : tuple of str
        Attributes that the method adds to `statistics`, without their trailing underscore.

    Examples
    --------
    >>> import lexigraft
    >>> import numpy as np
    >>> source = lexigraft.train_tokenizer(["the rice and the river"] * 5, "byte-level-bpe", 265)
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> tokenizer = lexigraft.expand_tokenizer(source, swahili, new_tokens=8)
    >>> mean = lexigraft.initializer("mean").fit(source, tokenizer)
    >>> mean.explain("mto")
    "'mto' = 0.33 'm' + 0.33 'o' + 0.33 't'"
    >>> merge = lexigraft.initializer("merge").fit(source, tokenizer)  # along its merges
    >>> merge.explain("mto")
    "'mto' = 0.5 'o' + 0.25 'm' + 0.25 't'"
    >>> merge.weights_.shape  # [n_target, n_source]
    (273, 265)
    >>> matrix = np.zeros((265, 4), dtype=np.float32)  # [n_source, hidden]
    >>> merge.apply(matrix).shape
    (273, 4)
    """

    shared: str = choice(*SHARED)
    title: ClassVar[str]
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ()
    counted: ClassVar[tuple[str, ...]] = ()
    n_source, n_target, new_ids, source_of = (
        property(attrgetter(f"_fitted.{name}"))
        for name in ("n_source", "n_target", "new_ids", "source_of")
    )

    def __init_subclass__(cls) -> None:
        dataclass(eq=False, kw_only=True)(cls)

    def __post_init__(self) -> None:
        check_options(self, self.name)

    @property
    def name(self) -> str:
        """The method's name: that of its file, unless its class declares another `name`."""
        return type(self).__module__.rpartition(".")[2].replace("_", "-")

    def fit(
        self,
        source_tokenizer: PreTrainedTokenizerFast,
        target_tokenizer: PreTrainedTokenizerFast,
        *,
        corpus: Corpus = None,
        n_source: int | None = None,
        auxiliary: Any = None,
        seed: int = 0,
    ) -> Self:
        """Fit the method to a source tokenizer and a target tokenizer that expands or replaces it.

        Raises a `UserError` if the tokenizers do not match, or the method lacks a required input.

        Parameters
        ----------
        corpus
            Sentences of the target language, read once; only some methods use them.
        n_source
            Number of rows of the source matrices, including padding rows; by default the source
            tokenizer's size. New tokens whose ids fall on padding rows replace these.
        auxiliary
            For methods that need it: vectors of the target's tokens, or several auxiliaries by
            role, such as `{"target": vectors, "source": vectors}`.
        seed
            Seed of every random draw.
        """
        if isinstance(corpus, str):
            raise UserError("corpus: give an iterable of sentences, not one string")
        tokenizers = source_tokenizer, target_tokenizer
        self.pair_: VocabularyPair = pair_vocabularies(*tokenizers, n_source, self.shared)
        self.fallbacks_: list[str] = []
        self.seed_ = seed
        if not isinstance(auxiliary, Mapping):
            auxiliary = {} if auxiliary is None else {"target": auxiliary}
        matrices = dict(auxiliary.get("matrices") or {})
        if model := auxiliary.get("model"):
            matrices["input"] = model.get_input_embeddings().weight
        self._check_finite(matrices)
        self._fit(corpus, auxiliary)
        return self

    @property
    def weights_(self) -> csr_array | dict[str, csr_array] | None:
        """The recipe `W` [n_target, n_source], float64; one per matrix for methods that have two;
        None for rows without a recipe.
        """
        return None

    @abstractmethod
    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Compute the target matrix [n_target, h] from a source matrix [n_source, h].

        `which` is `"input"` or `"output"`. The result has the array type, dtype and device of
        `matrix`; rows of source tokens and padding rows are bit-identical.
        """

    def explain(self, token: str) -> str:
        """Describe in one line of text how a token's row is computed.

        `token` is a token's text (`"తెలుగు"`, with or without its leading space) or vocabulary
        string.
        """
        pair = self._fitted
        token_id = token_id_of(pair, token)
        return self._explain(token_id, readable(pair.target_bytes[token_id]))

    @abstractmethod
    def parts(self, token_id: int) -> list[tuple[str, float]]:
        """Texts and weights of the source rows in a row's recipe, largest magnitude first."""

    def examples(self) -> list[dict[str, Any]]:
        """Up to 12 new tokens with their texts and the parts of their recipes, for reports."""
        return example_tokens(self._fitted, self.parts)

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """Counts and shares of tokens for reports: numbers, texts and None.

        `copied_tokens` are the shared tokens without special ones, `initialized_tokens` all new
        ones, and `share_copied` is the coverage in SALT's Table 6 and CW2V's Table 4.
        """
        pair = self._fitted
        copied_tokens, tokens = len(pair.shared_ids), len(pair.shared_ids) + len(pair.new_ids)
        counts = ((name, getattr(self, f"{name}_")) for name in self.counted)
        return {
            "copied_tokens": copied_tokens,
            "initialized_tokens": tokens - copied_tokens,
            "share_copied": copied_tokens / tokens,
            **{name: None if value != value else value for name, value in counts},  # NaN
        }

    @property
    def _fitted(self) -> VocabularyPair:
        if not hasattr(self, "pair_"):
            raise UserError("initializer: it is not fitted yet; call fit first")
        return self.pair_

    def _check_finite(self, matrices: Mapping[str, Matrix]) -> None:
        """Raise a `UserError` if the row of a source token holds NaN or infinity."""
        for which, matrix in matrices.items():
            check_finite(matrix, self._fitted.source_tokenizer, f"{which} matrix")

    @abstractmethod
    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        """The part of `fit` that is specific to the method."""

    def _generator(self, *names: str) -> np.random.Generator:
        """A random generator determined by the seed, the method and `names`."""
        return generator(self.seed_, "initialization", self.name, *names)

    @abstractmethod
    def _explain(self, token_id: int, text: str) -> str: ...


class RecipeInitializer(Initializer):
    """A method whose new rows are weighted sums of source rows.

    Unless a method says otherwise, a new token that it does not cover falls back to the mean of its
    source pieces or, without source pieces, to the mean of all source tokens. `recipe_` is `W` in
    factors; `weights_` is their product.

    Parameters
    ----------
    source_norm
        Whether each new row is scaled to the mean norm of the source tokens' rows, in the input
        embeddings and in the head separately. `weights_` are the weights before scaling.
    """

    source_norm: bool = boolean(False)

    @property
    def weights_(self) -> csr_array | dict[str, csr_array]:
        """`W` [n_target, n_source], float64, or one per matrix; computed at each access."""
        assert self._fitted
        return self.recipe_.weights

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Compute the target matrix [n_target, h] from a source matrix [n_source, h]."""
        check_matrix(matrix, self._fitted.n_source)
        self._check_finite({which: matrix})
        return self.recipe_.apply(matrix, which)

    def parts(self, token_id: int, which: str = "input") -> list[tuple[str, float]]:
        """Texts and weights of the source rows in a target row's recipe."""
        return parts_of(self.recipe_.recipe(which), token_id, self._fitted.source_bytes)

    def statistics(self) -> dict[str, Any]:
        """Statistics of the input recipe and, as `output_…`, of a separate output recipe."""
        facts = self._fallback_ids, self._fitted.source_bytes
        statistics = recipe_statistics(self.recipe_.recipe("input"), *facts)
        if isinstance(self.recipe_, RecipePair):
            of_output = recipe_statistics(self.recipe_.output, *facts)
            del of_output["new_tokens"]
            statistics |= {f"output_{name}": value for name, value in of_output.items()}
        return statistics | super().statistics()

    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        rows, fallback = self._new_rows(self.pair_, corpus, auxiliary)
        pair = self.pair_  # the method may have changed which tokens are shared

        def assemble(rows: csr_array) -> Recipe:
            return assemble_recipe(rows, pair.source_of, pair.source_ids, self.source_norm)

        self.recipe_: Recipe | RecipePair
        if isinstance(rows, Mapping):
            self.recipe_ = RecipePair(assemble(rows["input"]), assemble(rows["output"]))
        else:
            self.recipe_ = assemble(rows)
        self._fallback_ids = pair.new_ids[fallback]
        self.fallbacks_ = [pair.new_tokens[i] for i in np.flatnonzero(fallback)]

    def _explain(self, token_id: int, text: str) -> str:
        line = describe(text, self.parts(token_id))
        if isinstance(self.recipe_, RecipePair):
            line += f"; in the head {describe(text, self.parts(token_id, 'output'))}"
        return line

    @abstractmethod
    def _new_rows(
        self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries
    ) -> tuple[csr_array | Mapping[str, csr_array], np.ndarray]:
        """Recipe rows of the new tokens, and which of them the method does not cover.

        Rows [len(new_ids), n_source + 1], see `recipe.assemble_recipe`, for both matrices, or a
        mapping with `"input"` and `"output"`; they sum to one, unless the method says otherwise.
        """


class RowInitializer(Initializer):
    """A method whose rows have no recipe. A tied model has one matrix, `input`.

    `distribution` describes the rows or their distribution, with names of options in braces.
    """

    distribution: ClassVar[str]

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Compute the target matrix [n_target, h] from a source matrix [n_source, h]."""
        return self.rows({which: matrix}).apply(matrix, which)

    def rows(self, matrices: Mapping[str, Matrix]) -> DenseRows:
        """Compute the new rows from the source matrices, given by `"input"` and `"output"`."""
        pair = self._fitted
        for matrix in matrices.values():
            check_matrix(matrix, pair.n_source)
        self._check_finite(matrices)
        return DenseRows(self._rows(matrices), pair.source_of, pair.n_source)

    @abstractmethod
    def _rows(self, matrices: Mapping[str, Matrix]) -> dict[str, np.ndarray]:
        """The new rows [len(new_ids), h] of each source matrix [n_source, h]."""

    def parts(self, token_id: int) -> list[tuple[str, float]]:
        """Empty for a new token; a copied token has its source token as its only part."""
        pair = self._fitted
        source_id = int(pair.source_of[token_id])
        return [] if source_id < 0 else [(source_text(pair.source_bytes, source_id), 1.0)]

    def statistics(self) -> dict[str, Any]:
        """The number of new tokens and the share of fallbacks."""
        new_tokens = len(self._fitted.new_ids)
        share = len(self.fallbacks_) / new_tokens if new_tokens else None
        return {"new_tokens": new_tokens, "share_fallback": share, **super().statistics()}

    def _explain(self, token_id: int, text: str) -> str:
        parts = self.parts(token_id)
        description = f"'{text}' ~ {self.distribution.format_map(vars(self))}"
        return describe(text, parts) if parts else description


class RandomInitializer(RowInitializer):
    """A method that draws the rows of each matrix from a distribution, independently."""

    def _rows(self, matrices: Mapping[str, Matrix]) -> dict[str, np.ndarray]:
        return {
            which: self._shaped(
                matrix, self._generator(which).standard_normal((len(self.new_ids), matrix.shape[1]))
            )
            for which, matrix in matrices.items()
        }

    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        """Do nothing: rows are drawn when a matrix is given."""

    @abstractmethod
    def _shaped(self, matrix: Matrix, rows: np.ndarray) -> np.ndarray:
        """Transform standard normal `rows` [len(new_ids), h], float64, to new rows of a matrix."""
