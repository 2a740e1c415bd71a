"""Fits the initializer of a job and stores its recipe or its rows."""

from pathlib import Path
from typing import Any

from lexigraft.atomic import write_json
from lexigraft.auxiliary.language_files import read_dictionary
from lexigraft.auxiliary.token_vectors import load_vectors
from lexigraft.corpus.lines import read_part
from lexigraft.hardware import device
from lexigraft.initialization.explanation import cosine_to_mean
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.storage import load_initialization, save_initialization
from lexigraft.randomness import seed_from
from lexigraft.source.model import (
    load_model,
    load_tokenizer,
    matrix_rows,
    open_source,
    read_matrices,
)


def fit_initializer(job: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Fit the initializer that a job describes and write it to the job's output folder.

    Returns the names of the files and what the card says beside them.

    Parameters
    ----------
    job
        `settings`: `method` and `options`; `inputs`: folders `source`, `tokenizer`, `corpus`, and
        of methods that read them `auxiliary` (role -> folder) and `dictionaries` (files, of a group
        of languages all of theirs); `outputs`: `folder`; `seed`: a list.
    """
    settings, inputs = job["settings"], job["inputs"]
    folder = Path(job["outputs"]["folder"])
    source = open_source(inputs["source"]).folder
    fitted = initializer(settings["method"], **settings.get("options", {}))
    matrices = read_matrices(source)
    auxiliary: dict[str, Any] = {
        role: load_vectors(vectors) for role, vectors in inputs.get("auxiliary", {}).items()
    }
    if paths := inputs.get("dictionaries"):
        auxiliary["dictionary"] = [words for path in paths for words in read_dictionary(path)]
    if "matrices" in fitted.reads:
        auxiliary["matrices"] = matrices
    if "model" in fitted.reads:
        import torch

        auxiliary["model"] = load_model(source, torch.float32, device())
    fitted.fit(
        load_tokenizer(source),
        load_tokenizer(inputs["tokenizer"]),
        corpus=read_part(inputs["corpus"]),
        n_source=matrix_rows(source),
        auxiliary=auxiliary,
        seed=seed_from(*job["seed"]),
    )
    file = save_initialization(fitted, folder, matrices)
    write_json(folder / "fallbacks.json", fitted.fallbacks_)
    stored, prefixes = load_initialization(folder), {"input": "", "output": "output_"}
    cosines = {
        f"{prefixes[which]}cosine_to_mean": cosine_to_mean(
            stored, matrix, fitted.pair_.source_ids, which
        )
        for which, matrix in matrices.items()
    }
    return [file, "fallbacks.json"], {
        "fallbacks": len(fitted.fallbacks_),
        "fallback_tokens": fitted.fallbacks_[:20],
        "statistics": fitted.statistics() | cosines,
        "examples": fitted.examples(),
    }
