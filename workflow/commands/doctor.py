"""`lexigraft doctor`: check this machine, or everything external that a study's jobs read."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from lexigraft.commands.doctor import check_machine
from lexigraft.installation import PIPELINE
from workflow.commands.studies import OWN, study_named
from workflow.cost import aligned
from workflow.jobs import jobs_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workflow.assets import CheckedAsset


def doctor(
    study: Annotated[
        str | None,
        typer.Option(
            help="A study, as a file or a name in config/studies: check all models, data and "
            "local files that it reads, before any job."
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


def check_study(name: str) -> None:
    """Print a line for each asset that a study reads; exit code 1 if one cannot be read."""
    # These import requests, which `lexigraft --help` must not wait for.
    from workflow.assets import BY_HAND, MISSING, READABLE, check_assets

    study, file = study_named(name)
    assets = check_assets(study, jobs_of(file, prefix=study.settings.prefix))
    for line in table(assets):
        typer.echo(line)
    unreadable = [asset for asset in assets if asset.answer.state not in READABLE]
    if any(a.kind == "file" and a.answer.state in (BY_HAND, MISSING) for a in unreadable):
        pages = (PIPELINE / f"docs/studies/{study.name}.md", PIPELINE / OWN / f"{study.name}.yaml")
        explained = [str(page) for page in pages if page.is_file()]
        typer.echo(f"How to create these files: {', '.join([*explained, 'config/files.yaml'])}")
    size = sum(asset.answer.size or 0 for asset in assets) / 1e9
    typer.echo(
        f"{len(assets)} assets, {size:.1f} GB in total if each is read completely; "
        f"{len(unreadable)} cannot be read yet"
    )
    if unreadable:
        raise typer.Exit(1)


def table(assets: "Iterable[CheckedAsset]") -> list[str]:
    """A line for each asset: state, kind, name, size, its use, and what to do."""
    rows = []
    for asset in assets:
        # The first twelve digits of a commit; branches and tags as they are.
        revision = re.sub(r"^([0-9a-f]{12})[0-9a-f]{28}$", r"\1", asset.revision or "")
        size, detail = asset.answer.size, asset.answer.detail
        rows.append(
            (
                asset.answer.state,
                asset.kind,
                asset.name + (f"@{revision}" if revision else ""),
                "" if size is None else f"{size / 1e9:.2f} GB",
                f"for {asset.where}" + (f": {detail}" if detail else ""),
            )
        )
    return aligned(rows, numbers=False)
