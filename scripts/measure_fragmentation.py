"""Rules measure_fragmentation and measure_tokenizer: fragmentation of text, without a model."""

from lexigraft.job import Job, Written, run, write_record


def stage(job: Job) -> Written:
    from lexigraft.evaluation.fragmentation import fragmentation_record, tokenizer_record

    measure = tokenizer_record if job["rule"] == "measure_tokenizer" else fragmentation_record
    return write_record(job, measure(job))


if __name__ == "__main__":
    run(stage)
