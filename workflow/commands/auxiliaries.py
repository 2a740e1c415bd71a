"""Inputs of a registered initializer other than tokenizers and text, from the user's files.

A study computes them in separate stages. Here they are computed directly, in memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError, unknown

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from lexigraft.auxiliary.token_vectors import TokenVectors


@dataclass(frozen=True)
class Given:
    """The user's inputs: sentences, vectors, pairs, and models from which vectors are read."""

    sentences: Sequence[str] = ()
    word_vectors: Path | None = None
    english_word_vectors: Path | None = None
    dictionary: Path | None = None
    parallel: Path | None = None
    donor: Path | None = None
    encoder: Path | None = None


@dataclass(frozen=True)
class RegisteredInitializer:
    """An entry of config/initializers.yaml: method, options, and the vectors it reads, by role."""

    name: str
    method: str
    options: Mapping[str, Any]
    vectors: Mapping[str, Mapping[str, Any]]
    reads_dictionary: bool
    samples_role: str | None = None


def registered(name: str) -> RegisteredInitializer:
    """An initializer of the registry by name; raises a `UserError` if there is none."""
    from lexigraft.initialization.registry import samples_role
    from workflow.config.registries import by_role, entries_of

    known = entries_of("initializers")
    if name not in known:
        raise unknown("--initializer", name, known)
    entry, all_vectors = known[name], entries_of("auxiliary")
    vectors = {role: all_vectors[kind] for role, kind in by_role(entry["auxiliary"]).items()}
    return RegisteredInitializer(
        name,
        entry["method"],
        entry["options"],
        vectors,
        reads_dictionary=entry["dictionary"],
        samples_role=samples_role(entry["method"]) if entry["samples"] else None,
    )


def reads_donor(wanted: RegisteredInitializer) -> bool:
    """Whether an initializer reads the embeddings of a donor, not only its tokenizer."""
    return any(settings["kind"] == "plm" for settings in wanted.vectors.values())


def auxiliaries(
    wanted: RegisteredInitializer,
    source: "PreTrainedTokenizerFast",
    target: "PreTrainedTokenizerFast",
    given: Given,
) -> dict[str, Any]:
    """The inputs of an initializer, by role; a `UserError` names the first missing option."""
    # Check all of them first, since training vectors takes minutes.
    for settings in wanted.vectors.values():
        _check(wanted.name, settings, given)
    found: dict[str, Any] = {
        role: _vectors(settings, source if role == "source" else target, given)
        for role, settings in wanted.vectors.items()
    }
    if wanted.reads_dictionary:
        from lexigraft.auxiliary.language_files import read_dictionary

        found["dictionary"] = read_dictionary(_needed(wanted.name, "dictionary", given))
    if wanted.samples_role:
        from lexigraft.corpus.readers import read_pairs

        place = _needed(wanted.name, "parallel", given)
        found[wanted.samples_role] = read_pairs({"loader": "tsv", "path": str(place)})
    return found


def _check(name: str, settings: Mapping[str, Any], given: Given) -> None:
    kind = settings["kind"]
    if kind in ("fasttext", "glove") and not given.sentences:
        raise UserError(
            f"--initializer {name}: trains token vectors on a text; specify it with --text"
        )
    if kind == "plm":
        _needed(name, "donor", given)
    if kind == "sentence-encoder" and "hub" not in settings:
        _needed(name, "encoder", given)
    if kind == "word-vectors":
        # The file of the registry entry may be missing, and may be replaced by the user's.
        if not Path(settings.get("path") or "").is_file():
            _needed(name, _file_key(settings), given)
        if settings.get("aligned_by"):
            _needed(name, "english_word_vectors", given)
            _needed(name, "dictionary", given)


_MEANINGS = {
    "word_vectors": "word vectors of the language (.bin, .vec or .vec.gz)",
    "english_word_vectors": "English word vectors (.bin, .vec or .vec.gz)",
    "dictionary": "a dictionary: an English word, a tab and its translation on each line",
    "parallel": "parallel text: an English sentence, a tab and its translation on each line",
    "donor": "the embeddings of the model that the new tokenizer is from",
    "encoder": "the vectors of a sentence encoder",
}


def _needed(name: str, key: str, given: Given) -> Path:
    place: Path | None = getattr(given, key)
    if place is None:
        option = key.replace("_", "-")
        raise UserError(f"--initializer {name}: reads {_MEANINGS[key]}; set --{option}")
    return place


def _file_key(settings: Mapping[str, Any]) -> str:
    return "english_word_vectors" if settings.get("of") == "english" else "word_vectors"


def _vectors(
    settings: Mapping[str, Any], tokenizer: "PreTrainedTokenizerFast", given: Given
) -> "TokenVectors":
    options = {key: value for key, value in settings.items() if key != "kind"}
    if settings["kind"] == "plm":
        from lexigraft.auxiliary.token_vectors import read_plm

        assert given.donor is not None
        return read_plm(tokenizer, given.donor)
    if settings["kind"] == "sentence-encoder":
        from lexigraft.auxiliary.sentence_encoder import SentenceEncoder, encode_tokens

        spec = {"folder": str(given.encoder)} if given.encoder else options
        return encode_tokens(tokenizer, SentenceEncoder(spec, "--encoder"))
    if settings["kind"] == "word-vectors":
        return _word_vectors(options, tokenizer, given)
    from lexigraft.auxiliary.fasttext import train_fasttext
    from lexigraft.auxiliary.glove import train_glove

    train: Callable[..., TokenVectors] = (
        train_fasttext if settings["kind"] == "fasttext" else train_glove
    )
    return train(tokenizer, given.sentences, **options)


def _word_vectors(
    options: dict[str, Any], tokenizer: "PreTrainedTokenizerFast", given: Given
) -> "TokenVectors":
    from lexigraft.auxiliary.language_files import read_dictionary
    from lexigraft.auxiliary.word_vector_files import open_word_vectors
    from lexigraft.auxiliary.word_vectors import align_vectors, read_word_vectors

    own, place = options.pop("path", None), getattr(given, _file_key(options))
    options.pop("of", None)
    aligned = options.pop("aligned_by", None)
    words = open_word_vectors(place or own)
    vectors = read_word_vectors(tokenizer, words, **options)
    if aligned:
        assert given.dictionary is not None and given.english_word_vectors is not None
        repeated = aligned == "dictionary-as-published"
        pairs = read_dictionary(given.dictionary, repeated)
        vectors, _ = align_vectors(vectors, words, given.english_word_vectors, pairs, repeated)
    return vectors
