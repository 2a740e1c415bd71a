"""Trains fastText on a corpus tokenized with the target tokenizer."""

from pathlib import Path

from lexigraft.corpus.lines import read_lines
from lexigraft.job import Job, Written, run
from lexigraft.randomness import seed_from


def stage(job: Job) -> Written:
    from lexigraft.auxiliary.fasttext import train_fasttext
    from lexigraft.auxiliary.token_vectors import store_vectors
    from lexigraft.source.model import open_tokenizer

    options = {key: value for key, value in job["settings"].items() if key != "kind"}
    tokenizer = open_tokenizer(job["inputs"]["tokenizer"])
    sentences = read_lines(Path(job["inputs"]["corpus"]) / "train.txt")
    vectors = train_fasttext(tokenizer, sentences, **options, seed=seed_from(*job["seed"]))
    return store_vectors(job, tokenizer, vectors)


if __name__ == "__main__":
    run(stage, shared=True)
