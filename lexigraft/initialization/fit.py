"""Fit the initializer of a job and store its recipe or its rows."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import write_json
from lexigraft.auxiliary.compute import training_seconds
from lexigraft.auxiliary.language_files import read_dictionary
from lexigraft.auxiliary.token_vectors import load_vectors
from lexigraft.corpus.mixture import read_amount
from lexigraft.corpus.sample_file import read_translations
from lexigraft.hardware import device
from lexigraft.initialization.explanation import row_geometry
from lexigraft.initialization.interface import Initializer
from lexigraft.initialization.registry import declaration, initializer
from lexigraft.initialization.storage import load_initialization, save_initialization
from lexigraft.randomness import seed_from
from lexigraft.source.matrices import matrix_rows, read_matrices
from lexigraft.source.model import load_model, open_source
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.usage import MemoryGrowth


def fit_to_model(
    unfitted: Initializer,
    source: Path,
    source_tokenizer: PreTrainedTokenizerFast,
    tokenizer: PreTrainedTokenizerFast,
    *,
    corpus: Iterable[str] | None,
    auxiliary: Mapping[str, Any],
    seed: int,
    matrices: Mapping[str, Any] | None = None,
) -> Initializer:
    """Fit an initializer to the model in a Hugging Face folder, reading the inputs it needs there.

    `matrices` are the model's, if they have already been read.
    """
    inputs = dict(auxiliary)
    if "matrices" in unfitted.reads:
        inputs["matrices"] = matrices or read_matrices(source)
    if "model" in unfitted.reads:
        inputs["model"] = load_model(source, torch.float32, device())
    return unfitted.fit(
        source_tokenizer,
        tokenizer,
        corpus=corpus,
        n_source=len(matrices["input"]) if matrices else matrix_rows(source),
        auxiliary=inputs,
        seed=seed,
    )


def fit_initializer(job: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Fit the initializer that a job describes and write it to the job's output folder.

    Returns the names of the files and the other facts for the card. The job's `settings` are
    `method`, `options` and how much `text` it reads; its `inputs` are folders `source`,
    `tokenizer`, `corpus`, and, for methods that read them, `auxiliary` (role -> folder),
    `dictionaries` (files) or `samples` (a file, from which the translations from English are read).
    """
    settings, inputs = job["settings"], job["inputs"]
    folder = Path(job["outputs"]["folder"])
    prepared = open_source(inputs["source"])
    source, matrices = prepared.folder, read_matrices(prepared.folder, prepared.matrices)
    folders = inputs.get("auxiliary", {})
    auxiliary: dict[str, Any] = {role: load_vectors(vectors) for role, vectors in folders.items()}
    if paths := inputs.get("dictionaries"):
        auxiliary["dictionary"] = [words for path in paths for words in read_dictionary(path)]
    role = declaration(settings["method"]).pairs_role
    if role and (samples := inputs.get("samples")):
        auxiliary[role] = read_translations(samples)
    memory, began = MemoryGrowth(), time.monotonic()
    fitted = fit_to_model(
        initializer(settings["method"], **settings.get("options", {})),
        source,
        prepared.tokenizer(),
        load_tokenizer(inputs["tokenizer"]),
        corpus=read_amount(inputs["corpus"], settings, inputs["source"], inputs["tokenizer"]),
        auxiliary=auxiliary,
        seed=seed_from(*job["seed"]),
        matrices=matrices,
    )
    file = save_initialization(fitted, folder, matrices)
    seconds = time.monotonic() - began + sum(map(training_seconds, {*folders.values()}))
    peak_memory = memory.peak()
    write_json(folder / "fallbacks.json", fitted.fallbacks_)
    stored, prefixes = load_initialization(folder), {"input": "", "output": "output_"}
    geometry = {
        f"{prefixes[which]}{name}": value
        for which, matrix in matrices.items()
        for name, value in row_geometry(stored, matrix, fitted.pair_.source_ids, which).items()
    }
    return [file, "fallbacks.json"], {
        "fallbacks": len(fitted.fallbacks_),
        "fallback_tokens": fitted.fallbacks_[:20],
        "statistics": fitted.statistics() | geometry,
        "examples": fitted.examples(),
        "seconds": seconds,
        "peak_memory_bytes": peak_memory,
    }
