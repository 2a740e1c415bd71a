"""Streamed lines of UTF-8 text files, plain or compressed; other encodings are errors."""

import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from lexigraft.errors import UserError

# Files that Windows editors save as "Unicode" begin with one of these marks.
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def _open_zstd(path: Path, mode: str) -> IO[bytes]:
    # The standard library has no zstd reader before Python 3.14.
    import pyarrow

    return io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd"))


# Suffix of a compressed file -> function that opens it.
_OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
}
# Exceptions for truncated or damaged compressed files; for zstd it is `OSError`.
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a file without line feeds, but with carriage returns and byte order marks.

    A file whose name ends in `.gz`, `.xz` or `.zst` is decompressed. Raises `UserError` if it is
    missing, empty, not UTF-8 (with file, line and byte), or a damaged compressed file.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    offset = number = 0
    damaged = (*DAMAGED, OSError) if path.suffix == ".zst" else DAMAGED
    try:
        with _OPENERS.get(path.suffix, Path.open)(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                yield _decode(line, path, number, offset).removesuffix("\n")
                offset += len(line)
    except damaged as error:
        raise UserError(
            f"{path}: the compressed file is damaged after line {number} ({error})"
        ) from None
    if number == 0:
        raise UserError(f"{path}: the file is empty")


def corpus_sentences(corpus: str | Path, name: str, limit: int | None = None) -> list[str]:
    """The first `limit` lines of `heldout.txt`, `english.txt` or another text of a corpus folder.

    Blank lines do not count. Raises `UserError` if the file is missing.
    """
    file = Path(corpus, f"{name}.txt")
    if not file.exists():
        raise UserError(f"{file}: missing; run the corpus stage of this language again")
    if not file.stat().st_size:
        return []
    return list(islice(filter(None, read_lines(file)), limit))


def _decode(line: bytes, path: Path, number: int, offset: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        encoding = "UTF-16" if number == 1 and line.startswith(_UTF_16_MARKS) else "its encoding"
        raise UserError(
            f"{path}: line {number} is not UTF-8 (byte {offset + error.start} of the file is "
            f"0x{line[error.start]:02x}); convert it: iconv -f {encoding} -t UTF-8"
        ) from None
