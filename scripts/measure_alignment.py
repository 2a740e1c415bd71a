"""Rule measure_alignment: how well an initializer aligns the tokens of source and target."""

from lexigraft.job import Job, Written, run, write_record


def stage(job: Job) -> Written:
    from lexigraft.evaluation.alignment import alignment_record

    return write_record(job, alignment_record(job))


if __name__ == "__main__":
    run(stage)
