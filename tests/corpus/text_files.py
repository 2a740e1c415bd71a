"""Text files in the formats that readers know, for tests."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pyarrow
from pyarrow import parquet

LINES = ["మొదటి వాక్యం", "δεύτερη πρόταση", "third"]
_COMPRESS = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: pyarrow.compress(content, "zstd", asbytes=True),
}


def write(folder: Path, name: str, content: str | bytes) -> Path:
    """Write a file, compressed as its ending says."""
    file = folder / name
    content = content if isinstance(content, bytes) else content.encode("utf-8")
    file.write_bytes(_COMPRESS.get(file.suffix, bytes)(content))
    return file


def write_json_lines(folder: Path, name: str, rows: list[dict]) -> Path:
    return write(folder, name, "".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(folder: Path, columns: dict, name: str = "a.parquet") -> Path:
    parquet.write_table(pyarrow.table(columns), folder / name, row_group_size=2)
    return folder / name
