"""Rule measure_fragmentation: how a vocabulary cuts text, without any model."""

from lexigraft.job import Job, Written, run, write_record


def stage(job: Job) -> Written:
    from lexigraft.evaluation.fragmentation import fragmentation_record

    return write_record(job, fragmentation_record(job))


if __name__ == "__main__":
    run(stage)
