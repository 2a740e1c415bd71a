"""Generate a source model's answers to the prompts of other samples, to train on them."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.training.teacher_answers import answer_samples

    inputs, folder = job["inputs"], job["outputs"]["folder"]
    return answer_samples(inputs["prompts"], inputs["teacher"], folder, **job["settings"])


if __name__ == "__main__":
    run(stage)
