"""The command that uploads a model to the Hugging Face hub."""

from pathlib import Path
from typing import Annotated

import typer


def push(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A model: a folder written by `lexigraft export`, `adapt` or `graft`.",
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The repository: organisation/name, or a name in your own namespace.",
        ),
    ],
    private: Annotated[
        bool, typer.Option("--private", help="Make the repository private if it is created now.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List files and sizes without uploading.")
    ] = False,
) -> None:
    """Upload a model and its card to the Hugging Face hub.

    Model, tokenizer and README.md are uploaded, but nothing that reveals details of this machine.
    The token is that of `hf auth login` or HF_TOKEN. Read README.md first: others will see it.

        lexigraft push adapted-model me/smollm2-telugu --dry-run
    """
    from lexigraft import publishing

    files = publishing.published_files(folder)
    for line in publishing.as_lines(files):
        typer.echo(line)
    if missing := publishing.missing_keys(folder):
        typer.echo(
            f"The front matter of README.md has no {' and no '.join(missing)}; add it there."
        )
    if dry_run:
        typer.echo(f"Nothing was uploaded. Without --dry-run, these files are uploaded to {name}.")
        return
    typer.echo(f"Uploaded to {publishing.push(folder, name, private)}")
