"""`lexigraft doctor`: checks this machine, and with a study all that its jobs read from outside."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexigraft.commands.doctor import check_machine
from lexigraft.errors import UserError
from workflow.commands.studies import study_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lexigraft.source.hub_check import HubAnswer, HubAsset

_THREADS = 8  # requests to the hub at a time
_FOLDER = "config/studies"


def doctor(
    study: Annotated[
        str | None,
        typer.Option(
            help="A study, by its file or its name in config/studies: ask the hub for all that it "
            "reads, and look for its local files, before any job.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check this machine: versions, GPU, memory, disk, Slurm, hub, fonts, learned metrics.

    Each line is `ok`, `absent` (only some studies need it) or `missing` (nothing runs without it),
    and says what to do. Exit code 1 if anything is missing.

    With `--study`, check instead what the study reads: whether each model, tokenizer and data set
    exists on the hub, may be read by you, has its revision and the files that are needed, and how
    large it is; and whether local files are there.
    """
    if study is None:
        check_machine()
    else:
        check_study(study)


def check_study(named: str) -> None:
    """Print a line for each thing that a study reads; exit code 1 if one cannot be read."""
    from concurrent.futures import ThreadPoolExecutor

    from lexigraft.source.hub_check import USABLE, ask_hub
    from workflow.status.assets import hub_assets, missing_files

    study = study_of(_file(named))
    assets = sorted(hub_assets(study), key=lambda one: (one.kind, one.name))
    with ThreadPoolExecutor(_THREADS) as pool:
        answers = list(pool.map(ask_hub, assets))
    for line in table(zip(assets, answers, strict=True)):
        typer.echo(line)
    files = missing_files(study)
    for folder, names in by_folder(files).items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        typer.echo(f"missing     file  {folder}/{names[0]}{more}")
    if files:
        typer.echo(f"How to make these files: {_instructions(study.name)}")
    unusable = len(files) + sum(answer.state not in USABLE for answer in answers)
    size = sum(answer.size or 0 for answer in answers) / 1e9
    typer.echo(
        f"{len(assets)} on the hub, {size:.1f} GB in all where each is read as a whole; "
        f"{len(files)} local files missing"
    )
    if any(job.rule == "prepare_benchmark" for job in study.jobs().values()):
        typer.echo("Data sets of lm-evaluation-harness are looked for by its jobs, when planned.")
    if unusable:
        raise typer.Exit(1)


def table(rows: "Iterable[tuple[HubAsset, HubAnswer]]") -> list[str]:
    """A line for each asset: state, kind, name, size, for what it is read, and what to do."""
    cells = [
        (
            answer.state,
            asset.kind,
            asset.name + (f"@{_short(asset.revision)}" if asset.revision else ""),
            "" if answer.size is None else f"{answer.size / 1e9:.2f} GB",
            f"for {asset.where}" + (f": {answer.detail}" if answer.detail else ""),
        )
        for asset, answer in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    return [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]])
        for row in cells
    ]


def by_folder(files: "Iterable[str]") -> dict[str, list[str]]:
    """Folder -> names of the files in it."""
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault(str(Path(file).parent), []).append(Path(file).name)
    return found


def _short(revision: str) -> str:
    """A commit in twelve digits; branches and tags as they are."""
    return revision[:12] if re.fullmatch("[0-9a-f]{40}", revision) else revision


def _file(named: str) -> str:
    """The file of a study that is named by its file or its name."""
    from lexigraft.installation import PIPELINE

    own = PIPELINE / _FOLDER / f"{named}.yaml"
    if Path(named).is_file() or not own.is_file():
        if not named.endswith((".yaml", ".yml")):
            raise UserError(f"{named}: neither a file nor a study in {_FOLDER}")
        return named
    return str(own)


def _instructions(name: str) -> str:
    """Where it is written how local files are made."""
    from lexigraft.installation import PIPELINE

    page = PIPELINE / "docs" / "studies" / f"{name}.md"
    study = PIPELINE / _FOLDER / f"{name}.yaml"
    places = [str(one) for one in (page, study) if one.is_file()]
    return ", ".join([*places, "config/languages.yaml"])
