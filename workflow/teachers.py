"""Teachers: source models that a strategy learns from, or that answer the prompts of samples.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lexigraft.corpus.sample_file import SAMPLES
from lexigraft.errors import UserError, unknown
from lexigraft.training.settings import samples_of, teacher_of
from workflow.group_checks import members
from workflow.patterns import any_of

if TYPE_CHECKING:
    from workflow.grid import Study

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


def answered_samples(study: "Study") -> str:
    """Names of samples that a teacher makes, as the pattern of a wildcard."""
    names = dict.fromkeys(name for _, name, _ in _answered(study.config))
    return any_of(names)


def answered_languages(study: "Study") -> str:
    """Languages that have such samples, as the pattern of a wildcard."""
    languages = dict.fromkeys(language for language, _, _ in _answered(study.config))
    return any_of(languages)


def teacher_folder(study: "Study", strategy: str) -> str | None:
    """Where the teacher of a strategy lies, if it has one."""
    teacher = teacher_of(study.config["strategies"][strategy])
    return study.source_folder(teacher) if teacher else None


def teacher_cards(study: "Study", strategy: str) -> list[str]:
    """What says that the teacher of a strategy is there, if it has one."""
    folder = teacher_folder(study, strategy)
    return [f"{folder}/card.json"] if folder else []


def teacher_memory(study: "Study", strategy: str, attempt: int) -> int:
    """Megabytes that a training job takes for its teacher, as much as to evaluate it."""
    teacher = teacher_of(study.config["strategies"][strategy])
    return study.memory("evaluation", teacher, attempt) if teacher else 0


def answering_inputs(study: "Study", wildcards: Mapping[str, str]) -> dict[str, str]:
    """The file with the prompts of samples that a teacher answers, and the teacher's folder."""
    language, entry = wildcards["language"], answered_entry(study, wildcards)
    return {
        "prompts": f"{study.samples_folder(language, entry['prompts'])}/{SAMPLES}",
        "teacher": study.source_folder(entry["teacher"]),
    }


def answering_cards(study: "Study", wildcards: Mapping[str, str]) -> list[str]:
    """What says that both are whole."""
    inputs = answering_inputs(study, wildcards)
    return [inputs["prompts"], f"{inputs['teacher']}/card.json"]


def answered_entry(study: "Study", wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The settings of samples that a teacher answers."""
    return study.config["languages"][wildcards["language"]]["samples"][wildcards["samples"]]


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
