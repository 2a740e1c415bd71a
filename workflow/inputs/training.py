"""Stage 6, training: what a cell is trained with, and on how many GPUs."""

from typing import Any

from lexigraft.cells import cell_of
from lexigraft.corpus.sample_file import SAMPLES
from lexigraft.training.registry import objective
from workflow.cost import cost_model
from workflow.inputs.corpus import samples_of, texts_of
from workflow.inputs.initialization import fit_of
from workflow.inputs.rule import Output, Wildcards, output
from workflow.study import Study


def initialization(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The fitted initializer of a cell; none for a baseline."""
    return fit_of(study, cell_of(wildcards))


def start(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The cell that this one continues."""
    after = study.strategies[wildcards["strategy"]].after
    return output(study, "train", {**wildcards, "strategy": after}) if after else []


def samples(study: Study, wildcards: Wildcards) -> dict[str, Output]:
    """The samples that the strategy trains on, and the texts of other languages."""
    return {
        name: texts_of(study, name)
        if name in study.languages
        else samples_of(study, wildcards["language"], name).file(SAMPLES)
        for name in study.strategies[wildcards["strategy"]].samples
    }


def teacher(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The source that the strategy imitates."""
    name = study.strategies[wildcards["strategy"]].teacher(wildcards["source"])
    return output(study, "prepare_source", {"source": name}) if name else []


def merged(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The source that the trained model is merged with, if it is not the cell's own."""
    merge = study.strategies[wildcards["strategy"]].merge
    return output(study, "prepare_source", {"source": merge.of}) if merge and merge.of else []


def cell(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The axes of the cell."""
    return vars(cell_of(wildcards))


def versions(study: Study, wildcards: Wildcards) -> dict[str, int]:
    """The versions of the objectives of all phases."""
    phases = study.strategies[wildcards["strategy"]].phases
    names = sorted({phase.objective for phase in phases})
    return {f"objective {name}": objective(name).version for name in names}


def gpus(study: Study, wildcards: Wildcards) -> int:
    """The number of GPUs; a cell without phases is only scored."""
    if not study.strategies[wildcards["strategy"]].phases:
        return 1
    number, *_ = study.training_gpus(wildcards["source"], wildcards["strategy"])
    return number


def memory(study: Study, wildcards: Wildcards) -> int:
    """Megabytes for the processes on all GPUs; each holds the teacher as well, or merges models."""
    source, strategy = wildcards["source"], study.strategies[wildcards["strategy"]]
    names = [strategy.teacher(source), strategy.merge and strategy.merge.of]
    others = sum(study.sources[name].resources.evaluation_mb for name in names if name)
    if not strategy.phases:
        return study.sources[source].resources.evaluation_mb + others
    number, megabytes, _ = study.training_gpus(source, wildcards["strategy"])
    return number * (round(megabytes * strategy.resources.memory) + others)


def minutes(study: Study, wildcards: Wildcards) -> int:
    """Minutes on all GPUs."""
    resources, model = study.sources[wildcards["source"]].resources, cost_model(study)
    strategy = study.strategies[wildcards["strategy"]]
    if not strategy.phases:
        return model.minutes(resources, "evaluation_minutes", lambda: model.training(wildcards))
    number = gpus(study, wildcards)
    estimate = model.minutes(
        resources, "training_minutes", lambda: model.training(wildcards, number)
    )
    return max(1, round(estimate * strategy.resources.time))


def launcher(study: Study, wildcards: Wildcards, number: int) -> str:
    """The command that runs a training script with one process per GPU."""
    if number < 2:
        return "python"
    *_, sharded = study.training_gpus(wildcards["source"], wildcards["strategy"])
    return f"{'env LEXIGRAFT_SHARDED=1 ' * sharded}torchrun --standalone --nproc-per-node {number}"
