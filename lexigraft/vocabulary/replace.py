"""Use of another model's tokenizer: its tokens, with special tokens as the source uses them."""

from typing import TYPE_CHECKING

from lexigraft.errors import UserError
from lexigraft.source.model import ROLES
from lexigraft.vocabulary.token_bytes import spelling
from lexigraft.vocabulary.tokenizer_settings import (
    fast_tokenizer,
    joining,
    settings_of,
    surround,
    surrounding,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

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


def take_tokenizer(
    tokenizer: "PreTrainedTokenizerFast", source_tokenizer: "PreTrainedTokenizerFast"
) -> "PreTrainedTokenizerFast":
    """A copy of another model's tokenizer that adds special tokens as the source's tokenizer does.

    A causal model was trained with certain tokens at the beginning and end of texts, and generates
    from a text without an end token. The copy therefore adds the tokens with the roles of those
    that `source_tokenizer` adds, and no others: BERT's `[SEP]` no longer ends a prompt. An encoder
    was trained on masked and padded texts and on pairs of texts, and needs tokens for them.

    Parameters
    ----------
    tokenizer
        Of any family; its chat template belongs to another model and is dropped.
    source_tokenizer
        Tokenizer of the model that the copy is for. If it has tokens that begin and end a text, so
        has the copy: its own; those of encoders, `[CLS]` and `[SEP]`; or else the source's, added
        after its last id. If it has a mask token, it belongs to an encoder, and the same holds for
        all tokens that an encoder needs: `<s>` and `</s>` are used as `[CLS]` and `[SEP]`.

    Raises
    ------
    UserError
        The ids of `tokenizer` have a gap, which would be matrix rows without a token.
    """
    from tokenizers import AddedToken, Tokenizer

    _check_ids(tokenizer)
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    settings = settings_of(tokenizer)
    settings.pop("chat_template", None)
    roles = _SUBSTITUTES if source_tokenizer.mask_token is not None else _CAUSAL_ROLES
    for role in roles:
        wanted, substitute = source_tokenizer._special_tokens_map.get(role), _SUBSTITUTES[role]
        if wanted is None or role in settings:
            continue
        if substitute in settings:
            settings[role] = settings[substitute]
        else:
            backend.add_special_tokens([AddedToken(str(wanted), special=True, normalized=False)])
            settings[role] = str(wanted)
    by_source: dict[str, str] = {}
    for role in ROLES:
        token = source_tokenizer._special_tokens_map.get(role)
        if token is not None and role in settings:
            by_source.setdefault(str(token), str(settings[role]))
    between, second = joining(source_tokenizer)
    before, after, between = (
        [by_source.get(token, token) for token in tokens]
        for tokens in (*surrounding(source_tokenizer), between)
    )
    surround(backend, before, after, spelling(tokenizer) == "byte-level", (between, second))
    return fast_tokenizer(backend, settings)


def _check_ids(tokenizer: "PreTrainedTokenizerFast") -> None:
    ids = set(tokenizer.get_vocab().values())
    gap = next((number for number in range(len(ids)) if number not in ids), None)
    if gap is not None:
        raise UserError(
            f"tokenizer: no token has id {gap}, but ids go up to {max(ids)}; choose a tokenizer "
            "whose ids have no gap"
        )
