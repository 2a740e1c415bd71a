"""Teachers: source models that a strategy learns from, or that answer the prompts of samples.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lexigraft.errors import UserError, unknown
from lexigraft.training.settings import samples_of, teacher_of
from workflow.group_checks import members

ANSWERED = "answered"  # the kind of samples that a teacher makes


def teachers(config: Mapping[str, Any]) -> set[str]:
    """All that teach in the cells of a study."""
    strategies = {name for block in config["cells"] for name in block["strategies"]}
    found = {teacher_of(config["strategies"][name]) for name in strategies} - {None}
    return found | {entry["teacher"] for _, _, entry in _answered(config)}  # type: ignore[return-value]


def check_teachers(config: Mapping[str, Any]) -> None:
    """Check that every teacher of a study's cells is there, and what it is to answer.

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
    for language, name, entry in _answered(config):
        where, there = f"languages.{language}.samples", config["languages"][language]["samples"]
        if entry["teacher"] not in known:
            raise unknown(f"{where}.{name}.teacher", entry["teacher"], known)
        asked = [other for other in there if there[other]["kind"] != ANSWERED]
        if entry["prompts"] not in asked:
            raise unknown(f"{where}.{name}.prompts", entry["prompts"], asked)
        for other, texts in config["languages"].items():
            kind = texts["samples"].get(name, entry)["kind"]
            if kind != ANSWERED:
                raise UserError(
                    f"{where}.{name}: a teacher's answers here and of kind {kind} in "
                    f"languages.{other}; give one of them another name"
                )


def prompts_of(config: Mapping[str, Any], language: str, samples: str) -> str:
    """The entry of a language's samples whose prompts an entry has: its own, or what it answers."""
    return config["languages"][language]["samples"][samples].get("prompts", samples)


def answered_samples(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Wildcards of the samples of a study that a teacher makes -> their names."""
    found = [(language, name) for language, name, _ in _answered(config)]
    return {"language": [one for one, _ in found], "samples": [name for _, name in found]}


def _answered(config: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
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
