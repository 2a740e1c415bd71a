"""The command `compare`: show where two results folders differ, and by how much."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    "number": (
        "number differs",
        "numbers differ, largest relative difference first",
    ),
    "circumstance": ("time or fact of the machine", "times and facts of the machine"),
}
_COLUMNS = ("kind", "place", "name", "results", "other", "absolute", "relative")


def compare(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="A results folder.", show_default=False)
    ],
    other: Annotated[
        Path,
        typer.Argument(
            metavar="OTHER",
            help="Another results folder, or the same part of it.",
            show_default=False,
        ),
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
        Path | None,
        typer.Option("--csv", help="Write every difference to this file.", show_default=False),
    ] = None,
) -> None:
    """Show where two results folders differ: outputs, settings, versions, seeds and numbers.

    Cards and records are compared directly, files by their checksums; if checksums differ, the
    numbers in the files are compared. Exit code 0: they are equal; 1: they differ; 2: they cannot
    be compared.

        lexigraft compare results /scratch/me/results --tolerance 1e-6
    """
    from tqdm import tqdm

    from lexigraft.artifacts.comparison import compare as compared

    with tqdm(unit="output", desc="comparing", disable=None, leave=False) as progress:
        found = compared(results, other, tolerance, progress.update)
    differences = found.differences + (found.circumstances if everything else [])
    for line in _text(differences):
        typer.echo(line)
    if file is not None:
        _write(file, differences)
        typer.echo(f"{_counted(len(differences), 'difference')}: {file}")
    verdict = "they differ" if differences else "no difference"
    if found.circumstances and not everything:
        verdict += f"; {_titled('circumstance', len(found.circumstances))} ignored (see --all)"
    typer.echo(f"{_counted(found.outputs, 'output')} in both folders: {verdict}")
    if differences:
        raise typer.Exit(1)


def _text(differences: "Sequence[Difference]") -> Iterator[str]:
    """A section for each kind of difference."""
    for kind in _TITLES:
        own = [one for one in differences if one.kind == kind]
        if not own:
            continue
        yield _titled(kind, len(own))
        lines = list(_numbers(own) if own[0].relative is not None else _grouped(own))
        yield from (f"  {line}" for line in lines[:_SHOWN])
        if len(lines) > _SHOWN:
            yield f"  … and {len(lines) - _SHOWN:,} more; --csv FILE lists all"
        yield ""


def _numbers(differences: "Sequence[Difference]") -> Iterator[str]:
    for one in differences:
        values = f"{_short(one.first)} and {_short(one.second)}"
        gap = f"{one.relative:.2g} relative, {one.absolute:.2g} absolute"
        yield f"{gap}: {_where(one)}: {values}"


def _grouped(differences: "Sequence[Difference]") -> Iterator[str]:
    """One line for all places with the same difference: cells often differ in the same setting."""
    places: dict[tuple[str, str, str], list[Difference]] = {}
    for one in differences:
        if one.kind == "alone":
            yield f"only in {'RESULTS' if one.second is None else 'OTHER'}: {_where(one)}"
        else:
            key = (one.name, _short(one.first), _short(one.second))
            places.setdefault(key, []).append(one)
    for (name, first, second), own in places.items():
        more = f" and {len(own) - 1} more" if len(own) > 1 else ""
        told = f": {name}" if name else ""
        yield f"{own[0].place}{more}{told}: {first} and {second}"


def _where(one: "Difference") -> str:
    return f"{one.place}: {one.name}" if one.name else one.place


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _titled(kind: str, count: int) -> str:
    return f"{count:,} {_TITLES[kind][count != 1]}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _write(file: Path, differences: "Sequence[Difference]") -> None:
    from lexigraft.artifacts.atomic import replacing

    with replacing(file) as temporary, temporary.open("w", encoding="utf-8", newline="") as opened:
        rows = csv.writer(opened)
        rows.writerow(_COLUMNS)
        for one in differences:
            rows.writerow([one.kind, one.place, one.name, one.first, one.second,
                           one.absolute, one.relative])  # fmt: skip
