"""Create prompts with answers to train on, from one text or from samples of a group's members."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.corpus.training_samples import mix_samples, prepare_samples

    inputs, folder, seed = job["inputs"], job["outputs"]["folder"], tuple(job["seed"])
    if "samples" in inputs:
        return mix_samples(inputs["samples"], inputs["corpora"], folder)
    return prepare_samples(job["settings"], inputs["corpus"], folder, seed, inputs.get("package"))


if __name__ == "__main__":
    run(stage)
