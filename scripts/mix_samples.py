"""Mix the samples of the languages of a group."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.corpus.training_samples import mix_samples

    inputs = job["inputs"]
    return mix_samples(inputs["samples"], inputs["corpora"], job["outputs"]["folder"])


if __name__ == "__main__":
    run(stage)
