"""Rule measure_tokenizer: how a tokenizer cuts a language's text, without any model."""

from lexigraft.atomic import write_json
from lexigraft.evaluation.fragmentation import measure_tokenizer
from lexigraft.evaluation.texts import group_rows, sentences, translation_pairs
from lexigraft.job import Job, run
from lexigraft.provenance import versions
from lexigraft.source.hub import find_tokenizer


def stage(job: Job) -> None:
    corpus = job["inputs"]["corpus"]
    tokenizer, commit = find_tokenizer(job["settings"], job["inputs"].get("package"))
    # The same content in every language, where there is a translation.
    pairs = translation_pairs(corpus)
    texts = [pair["target"] for pair in pairs] or sentences(corpus, "heldout")
    train = sentences(corpus, "train")
    english = [pair["source"] for pair in pairs]
    found = measure_tokenizer(tokenizer, texts=texts, english=english, train=train)
    write_json(
        job["outputs"]["file"],
        {
            "tokenizer": job["tokenizer"],
            "language": job["language"],
            "metrics": found.metrics,
            "details": {
                "texts": len(texts),
                "translated": bool(pairs),
                "train": len(train),
                # What a bootstrap resamples; of many texts, sums over groups of them.
                "tokens": [sum(group) for group in group_rows(found.tokens)],
            },
            "commit": commit,
            "settings": job["settings"],
            "versions": versions(),
        },
    )


if __name__ == "__main__":
    run(stage)
