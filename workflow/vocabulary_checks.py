"""What a schema cannot check of vocabularies that are taken from another model.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError
from lexigraft.source.hub import is_folder


def check_plms(study: dict[str, Any]) -> None:
    """Check that each language has the models whose tokenizers its vocabularies take.

    Raises
    ------
    UserError
        Naming the language and the model that is missing.
    """
    for language, vocabulary in _cells(study):
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
    for language, vocabulary in _cells(study):
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


def _cells(study: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Languages and the vocabularies of their cells, the source's own left out."""
    for block in study["cells"]:
        for vocabulary in block["vocabularies"]:
            if vocabulary in study["vocabularies"]:
                for language in block["languages"]:
                    yield language, vocabulary
