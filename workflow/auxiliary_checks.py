"""What a schema cannot check of auxiliaries: that languages have the files and models they read.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lexigraft.auxiliary.language_files import (
    check_dictionary,
    check_word_vectors,
    word_vector_files,
)
from lexigraft.errors import UserError
from lexigraft.initialization.registry import read_roles
from lexigraft.source.hub import is_folder
from workflow.group_checks import members


def check_word_vector_files(study: dict[str, Any]) -> None:
    """Check that languages whose initializers read word vectors name the files of them.

    Raises
    ------
    UserError
        Naming the language and the key that is missing.
    """
    for language, initializer, name in _readers(study, "word-vectors"):
        texts = study["languages"][language]
        for kind, (where, path) in word_vector_files(
            name, study["auxiliary"][name], language, texts
        ).items():
            if path is None:
                what = "a dictionary" if kind == "dictionary" else "word vectors"
                form = "a text file of pairs" if kind == "dictionary" else "a .bin or .vec file"
                raise UserError(
                    f"{where}: missing, but initializer '{initializer}' reads {what}; name {form}, "
                    "or leave the initializer out for this language"
                )


def check_helper_models(study: dict[str, Any]) -> None:
    """Check that languages have the models whose embeddings initializers read, and their tokens.

    Raises
    ------
    UserError
        Naming the language and the model that is missing, or the vocabulary that is not its own.
    """
    for language, initializer, name in _readers(study, "plm"):
        plm = study["auxiliary"][name]["plm"]
        if plm not in (study["languages"][language].get("plms") or {}):
            raise UserError(
                f"languages.{language}.plms.{plm}: missing, but initializer '{initializer}' reads "
                "its embeddings; name a model, or leave the initializer out for this language"
            )
    for number, block in enumerate(study["cells"]):
        for initializer, name in _auxiliaries(study, block, "plm"):
            for vocabulary in block["vocabularies"]:
                entry = study["vocabularies"][vocabulary]
                if entry["mode"] != "replace" or "family" in entry:
                    raise UserError(
                        f"config.cells[{number}]: initializer '{initializer}' reads a model's "
                        f"embeddings, which vocabulary '{vocabulary}' has no rows in; use "
                        f"{{mode: replace, plm: {study['auxiliary'][name]['plm']}}}"
                    )


def check_dictionaries(study: dict[str, Any]) -> None:
    """Check that initializers which are to read a dictionary can, and that languages have one.

    Raises
    ------
    UserError
        Naming the initializer whose method reads none, or the language that has none.
    """
    for language, initializer in _dictionary_readers(study):
        method = study["initializers"][initializer]["method"]
        if "dictionary" not in read_roles(method):
            raise UserError(
                f"initializers.{initializer}.dictionary: true, but method '{method}' reads none; "
                "take it out"
            )
        if not _dictionaries(study, language):
            raise UserError(
                f"languages.{language}.dictionary: missing, but initializer '{initializer}' reads "
                "it; name a text file of pairs, or leave the initializer out for this language"
            )


def check_auxiliary_files(study: dict[str, Any]) -> None:
    """Check that the local files and folders which auxiliaries read exist.

    Raises
    ------
    UserError
        Naming the key and the path of the first one that is missing.
    """
    for language, _, name in _readers(study, "word-vectors"):
        texts = study["languages"][language]
        files = word_vector_files(name, study["auxiliary"][name], language, texts)
        for kind, (where, path) in files.items():
            assert path is not None
            check = check_dictionary if kind == "dictionary" else check_word_vectors
            check(path, where)
    for language, _ in _dictionary_readers(study):
        for member, path in _dictionaries(study, language).items():
            check_dictionary(path, f"languages.{member}.dictionary")
    for language, _, name in _readers(study, "plm"):
        plm = study["auxiliary"][name]["plm"]
        place = study["languages"][language]["plms"][plm]["model"]
        if is_folder(place) and not (Path(place).expanduser() / "config.json").is_file():
            raise UserError(
                f"languages.{language}.plms.{plm}.model: {place} holds no config.json; name a "
                "folder in Hugging Face layout, or a hub name"
            )


def _dictionaries(study: dict[str, Any], language: str) -> dict[str, str]:
    """The dictionaries that a language has, or the members of a group, by language."""
    found = {name: study["languages"][name]["dictionary"] for name in members(study, language)}
    return {name: path for name, path in found.items() if path}


def _dictionary_readers(study: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Languages, and the initializers of their cells whose entry says `dictionary: true`."""
    for block in study["cells"]:
        for initializer in sorted(set(block["initializers"]) & set(study["initializers"])):
            if study["initializers"][initializer]["dictionary"]:
                for language in block["languages"]:
                    yield language, initializer


def _readers(study: dict[str, Any], kind: str) -> Iterator[tuple[str, str, str]]:
    """Languages, the initializers of their cells, and the auxiliaries of a kind that these read."""
    for block in study["cells"]:
        for initializer, name in _auxiliaries(study, block, kind):
            for language in block["languages"]:
                yield language, initializer, name


def _auxiliaries(
    study: dict[str, Any], block: dict[str, Any], kind: str
) -> Iterator[tuple[str, str]]:
    """Initializers of a block of cells, and the auxiliaries of a kind that each reads."""
    for initializer in sorted(set(block["initializers"]) & set(study["initializers"])):
        for name in study["initializers"][initializer]["auxiliary"].values():
            if study["auxiliary"][name]["kind"] == kind:
                yield initializer, name
