"""Provenance of an output: settings, seeds, versions and checksums, in its `card.json`."""

import hashlib
import json
import platform
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from lexigraft.atomic import write_json

PACKAGES = (
    "lexigraft", "torch", "transformers", "tokenizers", "peft", "accelerate", "datasets",
    "sentencepiece", "fasttext-wheel", "numba", "numpy", "scipy", "sacrebleu", "seqeval",
    "safetensors", "snakemake", "ftfy", "myanmartools", "pyicu-wheels",
)  # fmt: skip
SEAL = "card_sha256"


def write_card(place: str | Path, job: dict[str, Any], files: list[str], **facts: Any) -> None:
    """Write a card, after all other files: its presence means that the output is complete.

    It also holds a checksum of its own content (`card_sha256`), since later stages read it.

    Parameters
    ----------
    place
        The folder, whose card is called `card.json`, or the file of a card in it.
    job
        The job description that the script ran.
    files
        Names of the files in the folder that make up the output, recorded with size and SHA-256.
    facts
        Results of the stage, by name: counts, fallbacks, statistics.
    """
    file = Path(place) if Path(place).suffix == ".json" else Path(place, "card.json")
    card = {
        **facts,
        "job": job,
        "files": {name: describe_file(file.parent / name) for name in sorted(files)},
        "versions": versions(),
    }
    write_json(file, sealed(card))


def sealed(card: dict[str, Any]) -> dict[str, Any]:
    """A card with the checksum of its own content."""
    return {**card, SEAL: _digest(card)}


def is_intact(card: dict[str, Any]) -> bool:
    """Whether a card is as it was written; one without a checksum is accepted."""
    return SEAL not in card or card[SEAL] == _digest({k: card[k] for k in card if k != SEAL})


def describe_file(path: str | Path) -> dict[str, Any]:
    """Size in bytes and SHA-256 of one file."""
    return {"bytes": Path(path).stat().st_size, "sha256": sha256_of(path)}


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def versions() -> dict[str, str]:
    """Versions of Python, lexigraft and the packages that affect its results, where installed."""
    return dict(_installed())


@cache
def _installed() -> dict[str, str]:
    # Once, not for every card and record: the metadata of twenty packages take 20 ms to read.
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _digest(card: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(card).encode()).hexdigest()
