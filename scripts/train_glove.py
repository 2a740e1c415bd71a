"""Trains GloVe on a corpus tokenized with the tokenizer of a cell, or of its source."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.auxiliary.glove import train_glove
    from lexigraft.auxiliary.token_vectors import train_vectors
    from lexigraft.hardware import threads

    return train_vectors(job, train_glove, threads=threads())


if __name__ == "__main__":
    run(stage, shared=True)
