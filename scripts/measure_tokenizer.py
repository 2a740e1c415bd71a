"""Rule measure_tokenizer: how a tokenizer cuts a language's text, without any model."""

from lexigraft.atomic import write_json
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.evaluation.fragmentation import tokenizer_record

    write_json(job["outputs"]["file"], tokenizer_record(job))
    return ["record.json"], {}


if __name__ == "__main__":
    run(stage)
