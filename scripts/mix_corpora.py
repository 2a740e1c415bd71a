"""Mix the texts of the languages of a group."""

from pathlib import Path

from lexigraft.corpus.groups import mix_corpora
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    folder = Path(job["outputs"]["folder"])
    members = job["inputs"]["members"]
    files, facts = mix_corpora(job["settings"], members, folder, tuple(job["seed"]))
    write_card(folder, job, files, **facts)


if __name__ == "__main__":
    run(stage)
