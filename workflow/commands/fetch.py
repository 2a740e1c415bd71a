"""`lexigraft fetch`: download the missing local files that a study reads."""

from typing import TYPE_CHECKING, Annotated

import typer

from lexigraft.addresses import without_secrets
from lexigraft.errors import UserError
from workflow.commands.studies import study_named

if TYPE_CHECKING:
    from workflow.recipes import FileRecipe


def fetch(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="A study, as a file or a name in config/studies.",
            show_default=False,
        ),
    ],
    only: Annotated[
        str,
        typer.Option(help="Fetch only files whose path contains this text.", show_default=False),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Only show what would be fetched, and its size.")
    ] = False,
) -> None:
    """Fetch the local files that a study reads: test sets, word vectors, dictionaries, bitext.

    `config/files.yaml` lists the address and licence of each. An interrupted download resumes where
    it stopped. Files that may not be redistributed, or that authors created with their own scripts,
    are listed with a description of their contents; the exit code is then 1.
    """
    from workflow.jobs import jobs_of
    from workflow.recipes import needed_recipes

    opened, file = study_named(study)
    jobs = jobs_of(file, prefix=opened.config["prefix"])
    recipes, others = needed_recipes(jobs.values(), opened.config["files"])
    recipes = [one for one in recipes if only in one.path]
    others = [file for file in others if only in file]
    failed = False
    for recipe in recipes:
        if recipe.url:
            failed |= not _fetched(recipe, dry_run)
    made = [one for one in recipes if one.url is None]
    for recipe in made:
        typer.echo(f"by hand  {recipe.path}: {recipe.entry['by_hand']}")
    for file in others:
        typer.echo(f"your own {file}")
    if not recipes and not others:
        typer.echo("all local files of the study exist")
    if made or others or failed:
        raise typer.Exit(1)


def _fetched(recipe: "FileRecipe", dry_run: bool) -> bool:
    """Fetch one file and report it; return whether it succeeded."""
    from lexigraft.source.download import ask_file
    from workflow.recipes import fetch_recipe

    assert recipe.url
    try:
        remote = ask_file(recipe.url)
        size = "" if remote.bytes is None else f", {remote.bytes / 1e9:.2f} GB"
        licence = f", {recipe.entry['license']}" if "license" in recipe.entry else ""
        terms = f"; its terms: {recipe.entry['terms']}" if "terms" in recipe.entry else ""
        typer.echo(
            f"fetch    {recipe.path} from {without_secrets(recipe.url)}{size}{licence}{terms}"
        )
        if not dry_run:
            fetch_recipe(recipe)
    except UserError as error:
        typer.secho(f"failed   {recipe.path}: {error}", fg="red", err=True)
        return False
    return True
