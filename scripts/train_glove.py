"""Train GloVe on a corpus tokenized with the tokenizer of a cell, or of its source."""

import os

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.auxiliary.glove import train_glove
    from lexigraft.auxiliary.token_vectors import train_vectors

    return train_vectors(job, train_glove, threads=int(os.environ.get("OMP_NUM_THREADS", "1")))


if __name__ == "__main__":
    run(stage, shared=True)
