"""Rule measure_fragmentation: how a vocabulary cuts text, without any model."""

from lexigraft.atomic import write_json
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.evaluation.fragmentation import fragmentation_record

    write_json(job["outputs"]["file"], fragmentation_record(job))
    return ["record.json"], {}


if __name__ == "__main__":
    run(stage)
