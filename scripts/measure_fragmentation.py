"""Rule measure_fragmentation: how a vocabulary cuts text, without any model."""

from lexigraft.atomic import write_json
from lexigraft.job import Job, run


def stage(job: Job) -> None:
    from lexigraft.evaluation.fragmentation import fragmentation_record

    write_json(job["outputs"]["file"], fragmentation_record(job))


if __name__ == "__main__":
    run(stage)
