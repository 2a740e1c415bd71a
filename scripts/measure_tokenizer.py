"""Rule measure_tokenizer: how a tokenizer cuts a language's text, without any model."""

from lexigraft.atomic import write_json
from lexigraft.job import Job, run


def stage(job: Job) -> None:
    from lexigraft.evaluation.fragmentation import tokenizer_record

    write_json(job["outputs"]["file"], tokenizer_record(job))


if __name__ == "__main__":
    run(stage)
