"""By how much two tokenizers differ in the length of the same texts, and on others like them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lexigraft.report.paired_tests import (
    PairedTest,
    correct_together,
    paired_test,
    resampled_scores,
)
from lexigraft.report.study import TokenCounts

if TYPE_CHECKING:
    import numpy as np

_ONLY = (0, 0)  # a tokenizer has no seeds and no runs


def length_changes(
    counts: Mapping[tuple[str, str], TokenCounts],
    languages: Iterable[str],
    pairs: Sequence[tuple[str, str]],
) -> dict[tuple[str, str, str], PairedTest]:
    """Test the tokens of one tokenizer over those of another, less one, on the same texts.

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
    found: dict[tuple[str, str, str], PairedTest] = {}
    for language in languages:
        for one, other in pairs:
            first, second = (counts.get((name, language)) for name in (one, other))
            if first and second and first.texts == second.texts > 1:
                found[language, one, other] = _change(language, first, second)
    return correct_together(found)


def _change(language: str, first: TokenCounts, second: TokenCounts) -> PairedTest:
    import numpy as np

    texts = [np.maximum(np.array(one.tokens, float), 1)[:, None] for one in (first, second)]
    systems = {place: ({_ONLY: own}, _logarithm) for place, own in enumerate(texts)}
    # The same texts of a language are drawn for all tokenizers.
    scores = resampled_scores(systems, len(first.tokens), language, "tokens")
    ours, theirs = ({_ONLY: _logarithm(own)} for own in texts)
    single = first.texts == len(first.tokens)
    return paired_test(
        scores[0],
        scores[1],
        (ours, theirs) if single else None,
        examples=first.texts,
        inverse=math.expm1,
    )


def _logarithm(totals: "np.ndarray") -> "np.ndarray":
    """Logarithm of the tokens: [..., 1] -> [...]."""
    import numpy as np

    return np.log(totals[..., 0])
