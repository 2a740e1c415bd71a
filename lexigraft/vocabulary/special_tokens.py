"""Special tokens and what a text is led and ended by: carried from one tokenizer to another."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

ROLES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
_SETTINGS = (
    "model_max_length", "padding_side", "truncation_side", "model_input_names",
    "clean_up_tokenization_spaces", "split_special_tokens", "chat_template",
)  # fmt: skip


def settings_of(tokenizer: "PreTrainedTokenizerFast") -> dict[str, Any]:
    """What a fast tokenizer holds beside its pipeline, as keywords of the generic class.

    Roles of special tokens, chat template, lengths and sides; what is unset is left out.
    """
    settings = {name: getattr(tokenizer, name) for name in _SETTINGS}
    settings.update({role: tokenizer._special_tokens_map.get(role) for role in ROLES})
    settings["extra_special_tokens"] = list(tokenizer.extra_special_tokens)
    if named := tokenizer.init_kwargs.get("model_specific_special_tokens"):
        settings["model_specific_special_tokens"] = named
    return {name: value for name, value in settings.items() if value is not None}


def surrounding(tokenizer: "PreTrainedTokenizerFast") -> tuple[list[str], list[str]]:
    """The special tokens that a tokenizer puts before and after each text."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, mask = encoded["input_ids"], encoded["special_tokens_mask"]
    first = mask.index(0)
    last = len(mask) - mask[::-1].index(0)
    return (
        list(tokenizer.convert_ids_to_tokens(ids[:first])),
        list(tokenizer.convert_ids_to_tokens(ids[last:])),
    )


def surround(
    backend: "Tokenizer", before: Sequence[str], after: Sequence[str], byte_level: bool
) -> None:
    """Let a tokenizer put these tokens, and no others, before and after each text, in place.

    A token that it does not have is left out.
    """
    from tokenizers import processors

    steps: list[Any] = [processors.ByteLevel(trim_offsets=False)] if byte_level else []
    ids = {token: backend.token_to_id(token) for token in (*before, *after)}
    if ids := {token: number for token, number in ids.items() if number is not None}:
        first = [f"{token}:0" for token in before if token in ids]
        last = [f"{token}:0" for token in after if token in ids]
        steps.append(
            processors.TemplateProcessing(
                single=[*first, "$A:0", *last],
                pair=[*first, "$A:0", *last, *first, "$B:0", *last],
                special_tokens=list(ids.items()),
            )
        )
    # There is no way to say "none" but an empty sequence.
    backend.post_processor = steps[0] if len(steps) == 1 else processors.Sequence(steps)


def fast(backend: "Tokenizer", settings: Mapping[str, Any]) -> "PreTrainedTokenizerFast":
    """A fast tokenizer of the generic class around a pipeline.

    transformers 5 rebuilds the pipelines of the other classes from their names.
    """
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=backend, **settings)
