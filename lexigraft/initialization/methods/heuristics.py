"""Heuristics: new rows with the statistics of source rows of their script and position."""

import unicodedata
from collections import Counter

import numpy as np

from lexigraft.initialization.interface import Auxiliaries, Corpus, RandomInitializer
from lexigraft.initialization.matrix import Matrix, row_deviation, row_mean

_MINIMUM_GROUP = 2  # minimum number of source rows for a mean and a deviation


class Heuristics(RandomInitializer):
    """N(mean, std), per dimension, of source tokens of the token's script and position [1]_.

    The script is that of most of the token's letters, by their Unicode names; the position is the
    beginning or the inside of a word. A new token whose script and position have fewer than two
    source tokens uses its script alone; one whose script has fewer than two falls back to all
    source tokens, as special tokens do. `groups_` is the number of groups in use.

    References
    ----------
    .. [1] Downey, Blevins, Goldfine and Steinert-Threlkeld 2023, "Embedding Structure Matters:
       Comparing Methods to Adapt Multilingual Vocabularies to New Languages".
    """

    distribution = "N(mean, std) of the source rows of its script and position in a word"
    counted = ("groups",)

    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        pair = self.pair_
        ids_of_group: dict[tuple[str, ...], list[int]] = {}
        for source_id in np.setdiff1d(pair.source_ids, list(pair.source_special_ids)).tolist():
            data = b"" if source_id in pair.source_fallback_ids else pair.source_bytes[source_id]
            script, position = _script_and_position(data)
            ids_of_group.setdefault((script, position), []).append(source_id)
            ids_of_group.setdefault((script,), []).append(source_id)
        self._tokens_of_group: dict[tuple[str, ...], list[int]] = {}
        for index, token_id in enumerate(pair.new_ids.tolist()):
            group: tuple[str, ...] = ()
            if token_id not in pair.target_special_ids:
                group = _script_and_position(pair.target_bytes[token_id])
                while group and len(ids_of_group.get(group, [])) < _MINIMUM_GROUP:
                    group = group[:-1]
            self._tokens_of_group.setdefault(group, []).append(index)
        self._source_ids_of_group = {
            group: np.array(ids_of_group[group]) if group else pair.source_ids
            for group in self._tokens_of_group
        }
        self.groups_ = len(self._tokens_of_group)
        self.fallbacks_ = [pair.new_tokens[index] for index in self._tokens_of_group.get((), [])]

    def _shaped(self, matrix: Matrix, rows: np.ndarray) -> np.ndarray:
        for group, indices in self._tokens_of_group.items():
            ids = self._source_ids_of_group[group]
            mean = row_mean(matrix, ids)
            rows[indices] = mean + rows[indices] * row_deviation(matrix, ids, mean)
        return rows


def _script_and_position(data: bytes) -> tuple[str, str]:
    """Such as ("TELUGU", "inside"): the script is the first word of a letter's Unicode name."""
    letters = [c for c in data.decode("utf-8", "ignore") if unicodedata.category(c)[0] in "LM"]
    names = [unicodedata.name(letter, "") for letter in letters]
    scripts = Counter(name.partition(" ")[0] for name in names if name)
    script = scripts.most_common(1)[0][0] if scripts else ""
    return script, "beginning" if data.startswith(b" ") else "inside"
