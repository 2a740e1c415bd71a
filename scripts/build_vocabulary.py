"""Build the tokenizer of a cell: the source's expanded or pruned, or one trained on the text."""

from lexigraft.corpus.lines import corpus_sentences
from lexigraft.corpus.mixture import read_amount
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.corpus.sampling import StoredLines
    from lexigraft.initialization.pairing import pair_vocabularies
    from lexigraft.source.model import open_source
    from lexigraft.vocabulary.change import change_tokenizer
    from lexigraft.vocabulary.tokenizer_files import describe_vocabulary, store_vocabulary
    from lexigraft.vocabulary.train import train_family

    settings, inputs, folder = job["settings"], job["inputs"], job["outputs"]["folder"]
    model = open_source(inputs["source"])
    source = model.tokenizer()
    lines = StoredLines.of_lines(read_amount(inputs["corpus"], settings, inputs["source"]))
    if "family" in settings:
        tokenizer, trained = train_family(
            lines, settings["family"], settings["size"], source, settings["superwords"]
        )
        new_ids = pair_vocabularies(source, tokenizer).new_ids.tolist()
        description = describe_vocabulary("replace", source, tokenizer, new_ids)
        return store_vocabulary(source, tokenizer, lines, description, folder, model=trained)
    english = corpus_sentences(inputs["corpus"], "english")
    tokenizer, description = change_tokenizer(source, lines, settings, english)
    return store_vocabulary(
        source, tokenizer, lines, description, folder, model.folder, english=english
    )


if __name__ == "__main__":
    run(stage)
