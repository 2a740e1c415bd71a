"""Merge as in the published code of Yamaguchi et al.: many tokens keep random rows."""

from collections.abc import Mapping

import numpy as np

from lexigraft.errors import UserError
from lexigraft.initialization.decomposition import piece_shares, tokenize_spelling, weighted_rows
from lexigraft.initialization.interface import Auxiliaries, Corpus, RowInitializer
from lexigraft.initialization.matrix import Matrix, row_deviation, row_mean
from lexigraft.initialization.methods.merge import Weights, mean_of, merge_rules, shared_weights
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.recipe import assemble_recipe


class MergeAsPublished(RowInitializer):
    """`Merge` [1]_ with the deviations of its published code, to reproduce its results.

    - A new single character has no recipe, and neither has any token that is built from one. If
      only such tokens remain, one of them, the left part of the first remaining rule, is the mean
      of the source tokens into which its spelling is tokenized.
    - A token without a recipe, one of the `fallbacks_`, gets a row drawn from N(mean, std) of the
      source rows in the input embeddings, and a zero row in an untied head.
    - Head rows are the same weighted sums of *input* rows.

    References
    ----------
    .. [1] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", Algorithm 1, and github.com/gucci-j/lowres-cve.
    """

    distribution = "the mean along its merge rules of input rows; without rules at random"

    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        pair = self.pair_
        recipes = _recipes(pair)
        self._unknown = np.array([not recipe for recipe in recipes], dtype=bool)
        self._recipe = assemble_recipe(
            weighted_rows(recipes, pair.n_source), pair.source_of, pair.source_ids
        )
        self.fallbacks_ = [pair.new_tokens[i] for i in np.flatnonzero(self._unknown)]

    def _rows(self, matrices: Mapping[str, Matrix]) -> dict[str, np.ndarray]:
        if "input" not in matrices:
            raise UserError(
                "initializer 'merge-as-published': its head rows are computed from input rows; "
                "call graft, or rows(matrices) with both matrices"
            )
        matrix, ids = matrices["input"], self.pair_.source_ids
        mean = row_mean(matrix, ids)
        input_rows = self._generator("input").standard_normal((len(self.new_ids), matrix.shape[1]))
        input_rows *= row_deviation(matrix, ids, mean)
        input_rows += mean
        output_rows = np.zeros_like(input_rows)
        for columns, values in self._recipe.new_rows(matrix, "input"):
            for rows in (input_rows, output_rows):
                rows[~self._unknown, columns] = values[~self._unknown]
        return {which: {"input": input_rows, "output": output_rows}[which] for which in matrices}


def _recipes(pair: VocabularyPair) -> list[Weights]:
    """The recipe of each new token, in the order of `new_ids`; empty if there is none."""
    new_tokens, recipes_of_tokens = {*pair.new_tokens}, shared_weights(pair)
    rules = [rule for rule in merge_rules(pair.target_tokenizer) if "".join(rule) in new_tokens]
    usable_rules: dict[str, list[tuple[str, str]]] = {}
    while rules:
        remaining = []
        for rule in rules:
            if all(part in recipes_of_tokens or part in usable_rules for part in rule):
                usable_rules.setdefault("".join(rule), []).append(rule)
            else:
                remaining.append(rule)
        if len(remaining) == len(rules):
            left, right = remaining[0]
            if left in new_tokens and right not in new_tokens:
                (pieces,) = tokenize_spelling(pair, [left])
                recipes_of_tokens[left] = piece_shares(pieces)
            break
        rules = remaining
    for token in sorted(usable_rules, key=len):  # both parts of a rule are shorter than its token
        recipes_of_tokens[token] = mean_of(
            [mean_of([recipes_of_tokens[part] for part in rule]) for rule in usable_rules[token]]
        )
    return [recipes_of_tokens.get(token, {}) for token in pair.new_tokens]
