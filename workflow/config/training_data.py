"""Training data of cells: members of groups, samples, and teachers that answer or are imitated.

Each check raises a `UserError` that names the wrong key and explains how to correct it.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from lexigraft.cells import PLURALS
from lexigraft.corpus.local_files import check_files
from lexigraft.corpus.mixture import check_shares
from lexigraft.errors import UserError, suggestion, unknown
from lexigraft.training.settings import (
    phase_teacher,
    samples_of,
    teacher_of,
    trains_whole_model,
)

ANSWERED = "answered"  # the kind of samples that a teacher generates
# Keys for the location of a pair's quality, by loader.
QUALITY = ("quality", "quality_column", "quality_field")


def used(config: Mapping[str, Any], *axes: str, task: str | None = None) -> list[Any]:
    """Names of an axis in the cells of a study, such as `languages`; tuples for several axes.

    Each occurs once, in the order of the blocks. Tuples are combinations that occur in a block.
    With a `task`, only cells on which it is run are considered.
    """
    run = config["run_tasks"][task] if task else {}
    chosen = {axis: {*run[axis]} for axis in PLURALS.values() if run.get(axis) is not None}
    found: dict[tuple[Any, ...], None] = {}
    for block in blocks_of(config):
        names = {axis: [one for one in block[axis] if one in chosen[axis]] for axis in chosen}
        if all(names.values()):
            found |= dict.fromkeys(product(*(names.get(axis, block[axis]) for axis in axes)))
    return list(found) if len(axes) > 1 else [name for (name,) in found]


def blocks_of(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks of cells of a study, followed by those whose cells an alias shares."""
    blocks: list[dict[str, Any]] = list(config["cells"])
    for block, alias in product(config["cells"], config["aliases"]):
        sources = [one for one in block["sources"] if one in (alias["sources"] or (one,))]
        vocabularies = [one for one in block["vocabularies"] if one in alias["vocabularies"]]
        if alias["initializer"] in block["initializers"] and sources and vocabularies:
            own = {"sources": sources, "vocabularies": vocabularies}
            blocks.append(block | own | {"initializers": [alias["same_as"]]})
    return blocks


def members(config: Mapping[str, Any], language: str) -> list[str]:
    """The members of a group, or the language itself."""
    entry = config["languages"][language]
    return entry["group"]["members"] if "group" in entry else [language]


def teachers(config: Mapping[str, Any]) -> set[str]:
    """All source models that are teachers in the cells of a study."""
    strategies = (config["strategies"][name] for name in used(config, "strategies"))
    imitated = {teacher for strategy in strategies if (teacher := teacher_of(strategy))}
    return imitated | {entry["teacher"] for _, _, entry in answered_samples(config)}


def answered_samples(config: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Language, name and settings of the answered samples that cells read, once each."""
    found = {
        (language, name): config["languages"][language]["samples"].get(name)
        for group, _, name in _read(config)
        for language in members(config, group)
    }
    return [
        (language, name, entry)
        for (language, name), entry in found.items()
        if entry and entry["kind"] == ANSWERED
    ]


def training_gpus(config: Mapping[str, Any], source: str, strategy: str) -> tuple[int, int, bool]:
    """GPUs of a training, megabytes for the process on each, and whether the model is sharded."""
    resources = config["sources"][source]["resources"]
    gpus, megabytes = resources["training_gpus"], resources["training_mb"]
    if trains_whole_model(config["strategies"][strategy]):
        full = resources.get("full_training_gpus")
        megabytes = resources.get("full_training_mb", megabytes)
        return full or gpus, megabytes, bool(full) or resources["training_sharded"]
    return gpus, megabytes, resources["training_sharded"]


def check_group(study: Mapping[str, Any], language: str) -> None:
    """Check that the members of a group are languages, and that its shares are possible."""
    entry = study["languages"][language]
    if "group" not in entry:
        return
    where = f"languages.{language}.group"
    for member in members(study, language):
        if member not in study["languages"]:
            raise unknown(f"{where}.members", member, study["languages"])
        if "group" in study["languages"][member]:
            raise UserError(f"{where}.members: '{member}' is itself a group; list its members")
    try:
        check_shares(members(study, language), entry["group"]["shares"])
    except UserError as error:
        raise UserError(f"{where}.{error}") from None


def check_teachers(config: Mapping[str, Any]) -> None:
    """Check that every teacher of a study's cells exists, and the prompts that it answers."""
    known = list(config["sources"])
    for name in sorted(used(config, "strategies")):
        for phase in config["strategies"][name]["phases"]:
            teacher = phase_teacher(phase)
            if teacher is not None and teacher not in known:
                where = f"strategies.{name}.phases: {phase['objective']}.teacher"
                raise unknown(where, teacher, known)
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
                    f"{where}.{name}: contains a teacher's answers, but is of kind {kind} in "
                    f"languages.{other}; rename one of them"
                )


def check_samples(study: Mapping[str, Any]) -> None:
    """Check that every language has the samples that its strategies and initializers read."""
    for language, reader, name in _read(study):
        of_members = [study["languages"][one]["samples"] for one in members(study, language)]
        if not any(name in samples for samples in of_members):
            known = sorted({key for samples in of_members for key in samples})
            raise UserError(
                f"languages.{language}.samples: '{name}', which {reader}, is missing"
                f"{suggestion(name, known)}; add it, or leave the language out of these cells"
            )
        for where, entry in _entries(study, language, name):
            text = entry.get("text", {})
            if "package" in text and text["package"] not in study["packages"]:
                raise unknown(f"{where}.text.package", text["package"], study["packages"])
            rated = any(key in text for key in QUALITY)
            if entry.get("minimum_quality") is not None and not rated:
                raise UserError(
                    f"{where}.minimum_quality: the text has no quality scores; specify where they "
                    f"are with one of {', '.join(QUALITY)}, or remove this key"
                )


def check_local_samples(study: Mapping[str, Any]) -> None:
    """Check that the local files of the samples that a resolved study reads exist."""
    for language, _, name in _read(study):
        for where, entry in _entries(study, language, name):
            check_files(entry, where)


def _read(study: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Language, description of the reader, and name, for all samples that cells read."""
    for language, strategy in used(study, "languages", "strategies"):
        for name in samples_of(study["strategies"][strategy]):
            yield language, f"strategy '{strategy}' trains on", name
    for language, initializer in used(study, "languages", "initializers"):
        if name := study["initializers"].get(initializer, {}).get("samples"):
            yield language, f"initializer '{initializer}' aligns", name


def _entries(
    study: Mapping[str, Any], language: str, name: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Key and settings of the entries that contain the prompts of samples.

    Answered samples have the prompts of another entry. For a group, those of each member that has
    some.
    """
    for member in members(study, language):
        samples = study["languages"][member]["samples"]
        if name in samples:
            prompts = samples[name].get("prompts", name)
            yield f"languages.{member}.samples.{prompts}", samples[prompts]
