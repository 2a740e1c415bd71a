"""Rule prepare_benchmark: the data of a task of lm-evaluation-harness, or what is missing."""

from pathlib import Path

from lexigraft.artifacts.atomic import write_json
from lexigraft.evaluation.harness.benchmark_state import new_state
from lexigraft.evaluation.learned.checkpoint import STATE
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.evaluation.harness.benchmarks import prepare_benchmark

    folder, settings = Path(job["outputs"]["folder"]), job["settings"]
    files, facts = prepare_benchmark(
        settings["task"], settings["folder"], settings["data"], folder, job["outputs"]["results"]
    )
    state = new_state(job["state"], settings["data"], facts["used"], facts["commits"])
    write_json(folder / STATE, state)
    return files, facts


if __name__ == "__main__":
    run(stage)
