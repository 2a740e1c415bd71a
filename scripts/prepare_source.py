"""Convert a source model to the Hugging Face layout, check it and record its properties."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.source.preparation import check_same_tokenizer, prepare_source

    folder, package = job["outputs"]["folder"], job["inputs"].get("package")
    written = prepare_source(job["settings"], folder, package)
    if other := job["inputs"].get("tokenizer_of"):
        check_same_tokenizer(folder, other)
    return written


if __name__ == "__main__":
    run(stage)
