"""Streaming readers of text, parallel text and tables: files, datasets and catalogues.

Readers return text unchanged; `lexigraft.corpus.cleaning` cleans it. A null value is read as an
empty text, which cleaning counts as blank. Settings name a `loader`, which needs further keys:

- `catalogue`: `package`, `locale` (see `read_catalogue`);
- `html`: `package`, and `page`, a file in it (see `read_page`);
- `text`: `paths` of files or folders, and `field`, see `read_texts`;
- `tsv`: `path`; English is in `source_column` and the translation in `target_column`, numbered from
  1, by default the first two; blank lines are skipped, and quotes have no special meaning;
- `files`: `source` and `target`, two files whose lines correspond by number;
- `jsonl`: `path` of a file with one JSON object per line, and `field`, or for pairs `source_field`
  and `target_field`;
- `parquet`: `path`, and `column`, or for pairs `source_column` and `target_column`;
- `datasets`, for datasets of that library, streamed, so that nothing is stored: `name` (a hub name,
  a local folder, also one that `save_to_disk` wrote, or a format: `text`, `json`, `csv`, `parquet`;
  datasets with a loading script are refused), the columns as for `parquet`, for a text also
  `line_break`, the string that represents a line feed in the column, and optionally `split`
  (`train` by default), `config` and `revision` as in `datasets.load_dataset`, and `data_files`,
  patterns of the files to read, or for a format paths or addresses
  (`hf://datasets/<name>@<revision>/<path>`), possibly compressed, which form the split `train`.
  Pairs may also come from two configurations with corresponding rows, such as FLORES+:
  `source_config`, `target_config`, `column` and `id_column`.

`translation.te` as a field or column is the field `te` inside the field `translation`. The default
field or column of a text is `text`. Plain files may be compressed: `.gz`, `.xz`, `.zst`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lexigraft.corpus.data_sets import dataset_shards, name_of, read_dataset, web_texts
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.local_files import text_files
from lexigraft.corpus.remote_lines import remote_lines
from lexigraft.corpus.tables import Rows, read_json_lines, read_parquet, text_of, value_of
from lexigraft.errors import UserError

Pair = tuple[str, str]
Settings = Mapping[str, Any]
_TABLES = ("jsonl", "parquet", "datasets")
_FIELD = "text"  # default field or column of JSON lines and tables


def read_texts(paths: Iterable[str | Path], field: str = _FIELD) -> Iterator[str]:
    """Stream the texts of files, whose format is determined by their suffix.

    `.parquet` tables and `.jsonl` files have one text per row, in the column or field `field`; all
    other files have one text per line. All but tables may be compressed: `.jsonl.gz`, `.txt.xz`,
    `.zst`. For a folder, its `text_files` are read. Raises `UserError` with the file and the line
    or row that is wrong.

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
            ending = next((one for one in file.suffixes[-2:] if one in _READ_BY_ENDING), None)
            if ending is None:
                yield from read_lines(file)
            else:
                rows = _READ_BY_ENDING[ending](file, [field])
                yield from (text_of(row, field, where) for row, where in rows)


def read_sentences(settings: Settings, package: str | Path | None = None) -> Iterator[str]:
    """Stream a text: loaders `catalogue`, `html`, `text`, `jsonl`, `parquet` and `datasets`.

    `package` is the folder of the unpacked package that a text is in, here and in `read_pairs`.
    """
    for shard in text_shards(settings, package):
        yield from shard()


def text_shards(
    settings: Settings, package: str | Path | None = None, store: str | Path | None = None
) -> list[Callable[[], Iterator[str]]]:
    """Functions that stream one part of a text each: one file, for loaders `text` and `datasets`.

    The arguments are those of `read_sentences`. Text files on the web are stored as they are read:
    in the folder `store`, so that interrupted reading can resume, or in a temporary one
    (`remote_lines`).
    """
    settings = _Text(settings, "text", ("catalogue", "html", "text", *_TABLES))
    if settings["loader"] == "catalogue":
        return [lambda: (target for _, target in _read_package(settings, package))]
    if settings["loader"] == "html":
        html = import_module("lexigraft.bundled.html")
        return [lambda: iter(html.read_page(_folder(settings, package), settings["page"]))]
    if settings["loader"] == "text":
        field = settings.get("field", _FIELD)
        files = [file for path in settings["paths"] for file in text_files(path)]
        return [partial(read_texts, [file], field) for file in files]
    if addresses := web_texts(settings):
        return [partial(remote_lines, address, store) for address in addresses]
    column = settings.get("field" if settings["loader"] == "jsonl" else "column", _FIELD)

    line_break = settings.get("line_break", "\n")

    def texts(rows: Callable[[], Rows]) -> Iterator[str]:
        return (text_of(row, column, where).replace(line_break, "\n") for row, where in rows())

    if settings["loader"] == "datasets":
        return [partial(texts, rows) for rows in dataset_shards(settings, [column])]
    return [partial(texts, lambda: _read_rows(settings, [column]))]


def read_pairs(settings: Settings, package: str | Path | None = None) -> Iterator[Pair]:
    """Stream (English, translation) pairs: all loaders but `text` and `html`."""
    return (pair for pair, _ in read_scored_pairs(settings, package))


def read_scored_pairs(
    settings: Settings, package: str | Path | None = None
) -> Iterator[tuple[Pair, Any]]:
    """Stream pairs like `read_pairs`, each with its quality as found in the text.

    `settings` may name the location of the quality: `quality_column` for `tsv`, `parquet` and
    `datasets`; `quality_field` for `jsonl`; `quality` for `files`, a file with one number per line.
    Without it, every quality is None.
    """
    loaders = ("catalogue", "tsv", "files", *_TABLES)
    return _read_pairs(_Text(settings, "parallel", loaders), package)


def read_articles(settings: Settings) -> Iterator[Pair]:
    """Stream (article, summary) pairs: loaders `files`, `jsonl`, `parquet` and `datasets`.

    The article is the source, the summary the target.
    """
    text = _Text(settings, "summarization", ("files", *_TABLES))
    return (pair for pair, _ in _read_pairs(text, None))


def read_rows(settings: Settings, columns: list[str] | None = None) -> Rows:
    """Stream the rows of a table, each with its location for messages.

    Loaders `jsonl`, `parquet` and `datasets` without the keys for columns. `columns` are the
    columns to read, if the format allows a selection; None for all.
    """
    return _read_rows(_Text(settings, "text", _TABLES), columns)


class _Text(dict):
    """Settings of a text, with an error for missing keys that its loader needs."""

    def __init__(self, settings: Settings, key: str, loaders: Collection[str]):
        super().__init__(settings)
        self._key = key
        if settings["loader"] not in loaders:
            raise UserError(
                f"{key}.loader: '{settings['loader']}' is not one of {', '.join(loaders)}"
            )

    def __missing__(self, key: str) -> Any:
        raise UserError(f"{self._key}: the loader '{self['loader']}' needs the key '{key}'")


def _read_pairs(text: _Text, package: str | Path | None) -> Iterator[tuple[Pair, Any]]:
    if text["loader"] == "catalogue":
        return ((pair, None) for pair in _read_package(text, package))
    if text["loader"] == "tsv":
        places = (text.get("source_column", 1), text.get("target_column", 2))
        return _read_tsv(text["path"], *places, text.get("quality_column"))
    if text["loader"] == "files":
        return _read_aligned_files(text["source"], text["target"], text.get("quality"))
    if "source_config" in text:
        return ((pair, None) for pair in _read_configurations(text))
    kind = "field" if text["loader"] == "jsonl" else "column"
    source, target = text[f"source_{kind}"], text[f"target_{kind}"]
    quality = text.get(f"quality_{kind}")
    rows = _read_rows(text, [source, target] if quality is None else [source, target, quality])
    return (
        (
            (text_of(row, source, where), text_of(row, target, where)),
            None if quality is None else value_of(row, quality, where),
        )
        for row, where in rows
    )


def _read_rows(text: _Text, columns: list[str] | None) -> Rows:
    if text["loader"] == "jsonl":
        return read_json_lines(text["path"], columns)
    if text["loader"] == "parquet":
        return read_parquet(text["path"], columns)
    return read_dataset(text, columns)


def _read_package(text: _Text, package: str | Path | None) -> list[Pair]:
    catalogue = import_module("lexigraft.bundled.catalogue")
    return catalogue.read_catalogue(_folder(text, package), text["locale"])


def _folder(text: _Text, package: str | Path | None) -> str | Path:
    if package is None:
        raise UserError(f"package {text['package']}: the job specifies no input package")
    return package


def _read_tsv(
    path: str, source: int, target: int, quality: int | None
) -> Iterator[tuple[Pair, str | None]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            columns = line.split("\t")
            if len(columns) < max(source, target):
                raise UserError(
                    f"{path}: line {number} has {len(columns)} columns, but columns {source} and "
                    f"{target} are needed; columns are separated by tabs"
                )
            pair = (columns[source - 1], columns[target - 1])
            yield pair, None if quality is None or len(columns) < quality else columns[quality - 1]


def _read_aligned_files(
    source: str, target: str, quality: str | None
) -> Iterator[tuple[Pair, str | None]]:
    def pairs() -> Iterator[Pair]:
        lines = zip_longest(read_lines(source), read_lines(target))
        for number, (left, right) in enumerate(lines, start=1):
            if left is None or right is None:
                longer, shorter = (target, source) if left is None else (source, target)
                raise UserError(
                    f"{shorter}: has {number - 1} lines but {longer} has "
                    f"{number + sum(1 for _ in lines)}; aligned files must have the same number of "
                    "lines"
                )
            yield left, right

    if not quality:
        yield from ((pair, None) for pair in pairs())
        return
    try:
        yield from zip(pairs(), read_lines(quality), strict=True)
    except ValueError:
        raise UserError(
            f"{quality}: does not have as many lines as {source}; it must have one number per pair"
        ) from None


def _read_configurations(text: _Text) -> Iterator[Pair]:
    """Pairs from two configurations of a dataset whose rows correspond."""
    configs = text["source_config"], text["target_config"]
    column, identifier = text["column"], text["id_column"]
    where = name_of(text)
    tables = (read_dataset(text, [identifier, column], config) for config in configs)
    rows = zip_longest(*tables, fillvalue=(None, where))
    for number, ((source, _), (target, _)) in enumerate(rows, start=1):
        if source is None or target is None or source[identifier] != target[identifier]:
            raise UserError(
                f"{where}: row {number} of {configs[0]} and of {configs[1]} differ in "
                f"'{identifier}', so they are not a pair"
            )
        yield text_of(source, column, where), text_of(target, column, where)


# Suffix of a file -> function that reads its rows. Files with other suffixes are read by lines.
_READ_BY_ENDING = {".jsonl": read_json_lines, ".parquet": read_parquet}
