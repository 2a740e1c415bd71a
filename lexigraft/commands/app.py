"""The command `lexigraft`, whose subcommands are imported when they are used.

A subcommand is a function of the same name; its docstring and annotations become its help text. To
add one, add a line to `COMMANDS`. Its module imports no library that takes over 0.1 s at its top,
such as torch or pandas, since `lexigraft --help` imports all of these modules.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

import lexigraft
from lexigraft.addresses import without_secrets
from lexigraft.errors import UserError, machine_fault
from lexigraft.installation import add_workflow_to_path

STUDIES = "Studies"
MODELS = "Tokenizers and models, without a study"
MACHINE = "This machine"

# Unknown options are passed to Snakemake; with ALL, also all arguments after the study.
UNKNOWN = {"allow_extra_args": True, "ignore_unknown_options": True}
ALL = UNKNOWN | {"allow_interspersed_args": False}


class Command(NamedTuple):
    """The module of a command, its heading in the help, and how it is parsed."""

    module: str
    panel: str
    parsing: Mapping[str, bool] | None = None
    error_code: int = 1  # the exit code of an error


COMMANDS = {  # in the order of the help
    "init": Command("workflow.commands.init", STUDIES),
    "fetch": Command("workflow.commands.fetch", STUDIES),
    "plan": Command("workflow.commands.overview", STUDIES),
    "run": Command("workflow.commands.running", STUDIES, ALL),
    "status": Command("workflow.commands.overview", STUDIES),
    "explain": Command("workflow.commands.overview", STUDIES),
    "cost": Command("workflow.commands.overview", STUDIES),
    "verify": Command("workflow.commands.overview", STUDIES),
    "compare": Command("workflow.commands.compare", STUDIES, error_code=2),  # as of diff and cmp
    "export": Command("workflow.commands.running", STUDIES, UNKNOWN),
    "expand": Command("workflow.commands.tokenizers", MODELS),
    "graft": Command("workflow.commands.tokenizers", MODELS),
    "inspect": Command("workflow.commands.tokenizers", MODELS),
    "adapt": Command("workflow.commands.adapt", MODELS),
    "push": Command("workflow.commands.push", MODELS),
    "list": Command("workflow.commands.listing", MODELS),
    "doctor": Command("workflow.commands.doctor", MACHINE),
}


class _Imported(Mapping[str, Any]):
    """Name -> command, imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _import_command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class CommandGroup(TyperGroup):
    """A group of commands that are imported on first use."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Imported()


@cache
def _import_command(name: str) -> Any:
    command = COMMANDS[name]
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    settings = dict(command.parsing or {})
    declare = single.command(name, rich_help_panel=command.panel, context_settings=settings)
    declare(getattr(import_module(command.module), name))
    return typer.main.get_command(single)


app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        print(f"lexigraft {lexigraft.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error instead of one line.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Graft a target-language vocabulary onto a pretrained language model, and measure the gain.

    A study is a YAML file that defines which models to adapt to which languages, how, and what to
    measure. `lexigraft init my-study.yaml` writes one to start from;
    `lexigraft COMMAND --help` explains a command.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error prints one line and exits with its error code, wrong usage with 2."""
    add_workflow_to_path()
    for stream in (sys.stdout, sys.stderr):
        # Characters that a terminal cannot show must not raise an error.
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        typer.main.get_command(app)(words, prog_name="lexigraft")
    except Exception as error:
        if "--debug" in takewhile(lambda word: word.startswith("-"), words):
            raise
        message = (
            str(error) if isinstance(error, UserError) else machine_fault(error, str(Path.cwd()))
        )
        if message is None:
            name, text = type(error).__name__, " ".join(str(error).split())
            command = " ".join(["lexigraft --debug", *words])
            message = f"unexpected {name}: {text} (a bug; `{command}` shows its traceback)"
        typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
        typer.echo(without_secrets(message), err=True)
        name = next((word for word in words if not word.startswith("-")), "")
        sys.exit(COMMANDS[name].error_code if name in COMMANDS else 1)
