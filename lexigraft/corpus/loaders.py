"""Selects the reader for the settings of a text, and passes it their keys."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.corpus import readers
from lexigraft.corpus.catalogue import read_catalogue
from lexigraft.errors import UserError

Settings = Mapping[str, Any]


def read_sentences(settings: Settings, package: str | Path | None = None) -> Iterator[str]:
    """Stream the text that `settings` describe.

    Parameters
    ----------
    settings
        `{"loader": "catalogue", "package", "locale"}`, `{"loader": "text", "paths"}`,
        `{"loader": "jsonl", "path", "field"}`, `{"loader": "parquet", "path", "column"}` or
        `{"loader": "datasets", "name", "column", "split", "config", "revision", "data_files"}`.
    package
        The folder of the unpacked package, for catalogues.
    """
    loaders: dict[str, Callable[[], Iterator[str]]] = {
        "catalogue": lambda: (target for _, target in _catalogue(settings, package)),
        "text": lambda: readers.read_text(settings["paths"]),
        "jsonl": lambda: readers.read_jsonl(settings["path"], settings["field"]),
        "parquet": lambda: readers.read_parquet(settings["path"], settings["column"]),
        "datasets": lambda: readers.read_datasets(column=settings["column"], **_dataset(settings)),
    }
    return _choose(loaders, settings, "text")


def read_pairs(settings: Settings, package: str | Path | None = None) -> Iterator[tuple[str, str]]:
    """Stream the (English, translation) pairs that `settings` describe.

    Parameters
    ----------
    settings
        `{"loader": "catalogue", "package", "locale"}`, `{"loader": "tsv", "path"}`,
        `{"loader": "files", "source", "target"}`,
        `{"loader": "jsonl", "path", "source_field", "target_field"}`,
        `{"loader": "parquet", "path", "source_column", "target_column"}` or
        `{"loader": "datasets", "name", "source_column", "target_column", "split", …}` or, for two
        configurations of one dataset with corresponding rows, `{"loader": "datasets", "name",
        "source_config", "target_config", "column", "id_column", "split", …}`.
    package
        The folder of the unpacked package, for catalogues.
    """
    return _choose(
        {
            "catalogue": lambda: iter(_catalogue(settings, package)),
            "tsv": lambda: readers.read_tsv(settings["path"]),
            **_pair_loaders(settings),
        },
        settings,
        "parallel",
    )


def read_articles(settings: Settings) -> Iterator[tuple[str, str]]:
    """Stream the (article, summary) pairs that `settings` describe.

    Parameters
    ----------
    settings
        As for `read_pairs`, with the article as source and the summary as target: the loaders
        `files`, `jsonl`, `parquet` and `datasets`.
    """
    return _choose(_pair_loaders(settings), settings, "summarization")


def read_rows(
    settings: Settings, columns: list[str] | None = None
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Stream the rows of a table, each with its place for messages.

    Parameters
    ----------
    settings
        `{"loader": "jsonl", "path"}`, `{"loader": "parquet", "path"}` or `{"loader": "datasets",
        "name", "split", "config", "revision", "data_files"}`.
    columns
        The columns to read; None for all.
    """
    return _choose(
        {
            "jsonl": lambda: readers.jsonl_rows(settings["path"]),
            "parquet": lambda: readers.parquet_rows(settings["path"], columns),
            "datasets": lambda: readers.datasets_rows(columns=columns, **_dataset(settings)),
        },
        settings,
        "text",
    )


def _pair_loaders(settings: Settings) -> dict[str, Callable[[], Iterator[tuple[str, str]]]]:
    return {
        "files": lambda: readers.read_aligned_files(settings["source"], settings["target"]),
        "jsonl": lambda: readers.read_parallel_jsonl(
            settings["path"], settings["source_field"], settings["target_field"]
        ),
        "parquet": lambda: readers.read_parallel_parquet(
            settings["path"], settings["source_column"], settings["target_column"]
        ),
        "datasets": lambda: _paired_dataset(settings),
    }


def _paired_dataset(settings: Settings) -> Iterator[tuple[str, str]]:
    if "source_config" in settings:
        return readers.read_aligned_datasets(
            source_config=settings["source_config"],
            target_config=settings["target_config"],
            column=settings["column"],
            id_column=settings["id_column"],
            **_dataset(settings),
        )
    return readers.read_parallel_datasets(
        source_column=settings["source_column"],
        target_column=settings["target_column"],
        **_dataset(settings),
    )


def _choose(
    loaders: Mapping[str, Callable[[], Iterator[Any]]], settings: Settings, key: str
) -> Iterator[Any]:
    loader = settings["loader"]
    if loader not in loaders:
        raise UserError(f"{key}.loader: '{loader}' is not one of {', '.join(loaders)}")
    try:
        return loaders[loader]()
    except KeyError as error:
        raise UserError(f"{key}: the loader '{loader}' needs the key {error}") from None


def _dataset(settings: Settings) -> dict[str, Any]:
    keys = ("name", "split", "config", "revision", "data_files")
    return {key: settings[key] for key in keys if settings.get(key) is not None}


def _catalogue(settings: Settings, package: str | Path | None) -> list[tuple[str, str]]:
    if package is None:
        raise UserError(f"package {settings['package']}: the job names no input package")
    return read_catalogue(package, settings["locale"])
