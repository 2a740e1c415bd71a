"""JSON lines that are compressed by zstd, in folders or on the hub: `datasets` reads none of them.

It asks for a package of its own to decompress them, where pyarrow does it.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from lexigraft.errors import UserError

SUFFIX = ".zst"
Rows = Iterator[tuple[Mapping[str, Any], str]]


def zstd_shards(addresses: Sequence[str]) -> list[Callable[[], Rows]]:
    """What streams the rows of each file, each row with its place for messages.

    An address is a path or `hf://datasets/<name>@<revision>/<path>`, and may be a pattern. The
    files are in the order of the addresses, and by name. Raises a UserError for an address without
    a file, and as it is read, for what is no JSON object.
    """
    from fsspec.core import url_to_fs

    found: list[Callable[[], Rows]] = []
    for address in addresses:
        system, path = url_to_fs(address)
        files = sorted(system.glob(path))
        if not files:
            raise UserError(f"{address}: there is no such file")
        found += [partial(_rows, system, file) for file in files]
    return found


def _rows(system: Any, file: str) -> Rows:
    import pyarrow

    with system.open(file, "rb") as raw:
        decompressed = pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd")
        for number, line in enumerate(io.BufferedReader(decompressed), start=1):
            where = f"{file}: line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UserError(f"{where} is not JSON ({error})") from None
            if not isinstance(row, dict):
                raise UserError(f"{where} is not a JSON object; each line must be one")
            yield row, where
