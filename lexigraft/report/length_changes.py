"""By how much two tokenizers differ in the length of the same texts, and on others like them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lexigraft.randomness import generator
from lexigraft.report.bootstrap import compare, corrected, draws, effect_size, run_scores
from lexigraft.report.significance import RESAMPLES, Starred
from lexigraft.report.study import TokenCounts

if TYPE_CHECKING:
    import numpy as np

_ONLY = (0, 0)  # a tokenizer has no seeds and no runs


@dataclass(frozen=True)
class Change(Starred):
    """The tokens of one tokenizer over those of another, less one.

    Attributes
    ----------
    value, low, high
        The change, and the ends of its 95 % interval.
    p, corrected
        Of no difference, and corrected for all changes that were tested together.
    effect
        Cohen's d over texts, of the logarithm of their change; missing of groups of texts.
    texts
        How many there are.
    """

    value: float
    low: float
    high: float
    p: float
    corrected: float
    effect: float
    texts: int

    def numbers(self) -> dict[str, float | int]:
        """What a CSV file has of it beside its value."""
        return {
            "change_low": self.low,
            "change_high": self.high,
            "p": self.p,
            "p_corrected": self.corrected,
            "effect_size": self.effect,
            "tested_examples": self.texts,
        }


def length_changes(
    counts: Mapping[tuple[str, str], TokenCounts],
    languages: Iterable[str],
    pairs: Sequence[tuple[str, str]],
) -> dict[tuple[str, str, str], Change]:
    """Compare tokenizers by a paired bootstrap over texts: the same ones are drawn for both.

    Logarithms are compared, so that half as long is as far as twice as long.

    Parameters
    ----------
    counts
        `(tokenizer, language)` -> the tokens of each text.
    pairs
        Tokenizers, each with the one that it is compared with.

    Returns
    -------
    dict
        `(language, tokenizer, other)` -> their change, where both were measured on as many texts.
    """
    found: dict[tuple[str, str, str], Change] = {}
    for language in languages:
        for one, other in pairs:
            first, second = (counts.get((name, language)) for name in (one, other))
            if first and second and first.texts == second.texts > 1:
                found[language, one, other] = _change(language, first, second)
    ps = corrected([change.p for change in found.values()])
    return {
        key: replace(change, corrected=p)
        for (key, change), p in zip(found.items(), ps, strict=True)
    }


def _change(language: str, first: TokenCounts, second: TokenCounts) -> Change:
    import numpy as np

    systems = [np.maximum(np.array(one.tokens, float), 1)[:, None] for one in (first, second)]
    parts: list[list[np.ndarray]] = [[], []]
    # The texts of a language are drawn alike for all that are compared in it.
    rng = generator("report", "bootstrap", language, "tokens")
    for drawn in draws(len(first.tokens), RESAMPLES, rng):
        for part, system in zip(parts, systems, strict=True):
            part.append(run_scores({_ONLY: system}, drawn, _logarithm)[_ONLY])
    alone = first.texts == len(first.tokens)
    ours, theirs = ({_ONLY: np.concatenate(part)} for part in parts)
    difference = compare(ours, theirs)
    return Change(
        math.expm1(difference.value),
        math.expm1(difference.low),
        math.expm1(difference.high),
        difference.p,
        math.nan,
        effect_size(*({_ONLY: _logarithm(one)} for one in systems)) if alone else math.nan,
        first.texts,
    )


def _logarithm(totals: "np.ndarray") -> "np.ndarray":
    """Logarithm of the tokens: [..., 1] -> [...]."""
    import numpy as np

    return np.log(totals[..., 0])
