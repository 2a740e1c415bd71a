"""Vectors of tokens that some initializers need: trained on a corpus, or read from files."""

from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "TokenVectors": "lexigraft.auxiliary.token_vectors",
    "train_fasttext": "lexigraft.auxiliary.fasttext",
    "train_glove": "lexigraft.auxiliary.glove",
    "read_word_vectors": "lexigraft.auxiliary.word_vectors",
    "align_vectors": "lexigraft.auxiliary.word_vectors",
    "read_dictionary": "lexigraft.auxiliary.language_files",
    "read_plm": "lexigraft.auxiliary.token_vectors",
    "SentenceEncoder": "lexigraft.auxiliary.sentence_encoder",
    "encode_tokens": "lexigraft.auxiliary.sentence_encoder",
    "save_vectors": "lexigraft.auxiliary.token_vectors",
    "load_vectors": "lexigraft.auxiliary.token_vectors",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES)
