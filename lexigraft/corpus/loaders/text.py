"""Files with one text per line, JSON object or row; the ending of a file determines which."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.loader import COLUMN, Inputs, Loader, Shard
from lexigraft.corpus.local_files import text_files
from lexigraft.corpus.tables import read_json_lines, read_parquet, text_of
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings, optional

DEFAULT_FIELD = "text"
# Ending of a file -> function that reads its rows. Other files are read by lines.
_ROW_READERS = {".jsonl": read_json_lines, ".parquet": read_parquet}


class TextFiles(Settings):
    """Files in the format of their ending: one text per line, JSON object or row of a table."""

    loader: Literal["text"]
    paths: list[LocalPath] = Field(
        min_length=1, description="files, which may be compressed, or folders"
    )
    field: str = optional("of `.jsonl` and `.parquet` files: " + COLUMN)


def read_texts(paths: Iterable[str | Path], field: str = DEFAULT_FIELD) -> Iterator[str]:
    """Stream the texts of files, whose format is determined by their suffix.

    `.parquet` tables and `.jsonl` files have one text per row, in the column or field `field`; all
    other files have one text per line. All but tables may be compressed: `.jsonl.gz`, `.txt.xz`,
    `.zst`, `.bz2`. For a folder, its `text_files` are read. Raises `UserError` with the file and
    the line or row that is wrong.

    Examples
    --------
    >>> from pathlib import Path
    >>> from lexigraft.corpus import read_texts
    >>> _ = Path("lines.txt").write_text("mto na mvua\\nmto na maji\\n")
    >>> _ = Path("rows.jsonl").write_text('{"text": "maji"}\\n')
    >>> list(read_texts(["lines.txt", "rows.jsonl"]))
    ['mto na mvua', 'mto na maji', 'maji']
    """
    for path in paths:
        for file in text_files(path):
            ending = next((suffix for suffix in file.suffixes[-2:] if suffix in _ROW_READERS), None)
            if ending is None:
                yield from read_lines(file)
            else:
                rows = _ROW_READERS[ending](file, [field])
                yield from (text_of(row, field, where) for row, where in rows)


def _shards(text: Mapping[str, Any], _: Inputs) -> list[Shard]:
    field = text.get("field", DEFAULT_FIELD)
    files = [file for path in text["paths"] for file in text_files(path)]
    return [partial(read_texts, [file], field) for file in files]


LOADER = Loader(text=(TextFiles,), read_texts=_shards)
