"""Fits one initializer and stores its recipe or its rows."""

from lexigraft.job import Job, run


def stage(job: Job) -> None:
    from lexigraft.initialization.fit import fit_initializer

    fit_initializer(job)


if __name__ == "__main__":
    run(stage)
