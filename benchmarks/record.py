"""Records of benchmarks: `docs/results/<name>.json`, of which docs/benchmarks.md is made.

A record has what decides its numbers beside the machine, versions and sizes, and one table. Of what
was measured several times it has the medians, how often that was (`runs`), and between what the
ratio to the other's number lay (`lowest`, `highest`). Rows that a run does not measure stay from
earlier runs, as long as versions and sizes are the same.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from statistics import median
from typing import Any

import lexigraft
from workflow import pages

Row = dict[str, Any]  # column -> name or number
OTHER = "other_"  # begins the columns of what a user would take instead


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser for the benchmark of this name, with options that all have."""
    found = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--record", action="store_true", help=f"write docs/results/{name}.json")
    found.add_argument(
        "--repetitions", type=int, default=1, metavar="N", help="measure N times, for medians"
    )
    return found


def rounds(options: argparse.Namespace, *axes: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Every combination, once in each repetition: slow minutes of a machine meet all of them."""
    for _, *one in product(range(options.repetitions), *axes):
        yield tuple(one)


def described(*packages: str, **sizes: Any) -> dict[str, Any]:
    """The `run` of a record: versions of lexigraft and of packages, sizes and threads."""
    return {"version": lexigraft.__version__, **{one: version(one) for one in packages}, **sizes}


def as_line(row: Row) -> str:
    """A row for the terminal; of numbers that have another beside them the ratio, too."""
    parts = []
    for name, value in row.items():
        if name.startswith(OTHER) or value is None:
            continue
        if not isinstance(value, float):
            parts.append(f"{name} {value}")
            continue
        other = row.get(OTHER + name)
        beside = f" beside {other:.4g}, ratio {value / other:.2f}" if other else ""
        parts.append(f"{name} {value:.4g}{beside}")
    return "; ".join(parts)


class Measurements:
    """The rows that a benchmark has measured, printed as they come, and what failed."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.failures: list[str] = []

    def add(self, row: Row) -> None:
        """Take in a row, all of which have the same columns."""
        self.rows.append(row)
        print(as_line(row), flush=True)

    def note_errors(self, what: str, *measured: Mapping[str, Any]) -> bool:
        """Whether one of these measurements is an error, which is then noted."""
        errors = [str(one["error"]) for one in measured if "error" in one]
        self.failures += [f"{what}: {error}" for error in errors]
        return bool(errors)

    def end(
        self,
        arguments: argparse.Namespace,
        name: str,
        run: Mapping[str, Any],
        keys: int,
        order: Iterable[tuple[Any, ...]] | None = None,
    ) -> None:
        """Record what was measured if that is asked for; exit code 1 if anything failed.

        The first `keys` columns tell rows apart; they are in the `order` of these, or sorted.
        """
        if arguments.record and self.rows:
            _record(name, run, self.rows, keys, order)
        if self.failures:
            sys.exit("\n".join(self.failures))


def _record(
    name: str,
    run: Mapping[str, Any],
    measured: Sequence[Row],
    keys: int,
    order: Iterable[tuple[Any, ...]] | None,
) -> None:
    rows = _medians(measured, keys)
    columns, today = [*rows[0], "date"], str(datetime.now(UTC).date())
    path = pages.DOCS / "results" / f"{name}.json"
    known: dict[tuple[Any, ...], list[Any]] = {}
    if path.exists():
        content = json.loads(path.read_text("utf-8"))
        header, *earlier = content["tables"]["measured"]
        if content["run"] == run and header == columns:
            known = {tuple(row[:keys]): row for row in earlier}
    for row in rows:
        values = [_rounded(row[column]) for column in columns[:-1]]
        known[tuple(values[:keys])] = [*values, today]
    table = [known[key] for key in (sorted(known) if order is None else order) if key in known]
    pages.write_record(name, {"run": dict(run), "tables": {"measured": [columns, *table]}})
    print(f"{path.relative_to(pages.DOCS.parent)}: recorded; `make pages` shows it")


def _medians(measured: Sequence[Row], keys: int) -> list[Row]:
    """One row of those that are equal in their first `keys` columns."""
    same: dict[tuple[Any, ...], list[Row]] = {}
    for row in measured:
        same.setdefault(tuple(row.values())[:keys], []).append(row)
    compared = next((name for name in measured[0] if OTHER + name in measured[0]), None)
    found = []
    for rows in same.values():
        one = {
            name: median(row[name] for row in rows) if isinstance(value, float) else value
            for name, value in rows[0].items()
        }
        if compared:
            other = OTHER + compared
            ratios = [row[compared] / row[other] for row in rows if row[other]]
            one |= {"lowest": min(ratios, default=None), "highest": max(ratios, default=None)}
        found.append(one | {"runs": len(rows)})
    return found


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
