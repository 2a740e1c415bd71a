"""Text: read from files and packages, cleaned, and split into training text and tests."""

from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "CleaningCounts": "lexigraft.corpus.cleaning",
    "clean": "lexigraft.corpus.cleaning",
    "Sizes": "lexigraft.corpus.split",
    "mix_corpora": "lexigraft.corpus.groups",
    "check_files": "lexigraft.corpus.local_files",
    "read_articles": "lexigraft.corpus.readers",
    "Loader": "lexigraft.corpus.loader",
    "register_loader": "lexigraft.corpus.loader",
    "read_pairs": "lexigraft.corpus.readers",
    "read_sentences": "lexigraft.corpus.readers",
    "read_texts": "lexigraft.corpus.loaders.text",
    "split_corpus": "lexigraft.corpus.split",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES)
