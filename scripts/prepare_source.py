"""Bring a source model into Hugging Face layout, check it, and write down what it is."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.source.preparation import prepare_source

    package = job["inputs"].get("package")
    return prepare_source(job["settings"], job["outputs"]["folder"], package)


if __name__ == "__main__":
    run(stage)
