"""A few new tokens and what each is made of, for reports."""

from typing import Any

from lexigraft.initialization.explanation import readable
from lexigraft.initialization.interface import Initializer
from lexigraft.vocabulary.token_bytes import special_ids

_COUNT = 12
_PARTS = 12


def examples(fitted: Initializer) -> list[dict[str, Any]]:
    """Up to a dozen new tokens, half of them spread over frequency, half over length.

    Ids of new tokens are in the order in which the vocabulary was built, most frequent first.
    Special tokens are no examples: they stand for no text.

    Returns
    -------
    list of dict
        `token` (vocabulary string), `text`, `parts` (text and weight of the heaviest dozen source
        tokens; none where the row was drawn), `more` (how many further parts there are).
    """
    pair = fitted.pair_
    special = special_ids(pair.target_tokenizer)
    by_rank = [token_id for token_id in pair.new_ids.tolist() if token_id not in special]
    by_length = sorted(by_rank, key=lambda i: (len(pair.target_bytes[i]), i))
    chosen = dict.fromkeys(_spread(by_rank, _COUNT // 2) + _spread(by_length, _COUNT // 2))
    shown = []
    for token_id in sorted(chosen):
        parts = fitted.parts(token_id)
        shown.append(
            {
                "token": pair.target_tokenizer.convert_ids_to_tokens(token_id),
                "text": readable(pair.target_bytes[token_id]),
                "parts": [list(part) for part in parts[:_PARTS]],
                "more": max(0, len(parts) - _PARTS),
            }
        )
    return shown


def _spread(ids: list[int], count: int) -> list[int]:
    """`count` of the ids at even distances, the first and the last among them."""
    if len(ids) <= count:
        return ids
    return [ids[round(i * (len(ids) - 1) / (count - 1))] for i in range(count)]
