"""Take another model's tokenizer in place of the source's own."""

from pathlib import Path

from lexigraft.atomic import write_json
from lexigraft.corpus.lines import read_lines
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    from lexigraft.initialization.pairing import pair_vocabularies
    from lexigraft.source.hub import TOKENIZER, resolve_place
    from lexigraft.source.model import load_tokenizer, open_source
    from lexigraft.vocabulary.tokenizer_files import describe_replacement, fertility, save_tokenizer
    from lexigraft.vocabulary.tokenizer_settings import take_tokenizer

    settings, folder = job["settings"], Path(job["outputs"]["folder"])
    source = load_tokenizer(open_source(job["inputs"]["source"]).folder)
    lines = list(read_lines(Path(job["inputs"]["corpus"]) / "train.txt"))
    place, commit = resolve_place(settings["tokenizer"], settings["revision"], TOKENIZER)
    tokenizer = take_tokenizer(load_tokenizer(place), source)
    files = save_tokenizer(tokenizer, folder, samples=lines[:1000])
    new_ids = pair_vocabularies(source, tokenizer).new_ids.tolist()
    description = describe_replacement(source, tokenizer, new_ids)
    write_json(folder / "vocabulary.json", description)
    write_card(
        folder,
        job,
        [*files, "vocabulary.json"],
        commit=commit,
        new_tokens=len(new_ids),
        shared_tokens=description["shared"],
        train_fertility_before=fertility(source, lines),
        train_fertility_after=fertility(tokenizer, lines),
    )


if __name__ == "__main__":
    run(stage)
