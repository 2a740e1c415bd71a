"""Takes the input embeddings of another pretrained model as vectors of the tokens it shares."""

from pathlib import Path

from lexigraft.auxiliary.plm import read_plm
from lexigraft.auxiliary.storage import save_vectors
from lexigraft.job import Job, run
from lexigraft.provenance import write_card
from lexigraft.source.hub import is_folder, resolve
from lexigraft.source.model import open_tokenizer


def stage(job: Job) -> None:
    settings, folder = job["settings"], Path(job["outputs"]["folder"])
    model = settings["model"]
    spec = {"folder": model} if is_folder(model) else {"hub": model}
    if settings["revision"] is not None:
        spec["revision"] = settings["revision"]
    place, commit = resolve(spec)
    tokenizer = open_tokenizer(job["inputs"]["tokenizer"])
    vectors = read_plm(tokenizer, place)
    file = save_vectors(vectors, folder)
    write_card(
        folder,
        job,
        [file],
        tokens=len(tokenizer),
        tokens_with_vector=len(vectors.tokens),
        commit=commit,
    )


if __name__ == "__main__":
    run(stage)
