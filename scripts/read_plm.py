"""Read the input embeddings of another pretrained model as vectors of the shared tokens."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.auxiliary.token_vectors import read_plm, store_vectors
    from lexigraft.source.hub import resolve_place
    from lexigraft.source.model import open_tokenizer

    place, commit = resolve_place(job["settings"]["model"], job["settings"]["revision"])
    tokenizer = open_tokenizer(job["inputs"]["tokenizer"])
    return store_vectors(job, tokenizer, read_plm(tokenizer, place), commit=commit)


if __name__ == "__main__":
    run(stage, shared=True)
