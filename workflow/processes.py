"""On how many GPUs a training job runs, and the command that starts a process on each."""

from workflow.grid import Study


def training_gpus(study: Study, source: str) -> int:
    """How many GPUs the training of a source model asks for."""
    return study.config["sources"][source]["resources"]["training_gpus"]


def launcher(study: Study, source: str, gpus: int) -> str:
    """What a training script is run with, on as many GPUs as a job got."""
    if gpus < 2:
        return "python"
    sharded = study.config["sources"][source]["resources"]["training_sharded"]
    return f"{'LEXIGRAFT_SHARDED=1 ' * sharded}torchrun --standalone --nproc-per-node {gpus}"
