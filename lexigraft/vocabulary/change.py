"""Expand the source's tokenizer with tokens of a language, prune unused tokens, or both."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.vocabulary.expand import expand_tokenizer, new_token_ids
from lexigraft.vocabulary.prune import prune_tokenizer
from lexigraft.vocabulary.tokenizer_files import describe_vocabulary

# Settings that are not options of `expand_tokenizer`.
_OTHER_SETTINGS = ("mode", "text", "prune", "prune_english", "prune_at_most")


def change_tokenizer(
    source: PreTrainedTokenizerFast,
    lines: Sequence[str],
    settings: Mapping[str, Any],
    english: Sequence[str] = (),
) -> tuple[PreTrainedTokenizerFast, dict[str, Any]]:
    """Change a tokenizer as an entry of vocabularies.yaml says; also returns its description.

    `settings` are the entry's: `mode` (`expand` or `prune`) and options of `expand_tokenizer`. With
    `prune`, tokens that `lines` do not use are then removed, except those just added: at most
    `prune_at_most`, by default as many as were added. `prune_english` (default true) also keeps
    tokens that `english` uses; a UserError is raised if it is empty.
    """
    tokenizer, new_ids, description = source, [], None
    if settings["mode"] == "expand":
        options = {name: value for name, value in settings.items() if name not in _OTHER_SETTINGS}
        tokenizer = expand_tokenizer(source, lines, english=english, **options)
        new_ids = new_token_ids(source, tokenizer)
        description = describe_vocabulary("expand", source, tokenizer, new_ids, options["merges"])
    if "prune" in settings:
        keeps_english = settings.get("prune_english", True)
        if keeps_english and not english:
            raise UserError(
                "prune_english: there are no English sentences whose tokens could be kept; give "
                "the language an `english` text, or set prune_english: false"
            )
        used = chain(lines, english if keeps_english else ())
        at_most = settings.get("prune_at_most", settings.get("new_tokens"))
        tokenizer = prune_tokenizer(tokenizer, used, at_most=at_most, keep=new_ids)
        description = description or describe_vocabulary("prune", source, tokenizer)
        vocab = tokenizer.get_vocab()
        new_tokens = [token | {"id": vocab[token["token"]]} for token in description["new_tokens"]]
        rows_saved = description["source_size"] + len(new_tokens) - len(vocab)
        description |= {"size": len(vocab), "rows_saved": rows_saved, "new_tokens": new_tokens}
    assert description is not None  # the entry's model requires one of the two
    return tokenizer, description
