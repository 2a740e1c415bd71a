"""What initializers and vocabularies read: auxiliary vectors, dictionaries, models of a language.

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
from lexigraft.errors import UserError, unknown
from lexigraft.initialization import registry
from lexigraft.source.hub import is_folder
from workflow.config.training_data import members


def check_initializer(name: str, entry: dict[str, Any], auxiliaries: list[str]) -> None:
    """Check that a method is there, and has its auxiliaries and options.

    Raises
    ------
    UserError
        Naming the key of the initializer that is wrong.
    """
    if entry["method"] not in registry.methods():
        raise unknown(f"initializers.{name}.method", entry["method"], registry.methods())
    _check_roles(name, entry, auxiliaries)
    if entry["options"]:
        # Only then: making an initializer imports numpy, and the Snakefile is to stay light.
        try:
            registry.initializer(entry["method"], **entry["options"])
        except UserError as error:
            raise UserError(f"initializers.{name}.options: {error}") from None


def check_plms(study: dict[str, Any]) -> None:
    """Check that each language has the models whose tokenizers its vocabularies take.

    Raises
    ------
    UserError
        Naming the language and the model that is missing.
    """
    for language, vocabulary in _vocabularies(study):
        name = study["vocabularies"][vocabulary].get("plm")
        plms = study["languages"][language].get("plms") or {}
        if name is not None and name not in plms:
            raise UserError(
                f"languages.{language}.plms.{name}: missing, but vocabulary '{vocabulary}' takes "
                "its tokenizer; name a model, or leave the vocabulary out for this language"
            )


def check_tokenizers(study: dict[str, Any]) -> None:
    """Check that local folders whose tokenizers vocabularies take hold one.

    Raises
    ------
    UserError
        Naming the key and the folder of the first one that does not.
    """
    for language, vocabulary in _vocabularies(study):
        entry = study["vocabularies"][vocabulary]
        where, place = f"vocabularies.{vocabulary}.tokenizer", entry.get("tokenizer")
        if "plm" in entry:
            where = f"languages.{language}.plms.{entry['plm']}.model"
            place = study["languages"][language]["plms"][entry["plm"]]["model"]
        if place is None or not is_folder(place):
            continue
        if not (Path(place).expanduser() / "tokenizer.json").is_file():
            raise UserError(
                f"{where}: {place} holds no tokenizer.json; name a folder with a fast tokenizer, "
                "or a hub name"
            )


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
        if "dictionary" not in registry.read_roles(method):
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


def _check_roles(name: str, entry: dict[str, Any], auxiliaries: list[str]) -> None:
    """An initializer names what its method reads, each in its role, and nothing else."""
    where, needed = f"initializers.{name}.auxiliary", registry.needed_roles(entry["method"])
    for role, auxiliary in entry["auxiliary"].items():
        if role not in needed:
            reads = f"reads {', '.join(needed)}" if needed else "reads no auxiliary"
            raise UserError(f"{where}: role '{role}', but method '{entry['method']}' {reads}")
        at = where if role == "target" else f"{where}.{role}"
        if auxiliary not in auxiliaries:
            raise unknown(at, auxiliary, auxiliaries)
    for role in needed:
        if role not in entry["auxiliary"]:
            raise UserError(
                f"{where}: none in the role '{role}', which method '{entry['method']}' reads; name "
                f"an entry of auxiliary.yaml: {{{', '.join(f'{need}: …' for need in needed)}}}"
            )


def _vocabularies(study: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Languages and the vocabularies of their cells, the source's own left out."""
    for block in study["cells"]:
        for vocabulary in block["vocabularies"]:
            if vocabulary in study["vocabularies"]:
                for language in block["languages"]:
                    yield language, vocabulary


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
