"""Inputs of a registered initializer other than tokenizers and text, from the user's files.

A study computes them in separate stages. Here they are computed directly, in memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.auxiliary.language_files import read_dictionary
from lexigraft.auxiliary.registry import AuxiliaryKind, compute_vectors
from lexigraft.corpus.readers import read_pairs
from lexigraft.errors import UserError, unknown
from lexigraft.initialization.registry import declaration
from lexigraft.settings import plain
from workflow.config.initializers import InitializerConfig
from workflow.config.registries import entries_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_DESCRIPTIONS = {  # of an option and field of `UserInputs`
    "word_vectors": "word vectors of the language (.bin, .vec or .vec.gz)",
    "english_word_vectors": "English word vectors (.bin, .vec or .vec.gz)",
    "dictionary": "a dictionary: an English word, a tab and its translation on each line",
    "parallel": "parallel text: an English sentence, a tab and its translation on each line",
    "donor": "the embeddings of the model that the new tokenizer is from",
    "encoder": "the vectors of a sentence encoder",
}


@dataclass(frozen=True)
class UserInputs:
    """Sentences, files of vectors and pairs, and models from which vectors are read."""

    sentences: Sequence[str] = ()
    word_vectors: Path | None = None
    english_word_vectors: Path | None = None
    dictionary: Path | None = None
    parallel: Path | None = None
    donor: Path | None = None
    encoder: Path | None = None

    def required(self, initializer: str, name: str) -> Path:
        """The file or folder of this name; a `UserError` names the option if it is missing."""
        path: Path | None = getattr(self, name)
        if path is None:
            option = name.replace("_", "-")
            raise UserError(
                f"--initializer {initializer}: reads {_DESCRIPTIONS[name]}; set --{option}"
            )
        return path


def registered(name: str) -> tuple[InitializerConfig, dict[str, AuxiliaryKind]]:
    """An initializer of the registry, and the vectors that it reads by role; or a `UserError`."""
    entries = entries_of("initializers")
    if name not in entries:
        raise unknown("--initializer", name, entries)
    entry, kinds = entries[name], entries_of("auxiliary")
    return entry, {role: kinds[kind] for role, kind in entry.auxiliary.items()}


def auxiliaries(
    initializer: str,
    entry: InitializerConfig,
    vectors: Mapping[str, AuxiliaryKind],
    source: "PreTrainedTokenizerFast",
    target: "PreTrainedTokenizerFast",
    inputs: UserInputs,
) -> dict[str, Any]:
    """The inputs of an initializer, by role; a `UserError` names the first missing option.

    `entry` and `vectors` are those of the `initializer` (`registered`).
    """
    by_role: dict[str, Any] = {role: plain(kind) for role, kind in vectors.items()}
    # Check all of them first, since training vectors takes minutes.
    for role, settings in by_role.items():
        for name in vectors[role].reads(settings):
            if name == "corpus" and not inputs.sentences:
                raise UserError(
                    f"--initializer {initializer}: trains token vectors on a text; specify it "
                    "with --text"
                )
            if name == "word_vectors":
                # The file of the registry entry may be missing, and replaced by the user's.
                if not Path(settings.get("path") or "").is_file():
                    inputs.required(initializer, _file_option(settings))
            elif name != "corpus" and not (name == "encoder" and "hub" in settings):
                inputs.required(initializer, "donor" if name == "model" else name)
    for role, settings in by_role.items():
        tokenizer = source if role == "source" else target
        encoder = {key: settings[key] for key in ("hub", "revision") if key in settings}
        files = {
            "corpus": inputs.sentences,
            "word_vectors": getattr(inputs, _file_option(settings)) or settings.get("path"),
            "english_word_vectors": inputs.english_word_vectors,
            "dictionary": inputs.dictionary,
            "model": inputs.donor,
            "encoder": {"folder": str(inputs.encoder)} if inputs.encoder else encoder,
        }
        by_role[role], _ = compute_vectors(settings["kind"], tokenizer, settings, files)
    if entry.dictionary:
        by_role["dictionary"] = read_dictionary(inputs.required(initializer, "dictionary"))
    if entry.samples and (pairs := declaration(entry.method).pairs_role):
        path = inputs.required(initializer, "parallel")
        by_role[pairs] = read_pairs({"loader": "tsv", "path": str(path)})
    return by_role


def _file_option(settings: Mapping[str, Any]) -> str:
    return "english_word_vectors" if settings.get("of") == "english" else "word_vectors"
