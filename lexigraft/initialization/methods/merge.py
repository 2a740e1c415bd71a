"""Merge: a new token is the hierarchical mean along its merge rules."""

import json

import numpy as np
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.initialization.decomposition import NewRows, decompose, piece_shares, weighted_rows
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair

Weights = dict[int, float]  # source id -> weight, summing to one; or empty


class Merge(RecipeInitializer):
    """The mean of both parts of the token's merge rule, recursively [1]_.

    A token with the rules a + (b + c) is ½a + ¼b + ¼c. A token with several rules is the mean over
    them. The recursion ends at shared tokens. A new single character is the mean of its source
    pieces. A part without source pieces is left out; a longer token without a rule falls back.
    Targets other than BPE have no merge rules and raise an error.

    References
    ----------
    .. [1] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 4.3 and Algorithm 1.
    """

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        rules: dict[str, list[tuple[str, str]]] = {}
        for left, right in merge_rules(pair.target_tokenizer):
            rules.setdefault(left + right, []).append((left, right))
        # Extended below by new tokens; empty without source pieces.
        recipes_of_tokens = shared_weights(pair)
        new_tokens = zip(pair.new_tokens, pair.new_ids.tolist(), strict=True)
        tokens_without_rule = {
            token: token_id for token, token_id in new_tokens if token not in rules
        }
        for token, pieces in zip(
            tokens_without_rule, decompose(pair, list(tokens_without_rule.values())), strict=True
        ):
            recipes_of_tokens[token] = piece_shares(pieces)
        # Both parts of a rule are shorter than its token, so shorter tokens come first.
        for token in sorted(pair.new_tokens, key=len):
            if token in rules:
                derivations = [
                    mean_of([recipes_of_tokens[part] for part in rule]) for rule in rules[token]
                ]
                recipes_of_tokens[token] = mean_of(derivations)
        recipes = [recipes_of_tokens[token] or {pair.n_source: 1.0} for token in pair.new_tokens]
        fallback = [
            not recipes_of_tokens[token] or (token not in rules and len(token) > 1)
            for token in pair.new_tokens
        ]
        return weighted_rows(recipes, pair.n_source), np.array(fallback, dtype=bool)


def shared_weights(pair: VocabularyPair) -> dict[str, Weights]:
    """The recipes of the tokens that copy a source row, by their vocabulary strings."""
    return {
        token: {int(pair.source_of[i]): 1.0}
        for token, i in pair.target_tokenizer.get_vocab().items()
        if pair.source_of[i] >= 0
    }


def mean_of(parts: list[Weights]) -> Weights:
    """The mean of several recipes, ignoring empty ones."""
    nonempty = [part for part in parts if part]
    mean: Weights = {}
    for part in nonempty:
        for source_id, weight in part.items():
            mean[source_id] = mean.get(source_id, 0.0) + weight / len(nonempty)
    return mean


def merge_rules(tokenizer: PreTrainedTokenizerFast) -> list[tuple[str, str]]:
    """The two parts of each merge rule, in order; a `UserError` for a tokenizer that is not BPE."""
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    if model["type"] != "BPE":
        raise UserError(
            f"initializer 'merge': a {model['type']} vocabulary has no merge rules; choose BPE, or "
            "another initializer such as mean"
        )
    return [(left, right) for left, right in model["merges"]]
