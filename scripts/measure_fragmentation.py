"""Rules measure_fragmentation and measure_tokenizer: how a tokenizer cuts text, without a model."""

from lexigraft.atomic import write_json
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.evaluation.fragmentation import fragmentation_record, tokenizer_record

    measure = tokenizer_record if job["rule"] == "measure_tokenizer" else fragmentation_record
    write_json(job["outputs"]["file"], measure(job))
    return ["record.json"], {}


if __name__ == "__main__":
    run(stage)
