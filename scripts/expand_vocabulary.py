"""Expand a source tokenizer by tokens learned from the corpus of a language."""

from pathlib import Path

from lexigraft.atomic import write_json
from lexigraft.corpus.lines import read_lines
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    from lexigraft.source.model import load_tokenizer, open_source
    from lexigraft.vocabulary.expand import expand_tokenizer
    from lexigraft.vocabulary.tokenizer_files import describe_expansion, fertility, save_tokenizer

    settings, folder = job["settings"], Path(job["outputs"]["folder"])
    source_folder = open_source(job["inputs"]["source"]).folder
    source = load_tokenizer(source_folder)
    lines = list(read_lines(Path(job["inputs"]["corpus"]) / "train.txt"))
    tokenizer = expand_tokenizer(
        source, lines, settings["new_tokens"], settings["auxiliary_size"], settings["merges"]
    )
    files = save_tokenizer(tokenizer, folder, source_folder, samples=lines[:1000])
    description = describe_expansion(source, tokenizer, settings["merges"])
    write_json(folder / "vocabulary.json", description)
    added = len(description["new_tokens"])
    write_card(
        folder,
        job,
        [*files, "vocabulary.json"],
        new_tokens=added,
        new_merges=description["new_merges"],
        reachable_share=1 - description["unreachable"] / added,
        train_fertility_before=fertility(source, lines),
        train_fertility_after=fertility(tokenizer, lines),
    )


if __name__ == "__main__":
    run(stage, shared=True)
