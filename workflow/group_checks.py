"""What a schema cannot check of groups of languages.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from typing import Any

from lexigraft.corpus.mixing import check_shares
from lexigraft.errors import UserError, unknown


def members(study: Mapping[str, Any], language: str) -> list[str]:
    """The languages whose texts a language needs: those of a group, or itself."""
    entry = study["languages"][language]
    return entry["group"]["members"] if "group" in entry else [language]


def check_group(study: dict[str, Any], language: str) -> None:
    """Check that the members of a group are languages and that its shares can be had.

    Raises
    ------
    UserError
        Naming the member or the shares that are wrong.
    """
    entry = study["languages"][language]
    if "group" not in entry:
        return
    where = f"languages.{language}.group"
    for member in members(study, language):
        if member not in study["languages"]:
            raise unknown(f"{where}.members", member, study["languages"])
        if "group" in study["languages"][member]:
            raise UserError(f"{where}.members: '{member}' is a group itself; name its members")
    try:
        check_shares(members(study, language), entry["group"]["shares"])
    except UserError as error:
        raise UserError(f"{where}.{error}") from None
