"""Inputs of a registered initializer other than tokenizers and text, from the user's files.

A study computes them in separate stages. Here they are computed directly, in memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.auxiliary.language_files import read_dictionary
from lexigraft.auxiliary.registry import auxiliary_kind, compute_vectors
from lexigraft.errors import UserError, unknown

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


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
    from lexigraft.initialization.registry import declaration
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
        samples_role=declaration(entry["method"]).pairs_role if entry["samples"] else None,
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
        for name in auxiliary_kind(settings["kind"]).reads(settings):
            _check(wanted.name, name, settings, given)
    found: dict[str, Any] = {}
    for role, settings in wanted.vectors.items():
        tokenizer = source if role == "source" else target
        inputs = _inputs(settings, given)
        found[role], _ = compute_vectors(settings["kind"], tokenizer, settings, inputs)
    if wanted.reads_dictionary:
        found["dictionary"] = read_dictionary(_needed(wanted.name, "dictionary", given))
    if wanted.samples_role:
        from lexigraft.corpus.readers import read_pairs

        place = _needed(wanted.name, "parallel", given)
        found[wanted.samples_role] = read_pairs({"loader": "tsv", "path": str(place)})
    return found


def _check(initializer: str, name: str, settings: Mapping[str, Any], given: Given) -> None:
    """Raise a UserError if the user has not given an input of an auxiliary."""
    if name == "corpus":
        if not given.sentences:
            raise UserError(
                f"--initializer {initializer}: trains token vectors on a text; specify it with "
                "--text"
            )
    elif name == "model":
        _needed(initializer, "donor", given)
    elif name == "word_vectors":
        # The file of the registry entry may be missing, and may be replaced by the user's.
        if not Path(settings.get("path") or "").is_file():
            _needed(initializer, _file_key(settings), given)
    elif name != "encoder" or "hub" not in settings:
        _needed(initializer, name, given)


def _inputs(settings: Mapping[str, Any], given: Given) -> dict[str, Any]:
    """What the user gave, by the names that kinds of auxiliaries use."""
    encoder = {key: settings[key] for key in ("hub", "revision") if key in settings}
    return {
        "corpus": given.sentences,
        "word_vectors": getattr(given, _file_key(settings)) or settings.get("path"),
        "english_word_vectors": given.english_word_vectors,
        "dictionary": given.dictionary,
        "model": given.donor,
        "encoder": {"folder": str(given.encoder)} if given.encoder else encoder,
    }


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
