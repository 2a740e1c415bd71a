"""What the rules of vocabularies, and of vectors for their tokens, are told.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from typing import Any

from workflow.cells import AXES
from workflow.digests import digest
from workflow.grid import Study


def expand_vocabulary(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The source's tokenizer with new tokens."""
    settings = study.config["vocabularies"][wildcards["vocabulary"]]
    return _vocabulary(study, wildcards, settings, "scripts/expand_vocabulary.py")


def train_vocabulary(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """A tokenizer trained on the corpus in the place of the source's."""
    settings = study.config["vocabularies"][wildcards["vocabulary"]]
    return _vocabulary(study, wildcards, settings, "scripts/train_vocabulary.py")


def take_vocabulary(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """Another model's tokenizer in the place of the source's."""
    settings = study.tokenizer_of(wildcards["language"], wildcards["vocabulary"])
    return _vocabulary(study, wildcards, settings, "scripts/take_vocabulary.py")


def _vocabulary(
    study: Study, wildcards: Mapping[str, str], settings: dict[str, Any], script: str
) -> dict[str, Any]:
    """What the three rules that make a vocabulary have in common."""
    key = (wildcards["source"], wildcards["language"], wildcards["vocabulary"])
    return {
        "settings": settings,
        "inputs": {
            "source": study.source_folder(key[0]),
            "corpus": study.corpus_folder(key[1]),
        },
        "outputs": {"folder": study.vocabulary_folder(*key)},
        "code": digest(script),
    }


def train_fasttext(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """fastText vectors of a tokenizer's tokens."""
    return _trained_vectors(study, wildcards, "scripts/train_fasttext.py")


def train_glove(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """GloVe vectors of a tokenizer's tokens."""
    return _trained_vectors(study, wildcards, "scripts/train_glove.py")


def _trained_vectors(study: Study, wildcards: Mapping[str, str], script: str) -> dict[str, Any]:
    """What the rules that train vectors on the corpus have in common."""
    axes, name = [wildcards[axis] for axis in AXES[:3]], wildcards["auxiliary"]
    described = _vectors(study, wildcards, script)
    described["inputs"]["corpus"] = study.corpus_folder(axes[1])
    return {**described, "seed": [study.config["seed"], "auxiliary", *axes, name]}


def read_word_vectors(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """Vectors of a tokenizer's tokens from word vectors in files."""
    described = _vectors(study, wildcards, "scripts/read_word_vectors.py")
    described["inputs"] |= study.word_vectors(wildcards["auxiliary"], wildcards["language"])
    return described


def read_plm(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """Vectors of a tokenizer's tokens from another model's rows."""
    described = _vectors(study, wildcards, "scripts/read_plm.py")
    model = study.plm(wildcards["auxiliary"], wildcards["language"])
    return {**described, "settings": {"kind": "plm", **model}}


def _vectors(study: Study, wildcards: Mapping[str, str], script: str) -> dict[str, Any]:
    """What all rules that make auxiliary vectors for a tokenizer have in common."""
    axes, name = [wildcards[axis] for axis in AXES[:3]], wildcards["auxiliary"]
    return {
        "settings": study.config["auxiliary"][name],
        "inputs": {"tokenizer": study.vocabulary_folder(*axes)},
        "outputs": {"folder": study.auxiliary_folder(name, *axes)},
        "code": digest(script),
    }
