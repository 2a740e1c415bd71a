"""The chat template of a cell: its text and special tokens must be those of the source."""

from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import tokenize

DIALOGUE = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello! How can I help?"},
    {"role": "user", "content": "1 + 1"},
]


def check_chat_template(
    tokenizer: PreTrainedTokenizerFast, source_tokenizer: PreTrainedTokenizerFast
) -> None:
    """Check that a dialogue has the same text and special tokens with both chat templates.

    Raises `UserError` if a template is missing, or the text or its added tokens, in bytes and in
    order, differ: the model would not recognize the turns that it was trained on.
    """
    if tokenizer.chat_template is None:
        raise UserError(
            "chat: the tokenizer has no chat template; set chat of the task to false in "
            "config/tasks.yaml, or choose a chat model"
        )
    texts = []
    special_tokens = []
    added = {token.content for token in source_tokenizer.added_tokens_decoder.values()}
    for each in (tokenizer, source_tokenizer):
        text = each.apply_chat_template(DIALOGUE, tokenize=False, add_generation_prompt=True)
        [ids] = tokenize(each, [text])
        tokens = each.convert_ids_to_tokens(ids)
        texts.append(text)
        special_tokens.append([token for token in tokens if token in added])
    if texts[0] != texts[1]:
        raise UserError(
            f"chat: the template writes {texts[0]!r}, but that of the source {texts[1]!r}; use the "
            "chat template of the source"
        )
    if special_tokens[0] != special_tokens[1]:
        raise UserError(
            f"chat: the special tokens of a dialogue are {special_tokens[0]}, but those of the "
            f"source {special_tokens[1]}; keep these tokens in the vocabulary"
        )
