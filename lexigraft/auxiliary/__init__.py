"""Static vectors of tokens, which some initializers need beside the corpus: trained, or read."""

from lexigraft.doors import doors

_MODULES = {
    "TokenVectors": "lexigraft.auxiliary.token_vectors",
    "train_fasttext": "lexigraft.auxiliary.fasttext",
    "train_glove": "lexigraft.auxiliary.glove",
    "read_word_vectors": "lexigraft.auxiliary.word_vectors",
    "align_vectors": "lexigraft.auxiliary.alignment",
    "read_dictionary": "lexigraft.auxiliary.dictionary",
    "read_plm": "lexigraft.auxiliary.plm",
    "save_vectors": "lexigraft.auxiliary.storage",
    "load_vectors": "lexigraft.auxiliary.storage",
}
__all__, __getattr__, __dir__ = doors(__name__, _MODULES)
