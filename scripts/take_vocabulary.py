"""Replace the source's tokenizer by that of another model."""

from itertools import islice

from lexigraft.corpus.mixture import MEASURED, read_part
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.initialization.pairing import pair_vocabularies
    from lexigraft.source.hub import TOKENIZER, resolve_place
    from lexigraft.source.model import open_tokenizer
    from lexigraft.source.tokenizer import load_tokenizer
    from lexigraft.vocabulary.tokenizer_files import (
        describe_vocabulary,
        store_vocabulary,
    )
    from lexigraft.vocabulary.tokenizer_settings import take_tokenizer

    settings = job["settings"]
    source = open_tokenizer(job["inputs"]["source"])
    lines = list(islice(read_part(job["inputs"]["corpus"]), MEASURED))
    place, commit = resolve_place(settings["tokenizer"], settings["revision"], TOKENIZER)
    tokenizer = take_tokenizer(load_tokenizer(place), source)
    new_ids = pair_vocabularies(source, tokenizer).new_ids.tolist()
    description = describe_vocabulary("replace", source, tokenizer, new_ids)
    files, facts = store_vocabulary(source, tokenizer, lines, description, job["outputs"]["folder"])
    return files, {"commit": commit, **facts}


if __name__ == "__main__":
    run(stage)
