"""Train one cell and store the changed weights."""

from lexigraft.job import Job, run


def stage(job: Job) -> None:
    from lexigraft.training.train import train_cell

    train_cell(job)


if __name__ == "__main__":
    run(stage)
