"""`lexigraft doctor`: check this machine, or everything external that a study's jobs read."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from lexigraft.commands.doctor import check_machine
from workflow.commands.studies import OWN, study_named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workflow.assets import CheckedAsset


def doctor(
    study: Annotated[
        str | None,
        typer.Option(
            help="A study, as a file or a name in config/studies: check all models, data and "
            "local files that it reads, before any job.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check this machine: versions, GPU, memory, disk, Slurm, hub, fonts, learned metrics.

    Each line is `ok`, `absent` (only some studies need it) or `missing` (nothing runs without it),
    and says what to do. Exit code 1 if anything is missing.

    With `--study`, check what the study reads instead: whether each model, tokenizer and data set
    exists on the hub, can be read by you, and has its revision and the required files, and how
    large it is. The same applies to files on the web and packages. For local files, show whether
    they exist or how to get them. Unpinned revisions are locked to commits for the study's results.
    """
    if study is None:
        check_machine()
    else:
        check_study(study)


def check_study(named: str) -> None:
    """Print a line for each asset that a study reads; exit code 1 if one cannot be read."""
    from workflow.assets import BY_HAND, MISSING, READABLE, check_assets
    from workflow.jobs import jobs_of

    study, file = study_named(named)
    found = check_assets(study, jobs_of(file, prefix=study.config["prefix"]))
    for line in table(found):
        typer.echo(line)
    unusable = [one for one in found if one.answer.state not in READABLE]
    if any(one.kind == "file" and one.answer.state in (BY_HAND, MISSING) for one in unusable):
        typer.echo(f"How to create these files: {_instructions(study.name)}")
    size = sum(one.answer.size or 0 for one in found) / 1e9
    typer.echo(
        f"{len(found)} assets, {size:.1f} GB in total if each is read completely; "
        f"{len(unusable)} cannot be read yet"
    )
    if unusable:
        raise typer.Exit(1)


def table(found: "Iterable[CheckedAsset]") -> list[str]:
    """A line for each asset: state, kind, name, size, its use, and what to do."""
    cells = [
        (
            one.answer.state,
            one.kind,
            one.name + (f"@{_short(one.revision)}" if one.revision else ""),
            "" if one.answer.size is None else f"{one.answer.size / 1e9:.2f} GB",
            f"for {one.readers}" + (f": {one.answer.detail}" if one.answer.detail else ""),
        )
        for one in found
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    return [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]])
        for row in cells
    ]


def _short(revision: str) -> str:
    """The first twelve digits of a commit; branches and tags unchanged."""
    return revision[:12] if re.fullmatch("[0-9a-f]{40}", revision) else revision


def _instructions(name: str) -> str:
    """The files that explain how to create local files."""
    from lexigraft.installation import PIPELINE

    page = PIPELINE / "docs" / "studies" / f"{name}.md"
    study = PIPELINE / OWN / f"{name}.yaml"
    places = [str(one) for one in (page, study) if one.is_file()]
    return ", ".join([*places, "config/files.yaml"])
