"""Inputs of initializers and vocabularies: auxiliary vectors, dictionaries, language models.

Each check raises a `UserError` that names the wrong key and explains how to correct it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexigraft.auxiliary.language_files import check_word_vectors, word_vector_files
from lexigraft.auxiliary.registry import auxiliary_kind
from lexigraft.corpus.local_files import check_file
from lexigraft.errors import UserError, unknown
from lexigraft.initialization import registry
from lexigraft.source.hub_check import is_folder
from workflow.config.training_data import members, used
from workflow.config.vocabularies import is_taken

# Roles of a method that contain text instead of vectors -> the key of an entry for it, and the
# value to set. `samples` may also provide a dictionary, see `pairs_role`.
_TEXTS = {
    "dictionary": ("dictionary", "true"),
    "parallel": ("samples", "a name in the samples of its languages"),
}
TOKENIZER, MODEL = "tokenizer.json", "config.json"
# File -> description of a folder that contains it.
_FOLDERS = {TOKENIZER: "with a fast tokenizer", MODEL: "in Hugging Face format"}


def check_initializer(name: str, entry: dict[str, Any], auxiliaries: list[str]) -> None:
    """Check that a method exists, and that its options and the inputs of its roles fit."""
    method, where = entry["method"], f"initializers.{name}.auxiliary"
    if method not in registry.methods():
        raise unknown(f"initializers.{name}.method", method, registry.methods())
    declared = registry.declaration(method)
    required = declared.needs
    needed = [role for role in required if role not in _TEXTS]
    for role, auxiliary in entry["auxiliary"].items():
        if role not in needed:
            reads = f"only reads {', '.join(needed)}" if needed else "reads no auxiliary"
            raise UserError(f"{where}: sets role '{role}', but method '{method}' {reads}")
        if auxiliary not in auxiliaries:
            raise unknown(where if role == "target" else f"{where}.{role}", auxiliary, auxiliaries)
    for role in needed:
        if role not in entry["auxiliary"]:
            raise UserError(
                f"{where}: role '{role}', which method '{method}' reads, is missing; specify an "
                f"entry of auxiliary.yaml: {{{', '.join(f'{need}: …' for need in needed)}}}"
            )
    readable, filled = (*required, *declared.reads), dict[str, str]()
    for key, role in (("dictionary", "dictionary"), ("samples", declared.pairs_role)):
        if not entry[key]:
            continue
        given = "true" if entry[key] is True else entry[key]
        if role is None or role not in readable:
            raise UserError(
                f"initializers.{name}.{key}: set to {given}, but method '{method}' does not read "
                "it; remove it"
            )
        if role in filled:
            raise UserError(
                f"initializers.{name}.{key}: set to {given}, but method '{method}' reads only one "
                f"dictionary; remove it or '{filled[role]}'"
            )
        filled[role] = key
    for role, (key, value) in _TEXTS.items():
        if role in required and role not in filled:
            raise UserError(
                f"initializers.{name}.{key}: missing, but method '{method}' reads it; set it to "
                f"{value}"
            )
    options = entry["options"] | (
        {"language": entry["languages"][0]} if "languages" in entry else {}
    )
    if options:
        # Only if necessary: creating an initializer imports transformers, which takes seconds.
        try:
            registry.initializer(method, **options)
        except UserError as error:
            raise UserError(f"initializers.{name}.options: {error}") from None


def language_option(study: Mapping[str, Any], initializer: str, language: str) -> dict[str, str]:
    """The option `language` of an initializer that distinguishes languages.

    Empty for other initializers. Raises a UserError if the initializer does not know the language.
    """
    entry = study["initializers"].get(initializer, {})
    if "languages" not in entry:
        return {}
    code = entry["options"].get("language") or study["languages"][language].get("code")
    if code not in entry["languages"]:
        what = f"'{language}' has code '{code}'" if code else f"'{language}' is a group"
        raise UserError(
            f"initializers.{initializer}.languages: {what}, but the method only supports "
            f"{', '.join(entry['languages'])}; leave the language out of the initializer's cells, "
            "or set options.language in a separate entry"
        )
    return {"language": code}


def check_needs(study: dict[str, Any]) -> None:
    """Check that languages define the inputs of their vocabularies and initializers."""
    for initializer, language in used(study, "initializers", "languages"):
        language_option(study, initializer, language)
        _check_parallel(study, initializer, language)
    for need in _needs(study):
        if not need.place:
            raise UserError(
                f"{need.where}: missing, but {need.by} {need.reads}; specify {need.form}, or do "
                f"not use the {need.by.split()[0]} for this language"
            )
    for initializer, vocabulary in used(study, "initializers", "vocabularies"):
        for plm in _auxiliaries(study, initializer, "plm").values():
            if not is_taken(study["vocabularies"][vocabulary]):
                raise UserError(
                    f"config.cells: initializer '{initializer}' reads a model's embeddings, which "
                    f"have no rows for vocabulary '{vocabulary}'; use {{mode: replace, plm: "
                    f"{plm['plm']}}}"
                )


def _check_parallel(study: Mapping[str, Any], initializer: str, language: str) -> None:
    """Check that samples whose pairs an initializer reads are of kind `parallel`."""
    name = study["initializers"].get(initializer, {}).get("samples")
    for member in members(study, language) if name else ():
        kind = study["languages"][member]["samples"].get(name, {}).get("kind", "parallel")
        if kind != "parallel":
            raise UserError(
                f"languages.{member}.samples.{name}.kind: is {kind}, but initializer "
                f"'{initializer}' aligns sentence pairs; specify samples of kind parallel in "
                f"initializers.{initializer}.samples"
            )


def check_needed_files(study: dict[str, Any]) -> None:
    """Check that the local files and folders of `check_needs` exist, and fastText if needed."""
    for initializer in sorted({*used(study, "initializers")}):
        for name in study["initializers"].get(initializer, {}).get("auxiliary", {}).values():
            settings = study["auxiliary"][name]
            auxiliary_kind(settings["kind"]).check(settings, f"auxiliary.{name}")
    for need in _needs(study):
        if need.holds is None:
            check = check_file if need.where.endswith("dictionary") else check_word_vectors
            check(need.place, need.where)
        elif is_folder(need.place):
            check_folder(need.place, need.where, need.holds, instead=", or a hub name")


def check_folder(folder: str, where: str, *holds: str, instead: str = "") -> None:
    """Check that a folder contains one of these files; the message describes the first."""
    if not any((Path(folder).expanduser() / name).is_file() for name in holds):
        raise UserError(
            f"{where}: {folder} contains no {holds[0]}; specify a folder {_FOLDERS[holds[0]]}"
            f"{instead}"
        )


@dataclass(frozen=True)
class _Need:
    """An input that a vocabulary or initializer of a language's cells requires.

    `where` is its key and `place` the value of the key, or empty; `holds` is the file that a folder
    must contain, None if the input is a file itself.
    """

    where: str
    place: str
    holds: str | None
    by: str
    reads: str
    form: str


def _needs(study: dict[str, Any]) -> Iterator[_Need]:
    for vocabulary, language in used(study, "vocabularies", "languages"):
        entry, by = study["vocabularies"].get(vocabulary, {}), f"vocabulary '{vocabulary}'"
        if "tokenizer" in entry:
            where = f"vocabularies.{vocabulary}.tokenizer"
            yield _Need(where, entry["tokenizer"], TOKENIZER, by, "", "")
        if "plm" in entry:
            where, place = _plm(study, language, entry["plm"])
            yield _Need(where, place, TOKENIZER, by, "uses its tokenizer", "a model")
    for initializer, language in used(study, "initializers", "languages"):
        texts, by = study["languages"][language], f"initializer '{initializer}'"
        for name, auxiliary in _auxiliaries(study, initializer, "word-vectors").items():
            for kind, (where, path) in word_vector_files(name, auxiliary, language, texts).items():
                what, form = "word vectors", "a .bin or .vec file"
                if kind == "dictionary":
                    what, form = "a dictionary", "a text file of pairs"
                yield _Need(where, path or "", None, by, f"reads {what}", form)
        for auxiliary in _auxiliaries(study, initializer, "plm").values():
            where, place = _plm(study, language, auxiliary["plm"])
            yield _Need(where, place, MODEL, by, "reads its embeddings", "a model")
        if study["initializers"].get(initializer, {}).get("dictionary"):
            found = {
                f"languages.{name}.dictionary": study["languages"][name]["dictionary"]
                for name in members(study, language)
            }
            given = {where: path for where, path in found.items() if path}
            for where, path in (given or {f"languages.{language}.dictionary": ""}).items():
                yield _Need(where, path, None, by, "reads it", "a text file of pairs")


def _plm(study: dict[str, Any], language: str, name: str) -> tuple[str, str]:
    """Key and location of a language's model; if it is missing, the entry's key and no location."""
    where, plms = f"languages.{language}.plms.{name}", study["languages"][language]["plms"]
    return (f"{where}.model", plms[name]["model"]) if name in plms else (where, "")


def auxiliary_corpora(study: Mapping[str, Any]) -> dict[str, str]:
    """Auxiliaries of a study's cells that are trained on their own corpus -> the corpus."""
    entries = (study["initializers"].get(name, {}) for name in used(study, "initializers"))
    names = {name for entry in entries for name in entry.get("auxiliary", {}).values()}
    found = {name: study["auxiliary"].get(name, {}).get("corpus") for name in sorted(names)}
    return {name: text for name, text in found.items() if text}


def _auxiliaries(study: dict[str, Any], initializer: str, kind: str) -> dict[str, Any]:
    """The auxiliaries of one kind that an initializer reads, with their entries."""
    names = study["initializers"].get(initializer, {}).get("auxiliary", {}).values()
    found = {name: study["auxiliary"][name] for name in names}
    return {name: own for name, own in found.items() if own["kind"] == kind}
