"""Fits one initializer and stores its recipe or its rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lexigraft import job as jobs
from lexigraft.atomic import write_json
from lexigraft.auxiliary.language_files import read_dictionary
from lexigraft.auxiliary.token_vectors import load_vectors
from lexigraft.hardware import device
from lexigraft.initialization.interface import Initializer
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.statistics import cosine_to_mean
from lexigraft.initialization.storage import load_initialization, save_initialization
from lexigraft.provenance import write_card
from lexigraft.randomness import seed_from
from lexigraft.source.model import (
    load_model,
    load_tokenizer,
    matrix_rows,
    open_source,
    read_matrices,
)


def stage(job: jobs.Job) -> None:
    settings, inputs = job["settings"], job["inputs"]
    folder = Path(job["outputs"]["folder"])
    source = open_source(inputs["source"]).folder
    fitted = initializer(settings["method"], **settings.get("options", {}))
    matrices = read_matrices(source)
    fitted.fit(
        load_tokenizer(source),
        load_tokenizer(inputs["tokenizer"]),
        corpus=_lines(Path(inputs["corpus"]) / "train.txt"),
        n_source=matrix_rows(source),
        auxiliary=_auxiliaries(inputs) | _of_source(fitted, source, matrices),
        seed=seed_from(*job["seed"]),
    )
    written = save_initialization(fitted, folder, matrices)
    write_json(folder / "fallbacks.json", fitted.fallbacks_)
    write_card(
        folder,
        job,
        [written, "fallbacks.json"],
        fallbacks=len(fitted.fallbacks_),
        fallback_tokens=fitted.fallbacks_[:20],
        statistics=fitted.statistics() | _cosines(fitted, folder, matrices),
        examples=fitted.examples(),
    )


def _auxiliaries(inputs: dict[str, Any]) -> dict[str, Any]:
    """The auxiliaries by role, a dictionary among them: of a group of languages all of theirs."""
    found: dict[str, Any] = {
        role: load_vectors(at) for role, at in inputs.get("auxiliary", {}).items()
    }
    if paths := inputs.get("dictionaries"):
        found["dictionary"] = [words for path in paths for words in read_dictionary(path)]
    return found


def _of_source(fitted: Initializer, source: Path, matrices: dict[str, Matrix]) -> dict[str, Any]:
    """What the method reads of the source model itself, by role."""
    given: dict[str, Any] = {"matrices": matrices} if "matrices" in fitted.reads else {}
    if "model" in fitted.reads:
        import torch

        model: Any = load_model(source, torch.float32)
        given["model"] = model.to(device())
    return given


def _cosines(
    fitted: Initializer, folder: Path, matrices: dict[str, Matrix]
) -> dict[str, float | None]:
    """How near the new rows of each matrix, as they were stored, are to the mean of all."""
    made, ids = load_initialization(folder), fitted.pair_.source_ids
    prefixes = {"input": "", "output": "output_"}
    return {
        f"{prefixes[which]}cosine_to_mean": cosine_to_mean(made, matrix, ids, which)
        for which, matrix in matrices.items()
    }


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield line.rstrip("\n")


if __name__ == "__main__":
    jobs.run(stage)
