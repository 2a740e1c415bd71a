"""Source models: download, conversion, checks, loading."""

from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "SourceModel": "lexigraft.source.model",
    "check_source": "lexigraft.source.preparation",
    "gguf_to_folder": "lexigraft.source.gguf",
    "load_model": "lexigraft.source.model",
    "load_tokenizer": "lexigraft.source.tokenizer",
    "open_source": "lexigraft.source.model",
    "read_matrices": "lexigraft.source.matrices",
    "resolve": "lexigraft.source.hub",
    "sentencepiece_to_fast": "lexigraft.source.sentencepiece",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES)
