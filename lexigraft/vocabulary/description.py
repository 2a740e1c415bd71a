"""Which tokens of a vocabulary are new, as the plain data of `vocabulary.json`."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lexigraft.source.description import family_of
from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.expand import new_token_ids, unreachable
from lexigraft.vocabulary.token_bytes import token_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def describe_expansion(
    source_tokenizer: "PreTrainedTokenizerFast",
    target_tokenizer: "PreTrainedTokenizerFast",
    merges: str,
) -> dict[str, Any]:
    """List the new tokens and the sizes before and after.

    Returns
    -------
    dict
        `mode` ("expand"), `family`, `merges`, `source_size`, `size`, `new_merges` (how many merges
        were added), `unreachable` (how many new tokens no text can produce), and `new_tokens`: for
        each its `id`, its spelling in the vocabulary as `token`, and the `text` that it stands for,
        with bytes that are no whole character as \\xNN.
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
        "unreachable": len(unreachable(target, [token["token"] for token in tokens])),
        "new_tokens": tokens,
    }


def describe_replacement(
    source_tokenizer: "PreTrainedTokenizerFast",
    target_tokenizer: "PreTrainedTokenizerFast",
    new_ids: Sequence[int],
) -> dict[str, Any]:
    """List the tokens of a vocabulary that replaces the source's and that the source lacks.

    Parameters
    ----------
    new_ids
        Ids of the target's tokens that no source token stands for.

    Returns
    -------
    dict
        `mode` ("replace"), `family`, `source_size`, `size`, `shared` (how many tokens copy a source
        token), and `new_tokens` as in `describe_expansion`.
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
    """Tokens per word between spaces; scripts without spaces have few of those, and high values."""
    encodings = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return sum(map(len, encodings)) / max(sum(len(text.split()) for text in texts), 1)
