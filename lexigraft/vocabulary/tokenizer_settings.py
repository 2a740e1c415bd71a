"""Transfer special tokens and the tokens around each text from one tokenizer to another."""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, processors
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.source.document_start import DOCUMENT_START, document_start, surrounding
from lexigraft.source.tokenizer import have_same_settings, settings_of, tokens_without_row
from lexigraft.vocabulary.token_bytes import spelling

# Settings that a tokenizer has because of its model.
_MODEL_SETTINGS = ("model_max_length", "padding_side", "truncation_side", "model_input_names")
# Tokens as chat templates write them; added tokens that are not plain text.
_TOKEN = re.compile(r"<\|[\w./-]+\|>")
_MARKER = re.compile(r"[<\[{|].*\w.*[>\]}|]")
# Roles that a source may use, and the role that replaces each if the tokenizer lacks it: in
# encoders [CLS] begins a text and [SEP] ends it.
_SUBSTITUTES = {
    "bos_token": "cls_token",
    "eos_token": "sep_token",
    "cls_token": "bos_token",
    "sep_token": "eos_token",
    "pad_token": None,
    "mask_token": None,
}
_CAUSAL_ROLES = ("bos_token", "eos_token")
# Roles of tokens around texts. SmolLM2's start is also its unknown token, and Qwen's its padding;
# those of another tokenizer begin no text.
_TEXT_ROLES = (*_CAUSAL_ROLES, "cls_token", "sep_token")


def take_tokenizer(
    tokenizer: PreTrainedTokenizerFast, source_tokenizer: PreTrainedTokenizerFast
) -> PreTrainedTokenizerFast:
    """A copy of another model's tokenizer that adds special tokens as the source's tokenizer does.

    The copy adds the tokens with the roles of those that `source_tokenizer` adds to texts, and no
    others: BERT's `[SEP]` no longer ends a prompt. A role that it lacks is filled by its `[CLS]` or
    `[SEP]` (in an encoder also by `<s>` and `</s>`), or else by the source's token after its last
    id; the same applies to the token that begins the source's texts and, for encoders, to mask and
    padding. Its chat template is dropped; the longest text, the side of padding and the inputs are
    those of the source. A UserError is raised if its ids have a gap.

    Examples
    --------
    Another model's tokenizer ends texts with a token; the source's tokenizer adds none:

    >>> import lexigraft
    >>> from lexigraft.vocabulary import take_tokenizer
    >>> from tokenizers.processors import TemplateProcessing
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> other = lexigraft.train_tokenizer(swahili, "byte-level-bpe", size=262)
    >>> end = "<|endoftext|>"
    >>> other.backend_tokenizer.post_processor = TemplateProcessing(
    ...     single=f"$A {end}", special_tokens=[(end, other.eos_token_id)]
    ... )
    >>> source = lexigraft.train_tokenizer(swahili, "sentencepiece-bpe", size=275)
    >>> target = take_tokenizer(other, source)
    >>> [tokenizer.decode(tokenizer("mto").input_ids) for tokenizer in (other, target)]
    ['mto<|endoftext|>', 'mto']
    """
    ids = set(tokenizer.get_vocab().values())
    missing_id = next((number for number in range(len(ids)) if number not in ids), None)
    if missing_id is not None:
        raise UserError(
            f"tokenizer: no token has id {missing_id}, but ids go up to {max(ids)}; choose a "
            "tokenizer whose ids have no gap"
        )
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    settings = settings_of(tokenizer)
    for name in ("chat_template", "chat_control_tokens", "response_template", DOCUMENT_START):
        settings.pop(name, None)
    settings |= {name: getattr(source_tokenizer, name) for name in _MODEL_SETTINGS}
    # Gemma and Command R have a mask token too, but no token ends their texts.
    is_encoder = source_tokenizer.mask_token is not None and bool(surrounding(source_tokenizer)[1])
    roles = _SUBSTITUTES if is_encoder else _CAUSAL_ROLES
    for role in roles:
        source_token = source_tokenizer._special_tokens_map.get(role)
        substitute = _SUBSTITUTES[role]
        if source_token is None or role in settings:
            continue
        if substitute in settings:
            settings[role] = settings[substitute]
        else:
            settings[role] = str(source_token)
            add_special(backend, settings[role])
    replacements: dict[str, str] = {}
    for role in _TEXT_ROLES:
        token = source_tokenizer._special_tokens_map.get(role)
        if token is not None and role in settings:
            replacements.setdefault(str(token), str(settings[role]))
    separators, second_type = pair_separators(source_tokenizer)
    before, after, separators = (
        [replacements.get(token, token) for token in tokens]
        for tokens in (*surrounding(source_tokenizer), separators)
    )
    needed_tokens = [*before, *after, *separators]
    if not before:
        start = document_start(source_tokenizer)
        if backend.token_to_id(start) is None:
            # Of several roles, that of the end counts: pretraining predicts the token.
            ends = start == source_tokenizer.eos_token
            start = str(settings["eos_token"]) if ends else replacements.get(start, start)
        settings[DOCUMENT_START] = start
        needed_tokens.append(start)
    for token in needed_tokens:
        if token and backend.token_to_id(token) is None:
            add_special(backend, token)
    set_surrounding(
        backend, before, after, spelling(tokenizer) == "byte-level", (separators, second_type)
    )
    return fast_tokenizer(backend, settings)


def tokenizer_of_rows(
    tokenizer: PreTrainedTokenizerFast, rows: int, where: str
) -> PreTrainedTokenizerFast:
    """A model's tokenizer without the tokens that have no row in its matrix of `rows` rows."""
    removed = tokens_without_row(tokenizer, rows, where)
    if not removed:
        return tokenizer
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocab, added = state["model"]["vocab"], state["added_tokens"]
    if isinstance(vocab, dict):
        state["model"]["vocab"] = {token: i for token, i in vocab.items() if token not in removed}
    else:  # Unigram: ids are positions, and the removed tokens are the last ones
        state["model"]["vocab"] = [entry for entry in vocab if entry[0] not in removed]
    state["added_tokens"] = [token for token in added if token["content"] not in removed]
    settings = settings_of(tokenizer)
    # Tokens named here would be added again.
    settings["extra_special_tokens"] = [
        token for token in settings["extra_special_tokens"] if str(token) not in removed
    ]
    if settings.get(DOCUMENT_START) in removed:
        del settings[DOCUMENT_START]
    model_tokens = settings.pop("model_specific_special_tokens", {})
    if model_tokens := {
        name: token for name, token in model_tokens.items() if str(token) not in removed
    }:
        settings["model_specific_special_tokens"] = model_tokens
    return fast_tokenizer(state, settings)


def missing_template_tokens(
    tokenizer: PreTrainedTokenizerFast, source_tokenizer: PreTrainedTokenizerFast
) -> list[str]:
    """Added tokens of the source and `<|…|>` in the chat template that are not tokens of the
    tokenizer.
    """
    templates = tokenizer.chat_template or ""
    text = templates if isinstance(templates, str) else "\n".join(templates.values())
    added = (token.content for token in source_tokenizer.added_tokens_decoder.values())
    added_in_template = [token for token in added if _MARKER.search(token) and token in text]
    vocabulary = tokenizer.get_vocab()
    return [
        token
        for token in dict.fromkeys([*added_in_template, *_TOKEN.findall(text)])
        if token not in vocabulary
    ]


def treats_texts_alike(tokenizer: PreTrainedTokenizerFast, other: PreTrainedTokenizerFast) -> bool:
    """Whether two tokenizers have the same settings and add the same tokens around texts."""
    return (
        have_same_settings(tokenizer, other)
        and surrounding(tokenizer) == surrounding(other)
        and pair_separators(tokenizer) == pair_separators(other)
    )


def pair_separators(tokenizer: PreTrainedTokenizerFast) -> tuple[list[str], int]:
    """The special tokens between the two texts of a pair, and the type id of the second text."""
    encoding = tokenizer("a", "a").encodings[0]
    text_of_token = encoding.sequence_ids
    start, end = len(text_of_token) - text_of_token[::-1].index(0), text_of_token.index(1)
    return list(encoding.tokens[start:end]), encoding.type_ids[end]


def set_surrounding(
    backend: Tokenizer,
    before: Sequence[str],
    after: Sequence[str],
    byte_level: bool,
    pair_format: tuple[Sequence[str], int] | None = None,
) -> None:
    """Make a tokenizer add these tokens, and no others, before and after each text, in place.

    Tokens that it does not have are omitted. `pair_format` is the result of `pair_separators`;
    without it, each text of a pair is treated as a single text.
    """
    separators, second_type = pair_format or ([*after, *before], 0)
    steps: list[Any] = [processors.ByteLevel(trim_offsets=False)] if byte_level else []
    ids = {token: backend.token_to_id(token) for token in (*before, *after, *separators)}
    if ids := {token: number for token, number in ids.items() if number is not None}:
        first, between_texts, last = (
            [f"{token}:{type_id}" for token in tokens if token in ids]
            for tokens, type_id in ((before, 0), (separators, 0), (after, second_type))
        )
        steps.append(
            processors.TemplateProcessing(
                single=[*first, "$A:0", *(f"{token}:0" for token in after if token in ids)],
                pair=[*first, "$A:0", *between_texts, f"$B:{second_type}", *last],
                special_tokens=list(ids.items()),
            )
        )
    # "None" can only be expressed as an empty sequence.
    backend.post_processor = steps[0] if len(steps) == 1 else processors.Sequence(steps)


def fast_tokenizer(
    pipeline: Tokenizer | Mapping[str, Any], settings: Mapping[str, Any]
) -> PreTrainedTokenizerFast:
    """Create a generic fast tokenizer from a pipeline or the content of `tokenizer.json`."""
    if not isinstance(pipeline, Mapping):
        return PreTrainedTokenizerFast(tokenizer_object=pipeline, **settings)
    # transformers copies a pipeline, which takes seconds for large vocabularies, but not one that
    # it reads itself.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokenizer.json")
        file.write_text(json.dumps(pipeline), encoding="utf-8")
        return PreTrainedTokenizerFast(tokenizer_file=str(file), **settings)


def add_special(backend: Tokenizer, token: str) -> None:
    """Add a special token to a pipeline, in place."""
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False)])
