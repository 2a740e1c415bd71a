"""Fit one initializer and store its recipe or its rows."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.initialization.fit import fit_initializer

    return fit_initializer(job)


if __name__ == "__main__":
    run(stage)
