"""Arguments of commands on studies: a study, and a cell or a job of it."""

import json
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexigraft.errors import UserError, suggestion
from lexigraft.installation import PIPELINE
from workflow.config.registries import open_study

if TYPE_CHECKING:
    from lexigraft.cells import Cell
    from workflow.study import Study

StudyFile = Annotated[str, typer.Argument(metavar="STUDY.yaml", help="The study: a YAML file.")]
RECOMMENDED = "recommended"
OWN = "config/studies"  # where the pipeline's own studies are
_SHOWN = 8  # maximum number of names in a message


def check_installed() -> None:
    """Raise a UserError if packages that only studies need are not installed."""
    if find_spec("snakemake") is None:
        raise UserError("studies need more packages: pip install 'lexigraft[workflow]'")


def study_of(file: str) -> "Study":
    """The study of a file; a UserError if the file or packages are missing, or it is invalid."""
    check_installed()
    if file.startswith("-"):
        raise UserError(f"{file}: give the study first, then options for Snakemake")
    if not Path(file).is_file():
        raise UserError(f"{file}: there is no such file; `lexigraft init {file}` writes a study")

    return open_study(file)


def study_named(name: str) -> tuple["Study", str]:
    """The study of a file or a name in `config/studies`, and its file; raises like `study_of`."""
    own = PIPELINE / OWN / f"{name}.yaml"
    if not Path(name).is_file() and own.is_file():
        return study_of(str(own)), str(own)
    if not name.endswith((".yaml", ".yml")):
        raise UserError(f"{name}: neither a file nor a study in {OWN}")
    return study_of(name), name


def cell_named(study: "Study", text: str) -> "Cell":
    """The cell that a text names; of cells that only differ in their seeds, the first.

    `text` contains names of the cell's axes, separated by slashes, in any order and as many as
    needed: `align`, or `te/expand-500/align`; or it is the path of an output of the cell. It may
    begin with `recommended`, for the cells that the study's report recommends. Raises a `UserError`
    if no cell has these names, or several cells that differ in more than their seeds.
    """
    if not study.cells:
        raise UserError(f"{study.name}: only compares tokenizers and has no cells")
    # The parts of a path, without the folders that are not names of a cell.
    path = text.removeprefix("./")
    below = path.removeprefix(f"{study.results}/")
    parts = [part for part in below.split("/") if part and not part.endswith(".json")]
    if below != path:
        parts = parts[1:]  # the folder of the stage
    if not parts:
        raise UserError(f"'{text}': does not name a cell; {_listed(study.cells)}")
    cells = study.cells
    if parts[0] == RECOMMENDED:
        file = Path(study.folder("build_report"), "summary.json")
        try:
            rows = json.loads(file.read_text(encoding="utf-8"))["recommendations"]
        except (OSError, ValueError, KeyError):
            raise UserError(
                f"{file}: does not exist yet, so no cell is recommended; run the study first, or "
                "specify a cell"
            ) from None
        recommended = [{"language": row["language"], **row["measured"]}.items() for row in rows]
        cells = [
            cell
            for cell in study.cells
            if any(
                all(getattr(cell, axis) == name for axis, name in names) for names in recommended
            )
        ]
        if not cells:
            raise UserError(
                f"{file}: recommends no cell of this study; run the study again, or specify a cell"
            )
    names = {part for part in parts if part != RECOMMENDED}
    matching = [cell for cell in cells if names <= {*cell.path.split("/")}]
    if not matching:
        known = {part for cell in cells for part in cell.path.split("/")}
        if unknown := sorted(names - known):
            raise UserError(f"{text}: no cell has '{unknown[0]}'{suggestion(unknown[0], known)}")
        raise UserError(f"{text}: no cell of the study has all of these names; {_listed(cells)}")
    variants = {cell.path.rsplit("/", 1)[0] for cell in matching}  # without the seed
    if len(variants) > 1:
        raise UserError(f"{text}: {len(variants)} cells have these names; {_listed(matching)}")
    return min(matching, key=lambda cell: cell.seed)


def _listed(cells: "Iterable[Cell]") -> str:
    paths = [cell.path for cell in cells]
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"choose one of {', '.join(paths[:_SHOWN])}{more}"
