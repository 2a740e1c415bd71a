"""What a training job asks for, and the command that starts a process on each of its GPUs.

A cell whose strategy has no phases is only scored: it asks for what an evaluation asks for.
"""

from workflow.grid import Study
from workflow.teachers import teacher_memory


def training_gpus(study: Study, source: str, strategy: str) -> int:
    """How many GPUs the training of a source model asks for."""
    return (
        study.config["sources"][source]["resources"]["training_gpus"]
        if _trains(study, strategy)
        else 1
    )


def training_memory(study: Study, source: str, strategy: str, attempt: int) -> int:
    """Megabytes of a training job on all of its GPUs; more after each failure."""
    if not _trains(study, strategy):
        return study.memory("evaluation", source, attempt)
    asked = study.memory("training", source, attempt) * _factor(study, strategy, "memory")
    each = round(asked) + teacher_memory(study, strategy, attempt)
    return training_gpus(study, source, strategy) * each


def training_minutes(study: Study, source: str, strategy: str, attempt: int) -> int:
    """Time limit of a training job; more after each failure."""
    if not _trains(study, strategy):
        return study.minutes("evaluation", source, attempt)
    asked = study.minutes("training", source, attempt) * _factor(study, strategy, "time")
    return max(1, round(asked))


def launcher(study: Study, source: str, gpus: int) -> str:
    """What a training script is run with, on as many GPUs as a job got."""
    if gpus < 2:
        return "python"
    sharded = study.config["sources"][source]["resources"]["training_sharded"]
    return f"{'env LEXIGRAFT_SHARDED=1 ' * sharded}torchrun --standalone --nproc-per-node {gpus}"


def _trains(study: Study, strategy: str) -> bool:
    return bool(study.config["strategies"][strategy]["phases"])


def _factor(study: Study, strategy: str, resource: str) -> float:
    """How many times what is usual with its source model a strategy takes of a resource."""
    return study.config["strategies"][strategy]["resources"][resource]
