"""Expand a source tokenizer by tokens learned from the corpus of a language, or prune it."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.corpus.amounts import read_amount
    from lexigraft.corpus.lines import corpus_sentences
    from lexigraft.corpus.stored_lines import StoredLines
    from lexigraft.source.model import open_source
    from lexigraft.vocabulary.change import change_tokenizer
    from lexigraft.vocabulary.tokenizer_files import store_vocabulary

    settings, model = job["settings"], open_source(job["inputs"]["source"])
    source = model.tokenizer()
    texts = read_amount(job["inputs"]["corpus"], settings, job["inputs"]["source"])
    lines = StoredLines.of_lines(texts)
    english = corpus_sentences(job["inputs"]["corpus"], "english")
    tokenizer, description = change_tokenizer(source, lines, settings, english)
    folder = job["outputs"]["folder"]
    return store_vocabulary(
        source, tokenizer, lines, description, folder, model.folder, english=english
    )


if __name__ == "__main__":
    run(stage, shared=True)
