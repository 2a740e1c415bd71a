"""Rule measure_alignment: how much of a text survives when an initializer renames its tokens."""

import json
from pathlib import Path
from typing import Any

from lexigraft.atomic import write_json
from lexigraft.evaluation.alignment import SentenceEncoder, alignment
from lexigraft.evaluation.texts import draw, sentences
from lexigraft.initialization.dense_rows import DenseRows
from lexigraft.initialization.recipe_pair import RecipePair
from lexigraft.initialization.storage import load_initialization
from lexigraft.job import Job, run
from lexigraft.provenance import versions
from lexigraft.source.model import load_tokenizer, open_source


def stage(job: Job) -> None:
    inputs, settings = job["inputs"], job["settings"]
    made = load_initialization(inputs["initialization"])
    metrics: dict[str, float | int] = {}
    details: dict[str, Any] = {}
    if isinstance(made, DenseRows):
        details["not_measured"] = "its rows are drawn: no source token stands for a new one"
    else:
        recipe = made.recipe("input") if isinstance(made, RecipePair) else made
        target = load_tokenizer(inputs["tokenizer"])
        ids = target.get_vocab()
        fallbacks = json.loads(Path(inputs["initialization"], "fallbacks.json").read_text("utf-8"))
        texts = draw(sentences(inputs["corpus"], "heldout"), settings["sentences"], job, "heldout")
        encoder = SentenceEncoder(inputs["encoder"]) if inputs.get("encoder") else None
        metrics = alignment(
            load_tokenizer(open_source(inputs["source"]).folder),
            target,
            recipe,
            texts,
            fallbacks=[ids[token] for token in fallbacks],
            encoder=encoder,
        )
        details = {"sentences": len(texts), "fallbacks": len(fallbacks)}
        details["encoder"] = encoder and encoder.described()
    write_json(
        job["outputs"]["file"],
        {
            **job["cell"],
            "metrics": metrics,
            "details": details,
            "settings": settings,
            "seed": job["seed"],
            "versions": versions(),
        },
    )


if __name__ == "__main__":
    run(stage)
