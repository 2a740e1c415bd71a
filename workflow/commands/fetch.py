"""`lexigraft fetch`: download the missing local files that a study reads."""

from typing import Annotated

import typer

from lexigraft.addresses import without_secrets
from lexigraft.errors import UserError
from lexigraft.source.download import ask_file
from workflow.commands.studies import study_named
from workflow.jobs import jobs_of
from workflow.recipes import FileRecipe, fetch_recipe, needed_recipes


def fetch(
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="A study, as a file or a name in config/studies.")
    ],
    only: Annotated[str, typer.Option(help="Fetch only files whose path contains this text.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Only show what would be fetched, and its size.")
    ] = False,
) -> None:
    """Fetch the local files that a study reads: test sets, word vectors, dictionaries, bitext.

    `config/files.yaml` lists the address and licence of each. An interrupted download resumes where
    it stopped. Files that may not be redistributed, or that authors created with their own scripts,
    are listed with a description of their contents; the exit code is then 1.
    """
    opened, file = study_named(study)
    jobs = jobs_of(file, prefix=opened.settings.prefix)
    recipes, own_files = needed_recipes(jobs.values(), opened.files)
    recipes = [recipe for recipe in recipes if only in recipe.path]
    own_files = [path for path in own_files if only in path]
    done = [_fetch(recipe, dry_run) for recipe in recipes if recipe.url]
    by_hand = [recipe for recipe in recipes if recipe.url is None]
    for recipe in by_hand:
        typer.echo(f"by hand  {recipe.path}: {recipe.entry.by_hand}")
    for path in own_files:
        typer.echo(f"your own {path}")
    if not recipes and not own_files:
        typer.echo("all local files of the study exist")
    if by_hand or own_files or not all(done):
        raise typer.Exit(1)


def _fetch(recipe: FileRecipe, dry_run: bool) -> bool:
    """Fetch one file and report it; return whether it succeeded."""
    assert recipe.url
    try:
        remote = ask_file(recipe.url)
        size = "" if remote.bytes is None else f", {remote.bytes / 1e9:.2f} GB"
        licence = f", {recipe.entry.license}" if recipe.entry.license else ""
        terms = f"; its terms: {recipe.entry.terms}" if recipe.entry.terms else ""
        typer.echo(
            f"fetch    {recipe.path} from {without_secrets(recipe.url)}{size}{licence}{terms}"
        )
        if not dry_run:
            fetch_recipe(recipe)
    except UserError as error:
        typer.secho(f"failed   {recipe.path}: {error}", fg="red", err=True)
        return False
    return True
