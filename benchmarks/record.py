"""Records of benchmarks: `docs/results/<name>.json`, which docs/benchmarks.md shows.

A record contains what its numbers depend on in addition to the machine (versions and sizes), and
one table. For repeated measurements, the table has medians, the number of repetitions (`runs`), and
the range of the ratio to the alternative's number (`lowest`, `highest`). Rows that a run does not
measure are kept from earlier runs if versions and sizes are the same.
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
from workflow import records

Row = dict[str, Any]  # column -> name or number
OTHER = "other_"  # prefix of the columns of the alternative that is compared


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser for the benchmark of this name, with the options common to all."""
    found = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--record", action="store_true", help=f"write docs/results/{name}.json")
    found.add_argument(
        "--repetitions", type=int, default=1, metavar="N", help="measure N times and use medians"
    )
    return found


def rounds(options: argparse.Namespace, *axes: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Every combination once per repetition, so that slow minutes of a machine affect all."""
    for _, *one in product(range(options.repetitions), *axes):
        yield tuple(one)


def described(*packages: str, **sizes: Any) -> dict[str, Any]:
    """The `run` of a record: versions of lexigraft and of packages, sizes and threads."""
    return {"version": lexigraft.__version__, **{one: version(one) for one in packages}, **sizes}


def as_line(row: Row) -> str:
    """A row for the terminal, with the ratio of numbers to those of the alternative."""
    parts = []
    for name, value in row.items():
        if name.startswith(OTHER) or value is None:
            continue
        if not isinstance(value, float):
            parts.append(f"{name} {value}")
            continue
        other = row.get(OTHER + name)
        beside = f" (alternative {other:.4g}, ratio {value / other:.2f})" if other else ""
        parts.append(f"{name} {value:.4g}{beside}")
    return "; ".join(parts)


class Measurements:
    """The rows that a benchmark has measured, printed and recorded immediately, and failures.

    `run` is what the record says of the run (see `described`). The first `keys` columns identify a
    row; rows are in the `order` of these, or sorted. With `--record`, each row is recorded at once,
    so that an interrupted run keeps what it has measured.
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        name: str,
        run: Mapping[str, Any],
        keys: int,
        order: Iterable[tuple[Any, ...]] | None = None,
    ) -> None:
        self.run = dict(run)
        self.failures: list[str] = []
        self._record = arguments.record
        self._path = records.record_path(name)
        self._keys, self._order = keys, None if order is None else list(order)
        self._rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Add a row; all rows have the same columns."""
        self._rows.append(row)
        print(as_line(row), flush=True)
        if self._record:
            self._write()

    def note_errors(self, what: str, *measured: Mapping[str, Any]) -> bool:
        """Record the errors among these measurements, and return whether there are any."""
        errors = [str(one["error"]) for one in measured if "error" in one]
        self.failures += [f"{what}: {error}" for error in errors]
        return bool(errors)

    def end(self) -> None:
        """Name the record if there is one; exit with code 1 if anything failed."""
        if self._record and self._rows:
            print(f"docs/results/{self._path.name}: run `make pages` to show it")
        if self.failures:
            sys.exit("\n".join(self.failures))

    def _write(self) -> None:
        rows = _medians(self._rows, self._keys)
        columns, today = [*rows[0], "date"], str(datetime.now(UTC).date())
        known: dict[tuple[Any, ...], list[Any]] = {}
        if self._path.exists():
            content = json.loads(self._path.read_text("utf-8"))
            header, *earlier = content["tables"]["measured"]
            if content["run"] == self.run and header == columns:
                known = {tuple(row[: self._keys]): row for row in earlier}
        for row in rows:
            values = [_rounded(row[column]) for column in columns[:-1]]
            known[tuple(values[: self._keys])] = [*values, today]
        order = sorted(known) if self._order is None else self._order
        table = [known[key] for key in order if key in known]
        content = {"run": self.run, "tables": {"measured": [columns, *table]}}
        records.write_record(self._path.stem, content)


def _medians(measured: Sequence[Row], keys: int) -> list[Row]:
    """One row of medians for all rows that are equal in their first `keys` columns."""
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
