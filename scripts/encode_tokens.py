"""Encode the texts of a tokenizer's tokens with a sentence encoder, if not encoded already."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.auxiliary.sentence_encoder import SentenceEncoder, encode_tokens
    from lexigraft.auxiliary.token_vectors import load_vectors, store_vectors
    from lexigraft.source.model import open_tokenizer

    inputs, known = job["inputs"], None
    tokenizer, encoder = open_tokenizer(inputs["tokenizer"]), SentenceEncoder(inputs["encoder"])
    if of_source := inputs.get("known"):
        known = open_tokenizer(of_source["tokenizer"]), load_vectors(of_source["vectors"])
    vectors = encode_tokens(tokenizer, encoder, known)
    return store_vectors(
        job, tokenizer, vectors, encoder={"name": encoder.name, "revision": encoder.revision}
    )


if __name__ == "__main__":
    run(stage, shared=True)
