"""Compute the vectors of a tokenizer's tokens with an auxiliary of any kind."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.auxiliary.compute import compute_auxiliary

    return compute_auxiliary(job)


if __name__ == "__main__":
    run(stage)
