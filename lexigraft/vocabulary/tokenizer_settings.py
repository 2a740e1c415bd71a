"""Special tokens and the tokens around each text, transferred from one tokenizer to another."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lexigraft.source.model import ROLES

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

_SETTINGS = (
    "model_max_length", "padding_side", "truncation_side", "model_input_names",
    "clean_up_tokenization_spaces", "split_special_tokens", "chat_template",
)  # fmt: skip


def settings_of(tokenizer: "PreTrainedTokenizerFast") -> dict[str, Any]:
    """The settings of a fast tokenizer besides its pipeline, as keywords of the generic class.

    Roles of special tokens, chat template, lengths and sides; unset ones are omitted.
    """
    settings = {name: getattr(tokenizer, name) for name in _SETTINGS}
    settings.update({role: tokenizer._special_tokens_map.get(role) for role in ROLES})
    settings["extra_special_tokens"] = list(tokenizer.extra_special_tokens)
    if named := tokenizer.init_kwargs.get("model_specific_special_tokens"):
        settings["model_specific_special_tokens"] = named
    return {name: value for name, value in settings.items() if value is not None}


def surrounding(tokenizer: "PreTrainedTokenizerFast") -> tuple[list[str], list[str]]:
    """The special tokens that a tokenizer adds before and after each text."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, mask = encoded["input_ids"], encoded["special_tokens_mask"]
    first = mask.index(0)
    last = len(mask) - mask[::-1].index(0)
    return (
        list(tokenizer.convert_ids_to_tokens(ids[:first])),
        list(tokenizer.convert_ids_to_tokens(ids[last:])),
    )


def joining(tokenizer: "PreTrainedTokenizerFast") -> tuple[list[str], int]:
    """The special tokens between the two texts of a pair, and the type id of the second text."""
    encoding = tokenizer("a", "a").encodings[0]
    second = encoding.sequence_ids.index(1)
    first_end = max(place for place, text in enumerate(encoding.sequence_ids) if text == 0)
    return list(encoding.tokens[first_end + 1 : second]), encoding.type_ids[second]


def surround(
    backend: "Tokenizer",
    before: Sequence[str],
    after: Sequence[str],
    byte_level: bool,
    joint: tuple[Sequence[str], int] | None = None,
) -> None:
    """Make a tokenizer add these tokens, and no others, before and after each text, in place.

    Tokens that it does not have are omitted.

    Parameters
    ----------
    joint
        The result of `joining`; without it, each text of a pair is treated as a single text.
    """
    from tokenizers import processors

    between, second = joint or ([*after, *before], 0)

    steps: list[Any] = [processors.ByteLevel(trim_offsets=False)] if byte_level else []
    ids = {token: backend.token_to_id(token) for token in (*before, *after, *between)}
    if ids := {token: number for token, number in ids.items() if number is not None}:
        first = [f"{token}:0" for token in before if token in ids]
        last = [token for token in after if token in ids]
        middle = [f"{token}:0" for token in between if token in ids]
        steps.append(
            processors.TemplateProcessing(
                single=[*first, "$A:0", *(f"{token}:0" for token in last)],
                pair=[
                    *(*first, "$A:0", *middle, f"$B:{second}"),
                    *(f"{token}:{second}" for token in last),
                ],
                special_tokens=list(ids.items()),
            )
        )
    # "None" can only be expressed as an empty sequence.
    backend.post_processor = steps[0] if len(steps) == 1 else processors.Sequence(steps)


def fast_tokenizer(backend: "Tokenizer", settings: Mapping[str, Any]) -> "PreTrainedTokenizerFast":
    """A fast tokenizer of the generic class for a pipeline.

    transformers 5 rebuilds the pipelines of other classes according to their names.
    """
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=backend, **settings)
