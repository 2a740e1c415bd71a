"""Jobs with a teacher: where it lies, what it answers, and what a job takes for it.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lexigraft.corpus.sample_file import SAMPLES
from lexigraft.training.settings import teacher_of
from workflow.config import training_data
from workflow.patterns import any_of

if TYPE_CHECKING:
    from workflow.grid import Study


def answered_samples(study: "Study") -> str:
    """Names of samples that a teacher makes, as the pattern of a wildcard."""
    return any_of(
        dict.fromkeys(name for _, name, _ in training_data.answered_samples(study.config))
    )


def answered_languages(study: "Study") -> str:
    """Languages that have such samples, as the pattern of a wildcard."""
    found = training_data.answered_samples(study.config)
    return any_of(dict.fromkeys(language for language, _, _ in found))


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
