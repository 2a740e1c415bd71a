"""What a schema cannot check of tokenizers that a study compares without any model.

Plain Python: the Snakefile is parsed again in every job.
"""

from pathlib import Path
from typing import Any

from lexigraft.errors import UserError, unknown


def languages_measured(study: dict[str, Any]) -> set[str]:
    """Languages whose text these tokenizers cut."""
    return set(study["fragmentation"]["languages"])


def check_fragmentation(study: dict[str, Any]) -> None:
    """Check that tokenizers and languages are there, and that each is one language.

    Raises
    ------
    UserError
        Naming the key and the name that is wrong.
    """
    wanted = study["fragmentation"]
    for axis in ("tokenizers", "languages"):
        for name in wanted[axis]:
            if name not in study[axis]:
                raise unknown(f"config.fragmentation.{axis}", name, study[axis])
    for name in wanted["tokenizers"]:
        package = study["tokenizers"][name].get("package")
        if package is not None and package not in study["packages"]:
            raise unknown(f"tokenizers.{name}.package", package, study["packages"])
    for name in wanted["languages"]:
        if "group" in study["languages"][name]:
            raise UserError(
                f"config.fragmentation.languages: '{name}' is a group; name its members"
            )


def check_tokenizer_folders(study: dict[str, Any]) -> None:
    """Check that tokenizers in local folders are there.

    Raises
    ------
    UserError
        Naming the first one that is not.
    """
    for name in study["fragmentation"]["tokenizers"]:
        folder = study["tokenizers"][name].get("folder")
        if folder is None:
            continue
        files = (Path(folder).expanduser() / file for file in ("tokenizer.json", "source.json"))
        if not any(file.is_file() for file in files):
            raise UserError(
                f"tokenizers.{name}.folder: {folder} holds no tokenizer.json; name a folder with a "
                "fast tokenizer"
            )
