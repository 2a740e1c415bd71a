"""Train a tokenizer on the corpus of a language, to replace the source's."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.corpus.amounts import read_amount
    from lexigraft.corpus.stored_lines import StoredLines
    from lexigraft.initialization.pairing import pair_vocabularies
    from lexigraft.source.model import open_tokenizer
    from lexigraft.vocabulary.tokenizer_files import describe_replacement, store_vocabulary
    from lexigraft.vocabulary.train import train_family

    settings = job["settings"]
    source = open_tokenizer(job["inputs"]["source"])
    texts = read_amount(job["inputs"]["corpus"], settings, job["inputs"]["source"])
    lines = StoredLines.of_lines(texts)
    tokenizer, model = train_family(
        lines, settings["family"], settings["size"], source, settings["superwords"]
    )
    new_ids = pair_vocabularies(source, tokenizer).new_ids.tolist()
    description = describe_replacement(source, tokenizer, new_ids)
    folder = job["outputs"]["folder"]
    return store_vocabulary(source, tokenizer, lines, description, folder, model=model)


if __name__ == "__main__":
    run(stage, shared=True)
