"""Local files that a study lacks: how to get them, and download those with an address.

`config/files.yaml` says for each file where it can be downloaded, or how it is made by hand.
"""

import gzip
import json
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath

from lexigraft.artifacts.atomic import atomic_file, atomic_folder, write_json
from lexigraft.artifacts.cards import folder_of, sha256_of
from lexigraft.artifacts.checksums import files_at
from lexigraft.errors import UserError
from lexigraft.source.download import Remote, download
from lexigraft.source.hub_check import CHANGED, ask_web
from workflow.config.sources import NAMED, FileConfig
from workflow.jobs import Job


@dataclass(frozen=True)
class FileRecipe:
    """How to get one file or folder: an entry of `files`, with the names of this path filled in.

    `needed` are the files in it that are read.
    """

    name: str
    path: str
    entry: FileConfig
    needed: tuple[str, ...]

    @property
    def url(self) -> str | None:
        """The URL to download it from; None if it is created by hand."""
        return self.entry.url

    @property
    def answer_file(self) -> Path:
        """The file with the server's answer when it was downloaded."""
        path = Path(self.path)
        return path.with_name(f".{path.name}.fetched.json")

    def recorded(self) -> Remote | None:
        """The server's answer when it was downloaded; None if it never was."""
        try:
            return Remote(**json.loads(self.answer_file.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def local_files(jobs: Iterable[Job]) -> list[str]:
    """The user's files, folders and patterns that jobs read, each once."""
    paths = (folder_of(path) for job in jobs for path in job.description.get("contents", ()))
    return list(dict.fromkeys(paths))


def missing_files(jobs: Iterable[Job]) -> list[str]:
    """The files among them that do not exist, and patterns that match none."""
    return [path for path in local_files(jobs) if not (Path(path).exists() or files_at(path))]


def recipes_of(files: Iterable[str], entries: Mapping[str, FileConfig]) -> dict[str, FileRecipe]:
    """File -> how to get it, for files that have an entry."""
    recipes: dict[str, FileRecipe] = {}  # by the path of an entry, which may be a folder of files
    by_file: dict[str, str] = {}
    for file in files:
        for name, entry in entries.items():
            parts = NAMED.split(entry.path)  # texts and names alternate
            regex = "".join(
                f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part)
                for number, part in enumerate(parts)
            )
            if match := re.match(f"({regex})(?:/|$)", PurePosixPath(file).as_posix()):
                path, names = match[1], match.groupdict()
                recipe = recipes.setdefault(path, FileRecipe(name, path, _filled(entry, names), ()))
                recipes[path] = replace(recipe, needed=(*recipe.needed, file))
                by_file[file] = path
                break
    return {file: recipes[path] for file, path in by_file.items()}


def _filled(entry: FileConfig, names: Mapping[str, str]) -> FileConfig:
    """An entry with the names of a path in place of `{name}`."""
    texts = ((key, value) for key, value in entry if isinstance(value, str))
    filled = {key: NAMED.sub(lambda m: names.get(m[1], m[0]), text) for key, text in texts}
    return entry.model_copy(update=filled)


def needed_recipes(
    jobs: Iterable[Job], entries: Mapping[str, FileConfig]
) -> tuple[list[FileRecipe], list[str]]:
    """How to get the files that jobs lack, each once, and the files without an entry."""
    files = missing_files(jobs)
    recipes = recipes_of(files, entries)
    by_path = {recipe.path: recipe for recipe in recipes.values()}
    return list(by_path.values()), [file for file in files if file not in recipes]


def hint(jobs: Iterable[Job], entries: Mapping[str, FileConfig]) -> str:
    """How to get the files that jobs lack, appended to the error message about one of them."""
    recipes, unknown = needed_recipes(jobs, entries)
    fetched = sum(recipe.url is not None for recipe in recipes)
    made = len(recipes) - fetched + len(unknown)
    more = f"; {made} more must be created by hand, see `lexigraft doctor --study`" if made else ""
    text = f". `lexigraft fetch STUDY.yaml` downloads {fetched} of the missing files{more}"
    return text if fetched else ""


def fetch_recipe(recipe: FileRecipe) -> Remote:
    """Download and unpack a file or folder.

    Raises a UserError if it is unavailable, differs from the one downloaded before, has the wrong
    checksum or lacks the files that are read, or if a folder of its name exists without them.
    """
    assert recipe.url, "made by hand"
    path = Path(recipe.path)
    if path.exists():
        lacking = next(file for file in recipe.needed if not Path(file).exists())
        raise UserError(
            f"{path}: exists, but lacks {lacking}; move it elsewhere and fetch it again"
        )
    answer = ask_web(recipe.url, recipe.recorded())
    if answer.state == CHANGED:
        raise UserError(
            f"{recipe.url}: {answer.detail}; delete {recipe.answer_file} to accept the new file"
        )
    archive = path.with_name(f".{path.name}.download")
    remote = download(recipe.url, archive)
    expected = recipe.entry.sha256
    if expected and (actual := sha256_of(archive)) != expected:
        archive.unlink()
        raise UserError(
            f"files.{recipe.name}: {recipe.url} has SHA-256 {actual}, expected {expected}; correct "
            "sha256 only if you trust the new file"
        )
    try:
        _unpack(archive, path, recipe.entry.unpack)
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UserError(
            f"{path}: the downloaded file cannot be unpacked ({error}); fetch it again"
        ) from None
    finally:
        archive.unlink(missing_ok=True)
    if missing := [file for file in recipe.needed if not Path(file).is_file()]:
        raise UserError(f"{recipe.url}: does not contain {', '.join(missing)}")
    write_json(recipe.answer_file, asdict(remote))
    return remote


def _unpack(archive: Path, path: Path, kind: str | None) -> None:
    """Unpack the members of a `tar` below the folder of this name, a `gz` file, or nothing."""
    if kind is None:
        archive.replace(path)
    elif kind == "gz":
        with gzip.open(archive) as content, atomic_file(path) as part, part.open("wb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
    else:
        with tarfile.open(archive) as content, atomic_folder(path) as temporary:
            for member in content:
                parts = PurePosixPath(member.name).parts
                if parts[:1] == (path.name,) and len(parts) > 1:
                    inside = member.replace(name="/".join(parts[1:]), deep=False)
                    content.extract(inside, temporary, filter="data")
