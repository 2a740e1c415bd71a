"""Merge: a new token is the hierarchical mean along its merge rules.

Paper 000, section 4.3 and Algorithm 1.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.decomposition import decompose, weighted_rows
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Weights = dict[int, float]  # source id -> weight, summing to one; or empty


class Merge(RecipeInitializer):
    """Half of the left part and half of the right part of the token's merge rule, and so on down.

    A token with the rules a + (b + c) is ½a + ¼b + ¼c. Where several rules lead to a token, it is
    the mean of them. The way down ends at tokens that the source shares. A new single character has
    no rule: it is the mean of its bytes, or of what the source's model makes of it. A part of which
    the source knows no piece is left out.

    A longer token without a rule falls back to the mean of its source pieces, and a token of which
    the source knows no piece to the mean of all source tokens. A target that is no BPE (Unigram,
    WordPiece) has no rules at all, and is refused.
    """

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        rules = _rules(pair.target_tokenizer)
        numbers = pair.target_tokenizer.get_vocab()
        new = list(zip(pair.new_ids.tolist(), pair.new_tokens, strict=True))
        bare = [token_id for token_id, token in new if token not in rules]
        without_rule = dict(zip(bare, decompose(pair, bare), strict=True))
        known: dict[str, Weights] = {}  # empty where the source knows no piece
        covered = set()
        # Both parts of a rule are shorter than its token, so shorter tokens are always done first.
        for token_id, token in sorted(new, key=lambda one: len(one[1])):
            if token not in rules:
                pieces = without_rule[token_id]
                known[token] = {i: pieces.count(i) / len(pieces) for i in pieces}
                if pieces and len(token) == 1:
                    covered.add(token)
                continue
            derivations = []
            for rule in rules[token]:
                copied = [int(pair.source_of[numbers[part]]) for part in rule]
                parts = zip(rule, copied, strict=True)
                derivations.append(
                    _mean([{i: 1.0} if i >= 0 else known[part] for part, i in parts])
                )
            known[token] = _mean(derivations)
            if known[token]:
                covered.add(token)
        return (
            weighted_rows(
                [known[token] or {pair.n_source: 1.0} for token in pair.new_tokens], pair.n_source
            ),
            np.array([token not in covered for token in pair.new_tokens], dtype=bool),
        )


def _mean(parts: list[Weights]) -> Weights:
    """The mean of several recipes, of those of them that are not empty."""
    held = [part for part in parts if part]
    mean: Weights = {}
    for part in held:
        for source_id, weight in part.items():
            mean[source_id] = mean.get(source_id, 0.0) + weight / len(held)
    return mean


def _rules(tokenizer: "PreTrainedTokenizerFast") -> dict[str, list[tuple[str, str]]]:
    """Every rule that leads to a token, by the token."""
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    if model["type"] != "BPE":
        raise UserError(
            f"initializer 'merge': the target tokenizer is {model['type']}, which has no merge "
            "rules; choose a BPE vocabulary, or another initializer such as mean"
        )
    rules: dict[str, list[tuple[str, str]]] = {}
    for merge in model["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        rules.setdefault(left + right, []).append((left, right))
    return rules
