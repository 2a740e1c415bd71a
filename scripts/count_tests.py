"""Rule count_tests: how many of a task's tests occur in the text that cells are trained on."""

from lexigraft.job import Job, Written, run, write_record


def stage(job: Job) -> Written:
    from lexigraft.evaluation.contamination import contamination_record

    return write_record(job, contamination_record(job))


if __name__ == "__main__":
    run(stage)
