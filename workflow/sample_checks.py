"""What a schema cannot check of samples: that what a strategy trains on is there.

Plain Python: the Snakefile is parsed again in every job.
"""

from typing import Any

from lexigraft.corpus.local_files import check_samples_files
from lexigraft.errors import UserError, suggestion, unknown
from lexigraft.training.settings import samples_of
from workflow.group_checks import members
from workflow.teachers import prompts_of

# Keys that say where the quality of a pair is written, one for each loader that has some.
QUALITY = ("quality", "quality_column", "quality_field")


def check_samples(study: dict[str, Any]) -> None:
    """Check that every language has the samples that its cells' strategies train on.

    Raises
    ------
    UserError
        Naming the language and the entry that is missing, or the key of it that is wrong.
    """
    for language, strategy, name in _read(study):
        having = [one for one in members(study, language) if name in _samples(study, one)]
        if not having:
            known = sorted(
                {key for one in members(study, language) for key in _samples(study, one)}
            )
            raise UserError(
                f"languages.{language}.samples: no '{name}', which strategy '{strategy}' trains "
                f"on{suggestion(name, known)}; add it, or leave the language out of its cells"
            )
        for one in having:
            text = prompts_of(study, one, name)
            _check_entry(study, _samples(study, one)[text], f"languages.{one}.samples.{text}")


def check_local_samples(study: dict[str, Any]) -> None:
    """Check that the local files of the samples that a resolved study trains on exist.

    Raises
    ------
    UserError
        Naming the key and the path of the first one that is missing or empty.
    """
    for language, _, name in _read(study):
        for one in members(study, language):
            if name in _samples(study, one):
                text = prompts_of(study, one, name)
                check_samples_files(_samples(study, one)[text], f"languages.{one}.samples.{text}")


def _read(study: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Every language, strategy and name of samples that come together in a cell, once."""
    return list(
        dict.fromkeys(
            (language, strategy, name)
            for block in study["cells"]
            for language in block["languages"]
            for strategy in block["strategies"]
            for name in samples_of(study["strategies"][strategy])
        )
    )


def _samples(study: dict[str, Any], language: str) -> dict[str, Any]:
    return study["languages"][language]["samples"]


def _check_entry(study: dict[str, Any], entry: dict[str, Any], where: str) -> None:
    text = entry.get("text", {})
    if "package" in text and text["package"] not in study["packages"]:
        raise unknown(f"{where}.text.package", text["package"], study["packages"])
    if entry.get("minimum_quality") is not None and not any(key in text for key in QUALITY):
        raise UserError(
            f"{where}.minimum_quality: the text names no quality; say where it is written, in "
            f"{', '.join(QUALITY)}, or leave it out"
        )
