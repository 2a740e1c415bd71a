"""Rule count_tests: what of a task's tests is in the text that cells are trained on."""

from lexigraft.atomic import write_json
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.evaluation.contamination import contamination_record

    write_json(job["outputs"]["file"], contamination_record(job))
    return ["record.json"], {}


if __name__ == "__main__":
    run(stage)
