"""The stage `auxiliary`: compute the vectors that a job describes, and store them."""

import time
from pathlib import Path
from typing import Any

from lexigraft.artifacts.cards import CARD, describe_file, read_card
from lexigraft.auxiliary.registry import auxiliary_kind
from lexigraft.auxiliary.token_vectors import load_vectors, save_vectors
from lexigraft.corpus.mixture import read_amount
from lexigraft.job import Job, Written
from lexigraft.randomness import seed_from
from lexigraft.source.model import open_tokenizer


def compute_auxiliary(job: Job) -> Written:
    """Compute and store the vectors of a tokenizer's tokens; returns the file's name and facts.

    The `job` has `settings`, those of an entry with its `kind`; `inputs`: `tokenizer`, and what the
    kind reads, of which `corpus` and `known` are folders here; `outputs`; and a `seed`.
    """
    settings, inputs = job["settings"], dict(job["inputs"])
    kind = auxiliary_kind(settings["kind"])
    tokenizer = open_tokenizer(inputs["tokenizer"])
    if "corpus" in inputs:
        folders = inputs.get("source", ""), inputs["tokenizer"]
        inputs["corpus"] = read_amount(inputs["corpus"], settings, *folders)
    if known := inputs.get("known"):
        inputs["known"] = open_tokenizer(known["tokenizer"]), load_vectors(known["vectors"])
    start = time.monotonic()
    seed = seed_from(*job["seed"]) if kind.trains else 0
    vectors, facts = kind.compute(tokenizer, settings, inputs, seed)
    sizes: dict[str, Any] = {"tokens": len(tokenizer), "tokens_with_vector": len(vectors.tokens)}
    if kind.trains:
        sizes["seconds"] = time.monotonic() - start
    paths = {name: inputs[name] for name in kind.reads(settings) if name in inputs}
    files = {name: describe_file(path) for name, path in paths.items() if isinstance(path, str)}
    return [save_vectors(vectors, job["outputs"]["folder"])], sizes | facts | files


def training_seconds(folder: str | Path) -> float:
    """Seconds that training the vectors of a folder took, from its card; 0 if they were read."""
    file = Path(folder) / CARD
    return read_card(file.parent).get("seconds", 0.0) if file.is_file() else 0.0
