"""Cards: settings, seeds and versions of an output, and the size and SHA-256 of each of its files.

A stage checks its inputs: the size of every file, and the SHA-256 of files up to 64 MB and of
larger ones that were written after their card; `lexigraft.artifacts.verification` hashes all.
"""

import hashlib
import json
import os
import platform
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from lexigraft.artifacts.atomic import write_json
from lexigraft.errors import UserError

PACKAGES = (
    "lexigraft", "torch", "transformers", "tokenizers", "peft", "accelerate", "datasets",
    "sentencepiece", "fasttext-wheel", "numba", "numpy", "scipy", "sacrebleu", "seqeval",
    "safetensors", "snakemake", "ftfy", "myanmartools", "pyicu-wheels",
)  # fmt: skip
CARD = "card.json"
# Completion record of a job, next to its card: the fingerprint of the job and a copy of the card.
COMPLETED = ".completed{}.json"
SEAL = "card_sha256"
INPUTS = "input_checksums"  # outputs of other jobs that a job read: relative path -> checksum
SMALL = 64 << 20  # bytes; a tenth of a second to hash
# A folder among the inputs of a job counts with all its files. Ending in one of these, it counts
# with those that are read: those of a model, or the texts in it and in its subfolders.
MODEL_FILES = "/*.{safetensors,json,model,txt,jinja}"
TEXT_FILES = "/**/*.{txt,jsonl,parquet}"  # compressed ones included


def write_card(
    output: str | Path,
    job: dict[str, Any],
    files: list[str],
    read: Mapping[str, str] | None = None,
    **facts: Any,
) -> None:
    """Write a card after all other files: its presence means that the output is complete.

    `output` is the folder, or the path of a card; `files` are the names of the output files, `read`
    the `output_checksums` of the job's inputs, and `facts` named results of the stage.
    """
    file = Path(output) if Path(output).suffix == ".json" else Path(output, CARD)
    described = {name: describe_file(file.parent / name) for name in sorted(files)}
    if read is not None:
        facts[INPUTS] = relative_paths(read, file.parent)
    write_json(file, sealed({**facts, "job": job, "files": described, "versions": versions()}))


def relative_paths(read: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The same checksums by paths relative to a folder: results may be moved as a whole."""
    return {os.path.relpath(path, folder): checksum for path, checksum in read.items()}


def sealed(card: dict[str, Any]) -> dict[str, Any]:
    """Add the checksum of its own content to a card."""
    return {**card, SEAL: _digest(card)}


def describe_file(path: str | Path) -> dict[str, Any]:
    """Size in bytes and SHA-256 of one file."""
    return {"bytes": Path(path).stat().st_size, "sha256": sha256_of(path)}


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache  # not read for every card and record: the metadata of twenty packages take 20 ms to read
def versions() -> dict[str, str]:
    """Versions of Python, lexigraft and the installed packages that affect its results."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


@cache
def commit_of_code() -> str | None:
    """The commit of the clone that lexigraft runs from, marked if files were changed, or None."""
    root = Path(__file__).resolve().parent.parent.parent
    if not (root / ".git").exists():
        return None
    describe = ["git", "describe", "--always", "--abbrev=12", "--dirty= (changed)"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(describe, cwd=root, capture_output=True, text=True, check=True)
        return done.stdout.strip()
    return None


def check_inputs(inputs: Any) -> None:
    """Check every file and folder in a job's nested inputs against the card that lists it, if any.

    For a folder, all listed files in it are checked; anything else, such as a hub name, passes. A
    UserError names the first file that is missing or damaged.
    """
    for path in (Path(leaf) for leaf in leaves(inputs) if isinstance(leaf, str | Path)):
        for folder, file, described in listed_at(path):
            card = folder / CARD
            since = card.stat().st_mtime_ns if card.is_file() else 0
            if fault := fault_of(file, described, since):
                raise UserError(f"{file}: {fault}{_remedy(folder)}")


def leaves(inputs: Any) -> Iterator[Any]:
    """Paths and names in the nested lists and mappings of a job's inputs; of folders the paths."""
    if isinstance(inputs, Mapping):
        inputs = list(inputs.values())
    if isinstance(inputs, list | tuple):
        for value in inputs:
            yield from leaves(value)
    elif inputs is not None:
        is_part = isinstance(inputs, str) and inputs.endswith((MODEL_FILES, TEXT_FILES))
        yield folder_of(inputs) if is_part else inputs


def folder_of(path: str | Path) -> str:
    """The folder of an input that ends in `MODEL_FILES` or `TEXT_FILES`; another one unchanged."""
    return str(path).removesuffix(MODEL_FILES).removesuffix(TEXT_FILES)


def read_card(folder: Path, name: str = CARD) -> dict[str, Any]:
    """Read a card; raises a UserError if it is damaged. A card without a checksum is accepted."""
    with suppress(OSError, ValueError):
        card = json.loads((folder / name).read_text("utf-8"))
        if isinstance(card, dict):
            content = {key: value for key, value in card.items() if key != SEAL}
            if SEAL not in card or card[SEAL] == _digest(content):
                return card
    raise UserError(f"{folder / name}: damaged{_remedy(folder)}")


def record_file(card: str | Path) -> Path:
    """The completion record beside a card; a folder with several cards has one for each."""
    card = Path(card)
    return card.with_name(COMPLETED.format(card.stem.removeprefix("card")))


def read_record(card: str | Path) -> dict[str, Any] | None:
    """`fingerprint` and `card` of the job that last completed an output; None if damaged."""
    with suppress(OSError, ValueError):
        record = json.loads(record_file(card).read_text("utf-8"))
        if isinstance(record, dict) and isinstance(record.get("card"), dict):
            return record if "fingerprint" in record else None
    return None


def cards_of(folder: Path) -> Iterator[dict[str, Any]]:
    """The card of a folder, and those of its evaluation records: their completion records.

    A damaged card raises a UserError.
    """
    if (folder / CARD).is_file():
        yield read_card(folder)
    for file in sorted(folder.glob(COMPLETED.format("*"))):
        name = file.name.removeprefix(".completed")
        record = read_record(file.with_name(f"card{name}"))
        if record and record["card"].keys() <= {"files", INPUTS}:
            yield record["card"]


def listed(folder: Path, card: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The files that a card lists, each with its size and checksum.

    Files of a source model that is used in place are in the folder that `source.json` names.
    """
    for name, described in described_files(card, "files"):
        yield folder / name, described
    if files := described_files(card, "model_files"):
        # A caller that checks each file has already checked source.json, yielded above.
        model = folder / json.loads((folder / "source.json").read_text("utf-8"))["path"]
        for name, described in files:
            yield model / name, described


def listed_at(path: Path) -> Iterator[tuple[Path, Path, dict[str, Any]]]:
    """What the nearest card, in the folder or above, lists at a path: a file, or all of a folder.

    Yields the folder of the card, and each file, which may be missing, with its size and checksum.
    """
    for folder in (path, *path.parents) if path.is_dir() else path.parents:
        # Records are next to their completion records: folders further up are not searched.
        near = folder in (path, path.parent)
        cards = cards_of(folder) if near or (folder / CARD).is_file() else ()
        is_listed = False
        for card in cards:
            for file, described in listed(folder, card):
                if folder == path or file == path or path in file.parents:
                    is_listed = True
                    yield folder, file, described
        if is_listed:
            return


def fault_of(file: Path, described: Mapping[str, Any], since: int = 0) -> str | None:
    """What is wrong with a file, given its `bytes` and `sha256`; None if it is intact.

    A large file that is not newer than `since`, the time of its card in nanoseconds, is not hashed.
    """
    try:
        facts = file.stat()
    except FileNotFoundError:
        return "missing"
    if not stat.S_ISREG(facts.st_mode):
        return "not a file"
    if facts.st_size != described["bytes"]:
        return f"has {facts.st_size} bytes instead of {described['bytes']}"
    is_hashed = facts.st_size <= SMALL or facts.st_mtime_ns > since
    if is_hashed and sha256_of(file) != described["sha256"]:
        return "damaged, its SHA-256 differs from the card's"
    return None


def described_files(card: Mapping[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    """The entries under a key of a card that describe files."""
    files = card.get(key)
    entries = files.items() if isinstance(files, dict) else ()
    return [
        (name, described)
        for name, described in entries
        if isinstance(described, dict) and {"bytes", "sha256"} <= described.keys()
    ]


def _remedy(folder: Path) -> str:
    return f"; restore it, or delete {folder} and run again to recompute it"


def _digest(card: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(card).encode()).hexdigest()
