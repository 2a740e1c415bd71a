"""Encode the texts of a tokenizer's tokens with a sentence encoder."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.auxiliary.sentence_encoder import SentenceEncoder, encode_tokens
    from lexigraft.auxiliary.token_vectors import store_vectors
    from lexigraft.source.model import open_tokenizer

    tokenizer = open_tokenizer(job["inputs"]["tokenizer"])
    encoder = SentenceEncoder(job["inputs"]["encoder"])
    vectors = encode_tokens(tokenizer, encoder)
    return store_vectors(
        job, tokenizer, vectors, encoder={"name": encoder.name, "revision": encoder.revision}
    )


if __name__ == "__main__":
    run(stage, shared=True)
