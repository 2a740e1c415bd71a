"""Train fastText on a corpus tokenized with the target tokenizer."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.auxiliary.fasttext import train_fasttext
    from lexigraft.auxiliary.token_vectors import train_vectors

    return train_vectors(job, train_fasttext)


if __name__ == "__main__":
    run(stage, shared=True)
