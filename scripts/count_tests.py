"""Rule count_tests: what of a task's tests is in the text that cells are trained on."""

from lexigraft.atomic import write_json
from lexigraft.job import Job, run


def stage(job: Job) -> None:
    from lexigraft.evaluation.contamination import contamination_record

    write_json(job["outputs"]["file"], contamination_record(job))


if __name__ == "__main__":
    run(stage)
