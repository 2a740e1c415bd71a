"""The token that begins a text, which is a fact about how a model was pretrained.

Pretraining concatenates documents with a token between them. A model that reads a text after
another token, such as the `<|im_end|>` of a chat format, predicts it clearly worse.
"""

from typing import TYPE_CHECKING

from lexigraft.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Key of sources.yaml, source.json and tokenizer_config.json.
DOCUMENT_START = "document_start"
# Tokens that pretraining puts between documents: first those that end a document (GPT-2, Pythia,
# Qwen, SmolLM2, OLMo; Granite, SmolLM3; BLOOM; …), then those that begin one.
_SEPARATORS = (
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "<EOS_TOKEN>", "[EOS]",
    "<｜end▁of▁sentence｜>", "<seed:eos>", "<|begin_of_text|>", "<|startoftext|>", "<s>", "<bos>",
    "<|bos|>", "<BOS_TOKEN>", "[BOS]", "<｜begin▁of▁sentence｜>", "<seed:bos>",
)  # fmt: skip


def document_start(tokenizer: "PreTrainedTokenizerFast") -> str:
    """The token that begins a text, added by the tokenizer or by `start_ids`; empty without one."""
    added, _ = surrounding(tokenizer)
    return "".join(added) if added else _separator(tokenizer)


def start_ids(tokenizer: "PreTrainedTokenizerFast") -> list[int]:
    """The ids to put before the tokens of a text: none, or the one of its document separator.

    A tokenizer that begins a text with a special token (Llama's BOS) is used unchanged. Otherwise
    the token is the setting `document_start`, else the EOS token or the first known separator that
    the tokenizer has, else the EOS or BOS token (docs/methods.md). Without any of them, texts begin
    with their own first token, which is then not predicted.
    """
    if surrounding(tokenizer)[0] or not (token := _separator(tokenizer)):
        return []
    number = tokenizer.backend_tokenizer.token_to_id(token)
    if number is None:
        raise UserError(
            f"{tokenizer.name_or_path or 'tokenizer'}: document_start '{token}' in "
            "tokenizer_config.json is not a token of the tokenizer; correct or remove it"
        )
    return [number]


def set_document_start(tokenizer: "PreTrainedTokenizerFast", token: str, source: str) -> None:
    """Make a token begin texts, or none if it is empty; a UserError names the source.

    A tokenizer that itself begins a text with a special token keeps it.
    """
    added = "".join(surrounding(tokenizer)[0])
    if added and token != added:
        raise UserError(
            f"source {source}: document_start is '{token}', but the source's tokenizer itself "
            f"begins every text with '{added}'; remove document_start"
        )
    if token and not added and token not in tokenizer.get_vocab():
        raise UserError(
            f"source {source}: document_start '{token}' is not a token of its tokenizer; choose "
            f"from {', '.join(candidates(tokenizer)[:6]) or 'the tokens in its tokenizer.json'}"
        )
    tokenizer.init_kwargs[DOCUMENT_START] = token


def beginning_ids(tokenizer: "PreTrainedTokenizerFast") -> list[int]:
    """The ids before the tokens of a text, added by the tokenizer or by `start_ids`."""
    before, _ = surrounding(tokenizer)
    vocabulary = tokenizer.get_vocab()
    return [vocabulary[token] for token in before] or start_ids(tokenizer)


def surrounding(tokenizer: "PreTrainedTokenizerFast") -> tuple[list[str], list[str]]:
    """The special tokens that a tokenizer itself adds before and after each text."""
    encoding = tokenizer("a", return_special_tokens_mask=True).encodings[0]
    tokens, mask = list(encoding.tokens), encoding.special_tokens_mask
    # A tokenizer may drop the letter, which then leaves only special tokens.
    text = [position for position, special in enumerate(mask) if not special] or [len(tokens)]
    return tokens[: text[0]], tokens[text[-1] + 1 :]


def _separator(tokenizer: "PreTrainedTokenizerFast") -> str:
    """The token by the rule of `start_ids`, for a tokenizer that adds none; may be empty."""
    if (token := tokenizer.init_kwargs.get(DOCUMENT_START)) is not None:
        return str(token)
    roles, named = _roles_and_separators(tokenizer)
    return next(iter([*(role for role in roles[:1] if role in named), *named, *roles]), "")


def candidates(tokenizer: "PreTrainedTokenizerFast") -> list[str]:
    """Tokens that might begin texts: roles, separators, then other special tokens."""
    roles, named = _roles_and_separators(tokenizer)
    special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return list(dict.fromkeys([*roles, *named, *special]))


def _roles_and_separators(tokenizer: "PreTrainedTokenizerFast") -> tuple[list[str], list[str]]:
    """EOS and BOS, and the tokens with the name of a document separator, likely ones first."""
    roles = [str(role) for role in (tokenizer.eos_token, tokenizer.bos_token) if role is not None]
    added = {token.content for token in tokenizer.added_tokens_decoder.values()}
    return roles, [token for token in _SEPARATORS if token in added]
