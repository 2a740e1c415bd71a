"""Read lines of large files on the web as they arrive, and store the received bytes on disk.

Interrupted reading resumes with the bytes on disk and then fetches those that follow. So no byte of
an 80 GB file is fetched twice, and no more are fetched than are read.
"""

import hashlib
import lzma
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lexigraft.corpus.lines import DAMAGED
from lexigraft.errors import UserError
from lexigraft.source.download import ChangedError, PartialFile

_BLOCK = 1 << 20  # bytes read from disk at a time
# Suffix of a compressed file -> function that creates a decompressor for one of its streams.
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".xz": lzma.LZMADecompressor,
    ".gz": lambda: zlib.decompressobj(wbits=31),
}


def can_read(address: str) -> bool:
    """Whether `remote_lines` can read the file at an address: text, plain or compressed."""
    ending = Path(urlsplit(address).path).suffix
    return urlsplit(address).scheme in ("http", "https") and ending in (".txt", *_DECOMPRESSORS)


def remote_lines(address: str, folder: str | Path | None = None) -> Iterator[str]:
    """The lines of a file on the web without line feeds; its bytes are stored in `folder`.

    Without a folder they are stored in a temporary one. A file whose name ends in `.xz` or `.gz` is
    decompressed, stream after stream. Raises a `UserError` if it cannot be fetched, is damaged, has
    changed since its beginning was stored, or is not UTF-8.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            yield from remote_lines(address, temporary)
        return
    name = hashlib.sha256(address.encode()).hexdigest()[:16]
    part = PartialFile(address, Path(folder, name))
    make = _DECOMPRESSORS.get(Path(urlsplit(address).path).suffix)
    number, rest = 0, b""
    try:
        for content in _decompressed(_blocks(part), make):
            *lines, rest = (rest + content).split(b"\n")
            for line in lines:
                number += 1
                yield line.decode("utf-8")
        if rest:
            number += 1
            yield rest.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{address}: line {number} is not UTF-8 ({error.reason})") from None
    except DAMAGED as error:
        part.forget()
        raise ChangedError(
            f"{address}: the compressed file is damaged after line {number} ({error}); run again "
            "to download it from the beginning"
        ) from None
    if number == 0:
        raise UserError(f"{address}: the file is empty")


def _blocks(part: PartialFile) -> Iterator[bytes]:
    """The bytes of a file: those on disk, then those still to be fetched."""
    if part.size:
        with part.path.open("rb") as file:
            while block := file.read(_BLOCK):
                yield block
    yield from part.more()


def _decompressed(blocks: Iterator[bytes], make: Callable[[], Any] | None) -> Iterator[bytes]:
    if make is None:
        yield from blocks
        return
    stream = make()
    for block in blocks:
        while block:
            if stream.eof:  # another stream follows, or zero padding, as in xz
                block = block.lstrip(b"\0")
                if not block:
                    break
                stream = make()
            yield stream.decompress(block)
            block = stream.unused_data
    if not stream.eof:
        raise EOFError("it ends in the middle of a stream")
