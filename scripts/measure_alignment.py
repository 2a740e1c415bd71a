"""Rule measure_alignment: how much of a text survives when an initializer renames its tokens."""

from lexigraft.atomic import write_json
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.evaluation.alignment import alignment_record

    write_json(job["outputs"]["file"], alignment_record(job))
    return ["record.json"], {}


if __name__ == "__main__":
    run(stage)
