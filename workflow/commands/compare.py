"""The command `compare`: show where two results folders differ, and by how much."""

import csv
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from tqdm import tqdm

from lexigraft.artifacts.atomic import atomic_file

if TYPE_CHECKING:
    from lexigraft.artifacts.comparison import Difference

_SHOWN = 20  # maximum number of lines in a section
_LONGEST = 40  # maximum number of characters of a value
_TITLES = {  # by kind, singular and plural
    "alone": ("output or file is in only one folder", "outputs or files are in only one folder"),
    "setting": ("setting differs", "settings differ"),
    "version": ("version of a stage or kind differs", "versions of stages or kinds differ"),
    "seed": ("seed differs", "seeds differ"),
    "content": ("content differs", "contents differ"),
    "number": ("number differs", "numbers differ, largest relative difference first"),
    "circumstance": ("time or fact of the machine", "times and facts of the machine"),
}
_FIELDS = ("kind", "place", "name", "first", "second", "absolute", "relative")
_COLUMNS = ("kind", "place", "name", "results", "other", "absolute", "relative")


def compare(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A results folder.")],
    other: Annotated[
        Path,
        typer.Argument(metavar="OTHER", help="Another results folder, or the same part of it."),
    ],
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance", min=0, help="Relative difference up to which numbers are equal."
        ),
    ] = 0.0,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also compare times, versions and other facts of the machine."),
    ] = False,
    file: Annotated[
        Path | None, typer.Option("--csv", help="Write every difference to this file.")
    ] = None,
) -> None:
    """Show where two results folders differ: outputs, settings, versions, seeds and numbers.

    Cards and records are compared directly, files by their checksums; if checksums differ, the
    numbers in the files are compared. Exit code 0: they are equal; 1: they differ; 2: they cannot
    be compared.

        lexigraft compare results /scratch/me/results --tolerance 1e-6
    """
    from lexigraft.artifacts.comparison import compare as compared

    with tqdm(unit="output", desc="comparing", disable=None, leave=False) as progress:
        comparison = compared(results, other, tolerance, progress.update)
    differences = comparison.differences + (comparison.circumstances if everything else [])
    for line in _sections(differences):
        typer.echo(line)
    if file is not None:
        with (
            atomic_file(file) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as out,
        ):
            csv.writer(out).writerows(
                [_COLUMNS, *(attrgetter(*_FIELDS)(difference) for difference in differences)]
            )
        typer.echo(f"{_counted(len(differences), 'difference')}: {file}")
    verdict = "they differ" if differences else "no difference"
    if comparison.circumstances and not everything:
        verdict += f"; {_title('circumstance', len(comparison.circumstances))} ignored (see --all)"
    typer.echo(f"{_counted(comparison.outputs, 'output')} in both folders: {verdict}")
    if differences:
        raise typer.Exit(1)


def _sections(differences: "Sequence[Difference]") -> Iterator[str]:
    """A section for each kind of difference."""
    for kind in _TITLES:
        of_kind = [difference for difference in differences if difference.kind == kind]
        if not of_kind:
            continue
        yield _title(kind, len(of_kind))
        lines = []
        # One line for all places with the same difference: cells often differ in the same setting.
        groups: dict[tuple[str, str, str], list[Difference]] = {}
        for difference in of_kind:
            where = ": ".join(filter(None, (difference.place, difference.name)))
            first, second = _short(difference.first), _short(difference.second)
            if of_kind[0].relative is not None:
                gap = f"{difference.relative:.2g} relative, {difference.absolute:.2g} absolute"
                lines.append(f"{gap}: {where}: {first} and {second}")
            elif kind == "alone":
                lines.append(
                    f"only in {'RESULTS' if difference.second is None else 'OTHER'}: {where}"
                )
            else:
                groups.setdefault((difference.name, first, second), []).append(difference)
        for (name, first, second), group in groups.items():
            more = f" and {len(group) - 1} more" if len(group) > 1 else ""
            name = f": {name}" if name else ""
            lines.append(f"{group[0].place}{more}{name}: {first} and {second}")
        yield from (f"  {line}" for line in lines[:_SHOWN])
        if len(lines) > _SHOWN:
            yield f"  … and {len(lines) - _SHOWN:,} more; --csv FILE lists all"
        yield ""


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _title(kind: str, count: int) -> str:
    return f"{count:,} {_TITLES[kind][count != 1]}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
