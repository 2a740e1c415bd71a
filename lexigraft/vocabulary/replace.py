"""Takes a model's own tokenizer for another model: its tokens stay, its special tokens follow."""

from typing import TYPE_CHECKING

from lexigraft.errors import UserError
from lexigraft.vocabulary.special_tokens import (
    ROLES,
    fast,
    joining,
    settings_of,
    surround,
    surrounding,
)
from lexigraft.vocabulary.token_bytes import spelling

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Roles that a source gives to its texts, and the role that serves each where a tokenizer lacks it:
# in encoders [CLS] begins a text and [SEP] ends it.
_STAND_INS = {
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
    """A copy of another model's tokenizer that treats texts as the source's tokenizer does.

    A causal model was trained to begin a text, and to end it, with certain tokens, and generates
    from a text that nothing ends. So the tokens that `source_tokenizer` puts before and after a
    text are put there, by their roles, and no others: BERT's `[SEP]` no longer ends a prompt. An
    encoder was trained on masked and padded texts, and on pairs of them, and needs tokens for that.

    Parameters
    ----------
    tokenizer
        Of any family; its chat template, which is another model's, is left out.
    source_tokenizer
        Tokenizer of the model that the copy is for. Where it has tokens that begin and end a text,
        so has the copy: its own; in encoders `[CLS]` and `[SEP]`; else the source's, added behind
        its last id. Where it has a mask token, which makes it an encoder's, the same holds for
        all tokens that an encoder needs: `<s>` and `</s>` serve as `[CLS]` and `[SEP]`.

    Raises
    ------
    UserError
        The ids of `tokenizer` leave a gap, which a matrix would fill with rows of no token.
    """
    from tokenizers import AddedToken, Tokenizer

    _check_ids(tokenizer)
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    settings = settings_of(tokenizer)
    settings.pop("chat_template", None)
    roles = _STAND_INS if source_tokenizer.mask_token is not None else _CAUSAL_ROLES
    for role in roles:
        wanted, stand_in = source_tokenizer._special_tokens_map.get(role), _STAND_INS[role]
        if wanted is None or role in settings:
            continue
        if stand_in in settings:
            settings[role] = settings[stand_in]
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
    return fast(backend, settings)


def _check_ids(tokenizer: "PreTrainedTokenizerFast") -> None:
    ids = set(tokenizer.get_vocab().values())
    gap = next((number for number in range(len(ids)) if number not in ids), None)
    if gap is not None:
        raise UserError(
            f"tokenizer: no token has id {gap}, but ids go up to {max(ids)}; choose a tokenizer "
            "whose ids leave no gap"
        )
