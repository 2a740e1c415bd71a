"""Find the local files that settings name, and check those of texts before any job starts.

Nothing heavy is imported: the Snakefile does this each time it is parsed.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.artifacts.cards import MODEL_FILES, TEXT_FILES
from lexigraft.artifacts.checksums import TEXT_NAME, files_in
from lexigraft.errors import UserError
from lexigraft.source.hub_check import is_folder

# Keys whose value is a name on the hub, or a local folder that begins with `/`, `.` or `~`. The
# checkpoints of learned metrics are not among them: their scores outlive them (`checkpoint.state`).
NAMES = ("hypernetwork", "model", "rouge_tokenizer", "tokenizer")
FORMATS = ("text", "json", "csv", "parquet")  # names for which `datasets` reads plain files
# Its other names for plain files, which are refused: nothing finds the files that they would read,
# and some of them contain code (pickles).
_REFUSED_FORMATS = (
    "arrow", "audiofolder", "conll", "eval", "fasta", "fastq", "genbank", "harbor", "hdf5",
    "iceberg", "imagefolder", "lance", "meshfolder", "mmcif", "niftifolder", "pandas", "pdb",
    "pdffolder", "tsfile", "videofolder", "vortex", "webdataset", "xml",
)  # fmt: skip
# Keys of a language or a task that hold the settings of a text.
_TEXTS = ("text", "parallel", "english", "summarization")
# Keys of a text that name local files, whatever its loader is.
_FILE_KEYS = ("path", "paths", "source", "target", "quality")


def text_files(path: str | Path) -> list[Path]:
    """The files that the path of a text refers to: the file, or all texts in a folder, by name.

    Texts in a folder and its subfolders are files whose names end in `.txt`, `.jsonl` (both also
    with `.gz`, `.xz`, `.bz2` or `.zst`) or `.parquet`; hidden files and folders are skipped, links
    are followed. Raises `UserError` if there are none.
    """
    path = Path(path)
    if not path.is_dir():
        return [path]

    def refuse(error: OSError) -> None:
        raise UserError(f"{error.filename}: the folder cannot be read ({error.strerror})")

    distinct: dict[str, Path] = {}  # real path -> file
    for file in files_in(path, refuse):
        # A link that leads nowhere stays, whatever its name: it may be a folder on a missing disk.
        if TEXT_NAME.fullmatch(file.name) or not file.exists():
            distinct.setdefault(os.path.realpath(file), file)
    files = sorted(distinct.values())
    for file in files:
        if os.fsencode(file).decode(errors="replace") != str(file):
            raise UserError(f"{str(file)!a}: the name is not UTF-8; rename the file")
    if not files:
        raise UserError(
            f"{path}: the folder contains no text files; their names must end in .txt or .jsonl "
            "(optionally compressed: .gz, .xz, .bz2, .zst) or .parquet"
        )
    return files


def check_files(settings: Mapping[str, Any], where: str) -> None:
    """Check that every local file of a language, or any other entry with a `text`, has content.

    `where` is its key for messages, such as `languages.te`. Data for the loader `datasets` is
    checked by the job that reads it.
    """
    texts = {key: settings.get(key) or {} for key in _TEXTS}
    for text_key, text in texts.items():
        for key in _FILE_KEYS:
            for path in _as_list(text.get(key)):
                try:
                    files = text_files(path) if key == "paths" else [Path(path)]
                except UserError as error:
                    raise UserError(f"{where}.{text_key}.{key}: {error}") from None
                for file in files:
                    check_file(file, f"{where}.{text_key}.{key}")


def check_file(path: str | Path, where: str) -> None:
    """Check that a file exists and is not empty; the UserError begins with `where`."""
    if not Path(path).is_file():
        raise UserError(f"{where}: {path}: there is no such file")
    if Path(path).stat().st_size == 0:
        raise UserError(f"{where}: {path}: the file is empty")


def check_data_set(name: str) -> str:
    """The name of a data set for the library `datasets`; raises a ValueError for other formats."""
    if name in _REFUSED_FORMATS:
        raise ValueError(
            f"'{name}' is a format that is not read; convert the files to one of "
            f"{', '.join(FORMATS)} (a folder of this name is ./{name})"
        )
    return name


def local_paths(settings: Any) -> list[str]:
    """The distinct local files, folders and patterns that settings of any kind name.

    Folders of models and of texts end in what is read from them: `MODEL_FILES` and `TEXT_FILES`.
    """
    return list(dict.fromkeys(_local_paths(settings)))


def _local_paths(settings: Any) -> Iterator[str]:
    if isinstance(settings, list | tuple):
        for value in settings:
            yield from _local_paths(value)
    if not isinstance(settings, Mapping):
        return
    for key, value in settings.items():
        yield from _local_paths(value)
        if key in NAMES and isinstance(value, str) and is_folder(value):
            yield f"{Path(value).expanduser()}{MODEL_FILES}"
    folder = settings.get("folder")
    # A folder in a package is no local one, and that of a benchmark may be one of the harness.
    if folder and "package" not in settings and ("task" not in settings or is_folder(folder)):
        yield f"{Path(folder).expanduser()}{'' if 'task' in settings else MODEL_FILES}"
    if "loader" in settings or settings.get("kind") == "word-vectors":
        for key in _FILE_KEYS:
            for path in _as_list(settings.get(key)):
                # A missing one without an ending counts as a folder.
                named = Path(path)
                is_folder_of_texts = named.is_dir() or not (named.exists() or named.suffix)
                is_folder_of_texts &= key == "paths"
                yield f"{named}{TEXT_FILES}" if is_folder_of_texts else path
    if settings.get("loader") == "datasets":
        name = settings["name"]
        if name in FORMATS:
            for address in _as_list(settings.get("data_files")):
                # `zip://*.txt::texts.zip` names a local file, `hf://…` and `https://…` do not.
                path = address.split("::")[-1].removeprefix("file://")
                if "://" not in path:
                    yield path
        elif is_folder(name) or Path(name).exists():
            yield name


def _as_list(paths: str | list[str] | None) -> list[str]:
    return [paths] if isinstance(paths, str) else paths or []
