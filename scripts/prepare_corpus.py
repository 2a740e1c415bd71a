"""Read, clean and split the text of one language, or mix the texts of the languages of a group."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.corpus.groups import mix_corpora
    from lexigraft.corpus.language import prepare_corpus

    settings, inputs, folder = job["settings"], job["inputs"], job["outputs"]["folder"]
    seed = tuple(job["seed"])
    if "members" in inputs:
        return mix_corpora(settings, inputs["members"], folder, seed)
    return prepare_corpus(settings, folder, seed, inputs.get("package"))


if __name__ == "__main__":
    run(stage)
