"""Heuristics: each new row from the source rows of its script and place in a word.

Downey, Blevins, Goldfine and Steinert-Threlkeld 2023, "Embedding Structure Matters".
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.interface import DrawnRows
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.moments import deviation_of, mean_of
from lexigraft.vocabulary.token_bytes import is_fallback

# Rows that a mean and a deviation are taken of, at least.
_FEWEST = 2


class Heuristics(DrawnRows):
    """N(mean, std) of the source tokens that share the token's script and place, by dimension.

    The script is that of most of the token's letters, by their Unicode names; tokens without a
    letter (digits, punctuation, single bytes) are a script of their own. The place is the
    beginning of a word or its inside, by the leading space.

    A new token whose script and place have fewer than two source tokens goes by its script alone;
    one whose script has fewer falls back to all source tokens. Special tokens take no part, and
    fall back.

    Attributes
    ----------
    groups_ : int
        Groups of source tokens that rows are drawn from.
    """

    groups_: int

    @property
    def distribution(self) -> str:
        """What the rows are drawn from, in words."""
        return "N(mean, std) of the source rows of its script and place in a word"

    def statistics(self) -> dict[str, Any]:
        """The number of new tokens, of groups, and the share of tokens that fell back."""
        return {**super().statistics(), "groups": self.groups_}

    def _fit(self, corpus: Iterable[str] | None, auxiliary: Roles) -> None:
        pair = self.pair_
        spelled = pair.source_tokenizer.get_vocab().items()
        bytes_alone = {i for token, i in spelled if is_fallback(token, pair.source_spelling)}
        members: dict[tuple[str, ...], list[int]] = {}
        for source_id in np.setdiff1d(pair.source_ids, list(pair.source_special_ids)).tolist():
            data = b"" if source_id in bytes_alone else pair.source_bytes[source_id]
            script, place = _script_and_place(data)
            members.setdefault((script, place), []).append(source_id)
            members.setdefault((script,), []).append(source_id)
        self._chosen: dict[tuple[str, ...], list[int]] = {}
        for at, token_id in enumerate(pair.new_ids.tolist()):
            group: tuple[str, ...] = ()
            if token_id not in pair.target_special_ids:
                group = _script_and_place(pair.target_bytes[token_id])
                while group and len(members.get(group, [])) < _FEWEST:
                    group = group[:-1]
            self._chosen.setdefault(group, []).append(at)
        self._members = {
            group: np.array(members[group]) if group else pair.source_ids for group in self._chosen
        }
        self.groups_ = len(self._chosen)
        self.fallbacks_ = [pair.new_tokens[at] for at in self._chosen.get((), [])]

    def _draw(self, matrix: Matrix, draws: np.random.Generator) -> np.ndarray:
        rows = draws.standard_normal((len(self.pair_.new_ids), matrix.shape[1]))
        for group, at in self._chosen.items():
            ids = self._members[group]
            rows[at] = mean_of(matrix, ids) + rows[at] * deviation_of(matrix, ids)
        return rows


def _script_and_place(data: bytes) -> tuple[str, str]:
    """E.g. ("TELUGU", "inside"); the first word of a letter's name is its script."""
    text = data.decode("utf-8", errors="ignore")
    names = (
        unicodedata.name(letter, "") for letter in text if unicodedata.category(letter)[0] in "LM"
    )
    scripts = Counter(name.partition(" ")[0] for name in names if name)
    script = scripts.most_common(1)[0][0] if scripts else ""
    return script, "beginning" if data.startswith(b" ") else "inside"
