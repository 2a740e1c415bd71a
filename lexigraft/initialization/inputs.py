"""Inputs of methods besides the two tokenizers; errors explain how to provide missing ones."""

from collections.abc import Iterable
from typing import Any

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.interface import Auxiliaries, Corpus
from lexigraft.initialization.matrix import Matrix, check_matrix
from lexigraft.initialization.pairing import VocabularyPair


def required_corpus(method: str, corpus: Corpus) -> Iterable[str]:
    """The corpus of a method that needs one; raises a `UserError` if there is none."""
    if corpus is None:
        how = "specify a text, or call fit(…, corpus=sentences)"
        raise _missing(method, "a corpus, sentences of the language", how)
    return corpus


def required_pairs(method: str, auxiliary: Auxiliaries, role: str) -> Iterable[tuple[str, str]]:
    """Pairs of an English text and its translation, from the role `parallel` or `dictionary`."""
    if role not in auxiliary:
        items = "words" if role == "dictionary" else "sentences"
        what = f"pairs of English {items} and their translations as auxiliary '{role}'"
        how = f"specify them in its config entry, or call fit(…, auxiliary={{'{role}': pairs}})"
        raise _missing(method, what, how)
    return auxiliary[role]


def required_vectors(
    method: str, pair: VocabularyPair, auxiliary: Auxiliaries, role: str = "target"
) -> TokenVectors:
    """Vectors from a role: of source tokens for `source`, of target tokens for all other roles."""
    side = "source" if role == "source" else "target"
    size = len(pair.source_bytes if role == "source" else pair.target_bytes)
    vectors = auxiliary.get(role)
    if not isinstance(vectors, TokenVectors):
        how = f"specify one in its config entry, or call fit(…, auxiliary={{'{role}': vectors}})"
        raise _missing(method, f"vectors of the {side}'s tokens as auxiliary '{role}'", how)
    if len(vectors.tokens) and vectors.tokens[-1] >= size:
        raise UserError(
            f"auxiliary '{role}': it has a vector for token {vectors.tokens[-1]}, but the {side} "
            f"tokenizer has {size} tokens; give vectors computed with this tokenizer"
        )
    return vectors


def required_space(
    method: str, pair: VocabularyPair, auxiliary: Auxiliaries
) -> tuple[TokenVectors, TokenVectors]:
    """Vectors of target and source tokens in one space, from the roles `target` and `source`."""
    target = required_vectors(method, pair, auxiliary)
    source = required_vectors(method, pair, auxiliary, "source")
    if target.vectors.shape[1] != source.vectors.shape[1]:
        raise UserError(
            f"initializer '{method}': its auxiliaries have {target.vectors.shape[1]} dimensions "
            f"for the target and {source.vectors.shape[1]} for the source; give aligned vectors"
        )
    return target, source


def required_matrices(
    method: str, pair: VocabularyPair, auxiliary: Auxiliaries
) -> dict[str, Matrix]:
    """Input and output matrix of the source; for a tied model the same object."""
    source_matrices = auxiliary.get("matrices")
    if not source_matrices or "input" not in source_matrices:
        how = "call fit(…, auxiliary={'matrices': {'input': …}}), with 'output' unless tied"
        raise _missing(method, "the source's matrices", how)
    matrices = {
        "input": source_matrices["input"],
        "output": source_matrices.get("output", source_matrices["input"]),
    }
    for matrix in matrices.values():
        check_matrix(matrix, pair.n_source)
    return matrices


def required_model(method: str, auxiliary: Auxiliaries) -> Any:
    """The source model (transformers); raises a `UserError` if there is none."""
    model = auxiliary.get("model")
    if model is None or not hasattr(model, "get_input_embeddings"):
        raise _missing(method, "the source model", "call fit(…, auxiliary={'model': model})")
    return model


def _missing(method: str, what: str, how: str) -> UserError:
    return UserError(f"initializer '{method}': it needs {what}; {how}")
