"""Tokenizers: expand, prune, train, read and save them."""

# `token_bytes` is not here: a package cannot export a function under the name of its own module.
from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "expand_tokenizer": "lexigraft.vocabulary.expand",
    "expanded_sizes": "lexigraft.vocabulary.expand",
    "new_token_ids": "lexigraft.vocabulary.expand",
    "prune_tokenizer": "lexigraft.vocabulary.prune",
    "train_tokenizer": "lexigraft.vocabulary.train",
    "take_tokenizer": "lexigraft.vocabulary.tokenizer_settings",
    "describe_vocabulary": "lexigraft.vocabulary.tokenizer_files",
    "Bpe": "lexigraft.vocabulary.bpe",
    "read_bpe": "lexigraft.vocabulary.bpe",
    "special_ids": "lexigraft.vocabulary.token_bytes",
    "save_tokenizer": "lexigraft.vocabulary.tokenizer_files",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES)
