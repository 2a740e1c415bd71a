"""How to get local files that a study lacks: by download, or by hand as in `config/files.yaml`."""

import gzip
import json
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lexigraft.artifacts.atomic import replacing, replacing_folder, write_json
from lexigraft.errors import UserError
from lexigraft.source.download import Remote, download
from lexigraft.source.web_check import CHANGED, ask_web
from workflow.config.sources import NAMED
from workflow.stages.study import Study
from workflow.status.assets import missing_files


@dataclass(frozen=True)
class FileRecipe:
    """How to get one file or folder: an entry of `files`, with the names of this path filled in.

    `wanted` are the files in it that are read.
    """

    name: str
    path: str
    entry: Mapping[str, Any]
    wanted: tuple[str, ...]

    @property
    def url(self) -> str | None:
        """The URL to download it from; None if it is created by hand."""
        return self.entry.get("url")

    @property
    def notes(self) -> Path:
        """The file with what was recorded when it was downloaded."""
        path = Path(self.path)
        return path.with_name(f".{path.name}.fetched.json")

    def recorded(self) -> Remote | None:
        """The server's answer when it was downloaded; None if it never was."""
        try:
            return Remote(**json.loads(self.notes.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def recipes_of(files: Iterable[str], entries: Mapping[str, Any]) -> dict[str, FileRecipe]:
    """File -> how to get it, for files that have an entry."""
    found: dict[str, FileRecipe] = {}
    by_path: dict[str, list[str]] = {}
    for file in files:
        for name, entry in entries.items():
            if match := _matched(entry["path"], file):
                path, names = match
                own = {key: _filled(one, names) for key, one in entry.items()}
                by_path.setdefault(path, []).append(file)
                found[file] = FileRecipe(name, path, own, ())
                break
    return {
        file: FileRecipe(one.name, one.path, one.entry, tuple(by_path[one.path]))
        for file, one in found.items()
    }


def needed_recipes(study: Study) -> tuple[list[FileRecipe], list[str]]:
    """How to get the files that a study lacks, each once, and the files without an entry."""
    files = missing_files(study)
    found = recipes_of(files, study.config["files"])
    recipes = {one.path: one for one in found.values()}
    return list(recipes.values()), [file for file in files if file not in found]


def hint(study: Study) -> str:
    """How to get the files that a study lacks, appended to the error message about one of them."""
    recipes, others = needed_recipes(study)
    fetched = sum(one.url is not None for one in recipes)
    made = len(recipes) - fetched + len(others)
    if not fetched:
        return ""
    more = f"; {made} more must be created by hand, see `lexigraft doctor --study`"
    return (
        f". `lexigraft fetch STUDY.yaml` downloads {fetched} of the missing files"
        f"{more * bool(made)}"
    )


def fetch_recipe(recipe: FileRecipe) -> Remote:
    """Download and unpack a file or folder.

    Raises a UserError if it is unavailable, differs from the one downloaded before, has the wrong
    checksum or lacks the files that are read, or if a folder of its name exists without them.
    """
    assert recipe.url, "made by hand"
    path = Path(recipe.path)
    if path.exists():
        first = next(file for file in recipe.wanted if not Path(file).exists())
        raise UserError(f"{path}: exists, but lacks {first}; move it elsewhere and fetch it again")
    answer = ask_web(recipe.url, recipe.recorded())
    if answer.state == CHANGED:
        raise UserError(
            f"{recipe.url}: {answer.detail}; delete {recipe.notes} to accept the new file"
        )
    archive = path.with_name(f".{path.name}.download")
    remote = download(recipe.url, archive)
    _check(archive, recipe)
    try:
        _UNPACK[recipe.entry.get("unpack")](archive, path)
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UserError(
            f"{path}: the downloaded file cannot be unpacked ({error}); fetch it again"
        ) from None
    finally:
        archive.unlink(missing_ok=True)
    if lacking := [file for file in recipe.wanted if not Path(file).is_file()]:
        raise UserError(f"{recipe.url}: does not contain {', '.join(lacking)}")
    write_json(recipe.notes, asdict(remote))
    return remote


def _matched(pattern: str, file: str) -> tuple[str, dict[str, str]] | None:
    """The path that matches a pattern, if it is a file or contains it, and its names; or None."""
    parts = NAMED.split(pattern)
    names = {name: f"(?P<{name}>[^/]+)" for name in parts[1::2]}
    text = "".join(names[one] if at % 2 else re.escape(one) for at, one in enumerate(parts))
    found = re.match(f"({text})(?:/|$)", PurePosixPath(file).as_posix())
    return (found[1], found.groupdict()) if found else None


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(value, str):
        return value
    return NAMED.sub(lambda found: names.get(found[1], found[0]), value)


def _check(file: Path, recipe: FileRecipe) -> None:
    from lexigraft.artifacts.cards import sha256_of

    expected = recipe.entry.get("sha256")
    if expected and (actual := sha256_of(file)) != expected:
        file.unlink()
        raise UserError(
            f"files.{recipe.name}: {recipe.url} has SHA-256 {actual}, expected {expected}; correct "
            "sha256 only if you trust the new file"
        )


def _unpack_file(archive: Path, path: Path) -> None:
    with gzip.open(archive) as content, replacing(path) as temporary, temporary.open("wb") as out:
        shutil.copyfileobj(content, out, 1 << 20)


def _unpack_folder(archive: Path, path: Path) -> None:
    """Unpack the members below the folder of this name."""
    with tarfile.open(archive) as content, replacing_folder(path) as temporary:
        for member in content:
            inside = PurePosixPath(member.name)
            if inside.parts[:1] == (path.name,) and len(inside.parts) > 1:
                own = member.replace(name="/".join(inside.parts[1:]), deep=False)
                content.extract(own, temporary, filter="data")


_UNPACK: dict[str | None, Callable[[Path, Path], object]] = {
    "tar": _unpack_folder,
    "gz": _unpack_file,
    None: Path.replace,
}
