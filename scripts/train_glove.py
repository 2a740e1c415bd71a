"""Trains GloVe on a corpus tokenized with the tokenizer of a cell, or of its source."""

import os
from pathlib import Path

from lexigraft.corpus.lines import read_lines
from lexigraft.job import Job, Written, run
from lexigraft.randomness import seed_from


def stage(job: Job) -> Written:
    from lexigraft.auxiliary.glove import train_glove
    from lexigraft.auxiliary.token_vectors import store_vectors
    from lexigraft.source.model import open_tokenizer

    options = {key: value for key, value in job["settings"].items() if key != "kind"}
    tokenizer = open_tokenizer(job["inputs"]["tokenizer"])
    sentences = read_lines(Path(job["inputs"]["corpus"]) / "train.txt")
    seed, threads = seed_from(*job["seed"]), int(os.environ.get("OMP_NUM_THREADS", "1"))
    vectors = train_glove(tokenizer, sentences, **options, seed=seed, threads=threads)
    return store_vectors(job, tokenizer, vectors)


if __name__ == "__main__":
    run(stage, shared=True)
