"""Files with one text per line, JSON object or row; the ending of a file determines which."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.loader import COLUMN, Inputs, Loader, Shard
from lexigraft.corpus.loaders.csv import read_csv, text_column
from lexigraft.corpus.loaders.parquet import read_parquet
from lexigraft.corpus.local_files import text_files
from lexigraft.corpus.readers import column_texts, json_rows
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings, optional

DEFAULT_FIELD = "text"


class TextFiles(Settings):
    """Files in the format of their ending: one text per line, JSON object or row of a table."""

    loader: Literal["text"]
    paths: list[LocalPath] = Field(
        min_length=1, description="files, which may be compressed, or folders"
    )
    field: str = optional(
        f"of `.jsonl`, `.parquet`, `.csv` and `.tsv` files: {COLUMN}; of the latter two, without "
        "such a column, `sentence` or the only column that is not numbers"
    )


def read_texts(paths: Iterable[str | Path], field: str = DEFAULT_FIELD) -> Iterator[str]:
    """Stream the texts of files, whose format is determined by their suffix.

    `.parquet`, `.csv`, `.tsv` and `.jsonl` files have one text per row, in the column or field
    `field`; a CSV file without the default field is read by its `text_column`. All other files have
    one text per line. All but Parquet may be compressed: `.jsonl.gz`, `.txt.xz`, `.zst`, `.bz2`.
    For a folder, its `text_files` are read. Raises `UserError` with the file and the line or row
    that is wrong.

    Examples
    --------
    >>> from pathlib import Path
    >>> from lexigraft.corpus import read_texts
    >>> _ = Path("lines.txt").write_text("mto na mvua\\nmto na maji\\n")
    >>> _ = Path("rows.jsonl").write_text('{"text": "maji"}\\n')
    >>> list(read_texts(["lines.txt", "rows.jsonl"]))
    ['mto na mvua', 'mto na maji', 'maji']
    """
    for file in (file for path in paths for file in text_files(path)):
        if ".parquet" in file.suffixes[-2:]:
            yield from column_texts(read_parquet(file, [field]), field)
        elif ".jsonl" in file.suffixes[-2:]:
            yield from column_texts(json_rows(read_lines(file), file), field)
        elif {".csv", ".tsv"} & set(file.suffixes[-2:]):
            column = text_column(file) if field == DEFAULT_FIELD else field
            yield from column_texts(read_csv(file, [column]), column)
        else:
            yield from read_lines(file)


def _shards(text: Mapping[str, Any], _: Inputs) -> list[Shard]:
    field = text.get("field", DEFAULT_FIELD)
    files = [file for path in text["paths"] for file in text_files(path)]
    return [partial(read_texts, [file], field) for file in files]


LOADER = Loader(text=(TextFiles,), read_texts=_shards)
