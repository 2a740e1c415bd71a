"""Create prompts with answers from one text, to train on."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.corpus.training_samples import prepare_samples

    inputs, folder, seed = job["inputs"], job["outputs"]["folder"], tuple(job["seed"])
    return prepare_samples(job["settings"], inputs["corpus"], folder, seed, inputs.get("package"))


if __name__ == "__main__":
    run(stage)
