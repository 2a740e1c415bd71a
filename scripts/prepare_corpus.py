"""Read, clean and split the text of one language."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.corpus.language import prepare_corpus

    package, folder = job["inputs"].get("package"), job["outputs"]["folder"]
    return prepare_corpus(job["settings"], folder, tuple(job["seed"]), package)


if __name__ == "__main__":
    run(stage, shared=True)
