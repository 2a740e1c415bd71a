"""Rule measure_tokenizer: how a tokenizer cuts a language's text, without any model."""

from lexigraft.job import Job, Written, run, write_record


def stage(job: Job) -> Written:
    from lexigraft.evaluation.fragmentation import tokenizer_record

    return write_record(job, tokenizer_record(job))


if __name__ == "__main__":
    run(stage)
