"""What cells are trained on: members of groups, samples, and teachers that answer or are imitated.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lexigraft.corpus.groups import check_shares
from lexigraft.corpus.local_files import check_files
from lexigraft.errors import UserError, suggestion, unknown
from lexigraft.training.settings import samples_of, teacher_of

ANSWERED = "answered"  # the kind of samples that a teacher makes
# Keys that say where the quality of a pair is written, one for each loader that has some.
QUALITY = ("quality", "quality_column", "quality_field")


def members(config: Mapping[str, Any], language: str) -> list[str]:
    """The languages whose texts a language needs: those of a group, or itself."""
    entry = config["languages"][language]
    return entry["group"]["members"] if "group" in entry else [language]


def teachers(config: Mapping[str, Any]) -> set[str]:
    """All source models that teach in the cells of a study."""
    strategies = {name for block in config["cells"] for name in block["strategies"]}
    found = {teacher_of(config["strategies"][name]) for name in strategies} - {None}
    answering = {entry["teacher"] for _, _, entry in answered_samples(config)}
    return found | answering  # type: ignore[return-value]


def answered_samples(config: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Language, name and settings of the answered samples that cells are trained on, once each."""
    seen = set()
    for block in config["cells"]:
        for group in block["languages"]:
            for language in members(config, group):
                for strategy in block["strategies"]:
                    for name in samples_of(config["strategies"][strategy]):
                        entry = config["languages"][language]["samples"].get(name)
                        if entry and entry["kind"] == ANSWERED and (language, name) not in seen:
                            seen.add((language, name))
                            yield language, name, entry


def prompts_of(config: Mapping[str, Any], language: str, samples: str) -> str:
    """The entry of a language's samples whose prompts an entry has: its own, or what it answers."""
    return config["languages"][language]["samples"][samples].get("prompts", samples)


def check_group(study: Mapping[str, Any], language: str) -> None:
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


def check_teachers(config: Mapping[str, Any]) -> None:
    """Check that every teacher of a study's cells is there, and the prompts that it answers.

    Raises
    ------
    UserError
        Naming the key that is wrong.
    """
    known = list(config["sources"])
    for name in sorted({name for block in config["cells"] for name in block["strategies"]}):
        teacher = teacher_of(config["strategies"][name])
        if teacher is not None and teacher not in known:
            raise unknown(f"strategies.{name}.phases: distill.teacher", teacher, known)
    for language, name, entry in answered_samples(config):
        where, there = f"languages.{language}.samples", config["languages"][language]["samples"]
        if entry["teacher"] not in known:
            raise unknown(f"{where}.{name}.teacher", entry["teacher"], known)
        with_prompts = [other for other in there if there[other]["kind"] != ANSWERED]
        if entry["prompts"] not in with_prompts:
            raise unknown(f"{where}.{name}.prompts", entry["prompts"], with_prompts)
        for other, texts in config["languages"].items():
            kind = texts["samples"].get(name, entry)["kind"]
            if kind != ANSWERED:
                raise UserError(
                    f"{where}.{name}: a teacher's answers here and of kind {kind} in "
                    f"languages.{other}; give one of them another name"
                )


def check_samples(study: Mapping[str, Any]) -> None:
    """Check that every language has the samples that its cells' strategies train on.

    Raises
    ------
    UserError
        Naming the language and the entry that is missing, or the key of it that is wrong.
    """
    for language, strategy, name in _trained_on(study):
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


def check_local_samples(study: Mapping[str, Any]) -> None:
    """Check that the local files of the samples that a resolved study trains on exist.

    Raises
    ------
    UserError
        Naming the key and the path of the first one that is missing or empty.
    """
    for language, _, name in _trained_on(study):
        for one in members(study, language):
            if name in _samples(study, one):
                text = prompts_of(study, one, name)
                check_files(_samples(study, one)[text], f"languages.{one}.samples.{text}")


def _trained_on(study: Mapping[str, Any]) -> list[tuple[str, str, str]]:
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


def _samples(study: Mapping[str, Any], language: str) -> dict[str, Any]:
    return study["languages"][language]["samples"]


def _check_entry(study: Mapping[str, Any], entry: dict[str, Any], where: str) -> None:
    text = entry.get("text", {})
    if "package" in text and text["package"] not in study["packages"]:
        raise unknown(f"{where}.text.package", text["package"], study["packages"])
    if entry.get("minimum_quality") is not None and not any(key in text for key in QUALITY):
        raise UserError(
            f"{where}.minimum_quality: the text names no quality; say where it is written, in "
            f"{', '.join(QUALITY)}, or leave it out"
        )
