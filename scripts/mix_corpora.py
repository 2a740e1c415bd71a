"""Mix the texts of the languages of a group."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.corpus.groups import mix_corpora

    members, folder = job["inputs"]["members"], job["outputs"]["folder"]
    return mix_corpora(job["settings"], members, folder, tuple(job["seed"]))


if __name__ == "__main__":
    run(stage)
