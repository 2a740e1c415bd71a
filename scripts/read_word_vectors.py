"""Compute the vectors of a tokenizer's tokens from a file of word vectors."""

from lexigraft.artifacts.cards import describe_file
from lexigraft.job import Job, Written, run

_OPTIONS = ("unlisted_words", "pooling", "notation")


def stage(job: Job) -> Written:
    from lexigraft.auxiliary.language_files import read_dictionary
    from lexigraft.auxiliary.token_vectors import store_vectors
    from lexigraft.auxiliary.word_vector_files import open_word_vectors
    from lexigraft.auxiliary.word_vectors import align_vectors, read_word_vectors
    from lexigraft.source.model import open_tokenizer

    settings, inputs = job["settings"], job["inputs"]
    options = {key: value for key, value in settings.items() if key in _OPTIONS}
    tokenizer = open_tokenizer(inputs["tokenizer"])
    words = open_word_vectors(inputs["word_vectors"])
    vectors = read_word_vectors(tokenizer, words, **options)
    facts = {}
    if aligned_by := settings.get("aligned_by"):
        repeated = aligned_by == "dictionary-as-published"
        pairs = read_dictionary(inputs["dictionary"], repeated)
        english = inputs["english_word_vectors"]
        vectors, used = align_vectors(vectors, words, english, pairs, repeated)
        facts = {"pairs": len(pairs), "pairs_used": used}
    read = ("word_vectors", "english_word_vectors", "dictionary")
    files = {name: describe_file(inputs[name]) for name in read if name in inputs}
    return store_vectors(job, tokenizer, vectors, **facts, **files)


if __name__ == "__main__":
    run(stage, shared=True)
