"""Description of a vocabulary for `vocabulary.json`: sizes and new tokens."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lexigraft.source.model import family_of
from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.expand import new_token_ids
from lexigraft.vocabulary.reachability import unreachable_by_merges
from lexigraft.vocabulary.token_bytes import token_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def describe_expansion(
    source_tokenizer: "PreTrainedTokenizerFast",
    target_tokenizer: "PreTrainedTokenizerFast",
    merges: str,
) -> dict[str, Any]:
    """Describe an expansion: the sizes before and after, and the new tokens.

    Returns
    -------
    dict
        `mode` ("expand"), `family`, `merges`, `source_size`, `size`, `new_merges` (number of added
        merges), `unreachable` (number of new tokens that no text produces), and `new_tokens`: for
        each its `id`, its spelling in the vocabulary as `token`, and its `text`, with bytes of
        incomplete characters as \\xNN.
    """
    source, target = read_bpe(source_tokenizer), read_bpe(target_tokenizer)
    new = new_token_ids(source_tokenizer, target_tokenizer)
    tokens = _described(target_tokenizer, new)
    return {
        "mode": "expand",
        "family": target.family,
        "merges": merges,
        "source_size": len(source.vocab),
        "size": len(target.vocab),
        "new_merges": len(target.merges) - len(source.merges),
        "unreachable": len(unreachable_by_merges(target, [token["token"] for token in tokens])),
        "new_tokens": tokens,
    }


def describe_replacement(
    source_tokenizer: "PreTrainedTokenizerFast",
    target_tokenizer: "PreTrainedTokenizerFast",
    new_ids: Sequence[int],
) -> dict[str, Any]:
    """Describe a replacement: the sizes of both vocabularies, and the tokens the source lacks.

    Parameters
    ----------
    new_ids
        Ids of the target's tokens without a corresponding source token.

    Returns
    -------
    dict
        `mode` ("replace"), `family`, `source_size`, `size`, `shared` (number of tokens that copy a
        source token), and `new_tokens` as in `describe_expansion`.
    """
    size = len(target_tokenizer.get_vocab())
    return {
        "mode": "replace",
        "family": family_of(json.loads(target_tokenizer.backend_tokenizer.to_str())),
        "source_size": len(source_tokenizer.get_vocab()),
        "size": size,
        "shared": size - len(new_ids),
        "new_tokens": _described(target_tokenizer, new_ids),
    }


def _described(tokenizer: "PreTrainedTokenizerFast", ids: Sequence[int]) -> list[dict[str, Any]]:
    data = token_bytes(tokenizer)
    return [
        {
            "id": number,
            "token": token,
            "text": data[number].decode("utf-8", errors="backslashreplace"),
        }
        for number, token in zip(ids, tokenizer.convert_ids_to_tokens(list(ids)), strict=True)
    ]


def fertility(tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str]) -> float:
    """Tokens per space-separated word, which is high for scripts without spaces."""
    encodings = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return sum(map(len, encodings)) / max(sum(len(text.split()) for text in texts), 1)
