"""Read the results of a study from disk: records, logs and cards become tidy frames."""

import math
import shlex
from array import array
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from lexigraft.errors import UserError
from lexigraft.report.published import read_published
from lexigraft.report.study import (
    SEEDED,
    Contaminated,
    NotScored,
    Predictions,
    StudyResults,
    TokenCounts,
    read_json,
    read_lines,
)
from lexigraft.report.summarize import CELL

Run = tuple[dict[str, Any], str, int]  # a cell, a task and the number of the run

_COLUMNS = [*SEEDED, "task", "kind", "run", "metric", "value"]
# Numbers in a line of a training log that figures draw, in addition to its event and step.
_LOGGED = ("tokens", "seconds", "loss", "next_loss", "bits_per_byte", "english_bits_per_byte",
           "perplexity", "english_perplexity")  # fmt: skip


def read_study(settings: dict[str, Any], inputs: dict[str, Any]) -> StudyResults:
    """Read the files of a report job, see `lexigraft.report.build.build_report`.

    All strategies that train nothing are called `none`. Raises a UserError if there are no records,
    or if one is not an evaluation record.
    """
    notes: list[str] = []

    def present(name: str, what: str) -> list[Path]:
        return _present(inputs.get(name, []), what, notes)

    def metrics(name: str, what: str, axes: list[str]) -> pandas.DataFrame:
        return _metrics(map(read_json, present(name, f"records of {what}")), axes)

    def cards(places: Mapping[Path, Any], what: str) -> list[tuple[Any, dict[str, Any]]]:
        """The key of each folder, and its card."""
        found = _present(places, f"cards of {what}", notes)
        return [(places[path], read_json(path)) for path in found]

    paths = present("records", "evaluation records")
    compared = [read_json(path) for path in present("tokenizers", "records of tokenizers alone")]
    if not paths and not compared:
        raise UserError(f"study {settings['study']}: no evaluation records to report on")
    versions: dict[str, list[str]] = {}
    untrained = settings.get("untrained", ())
    evaluated = _read_evaluations(
        paths, present("learned", "records of learned metrics"), untrained, versions
    )
    notes += _mixed_engines(evaluated["predictions"])
    checkpoints = [
        row
        for path in present("checkpoints", "records of checkpoints")
        for record in (read_json(path),)
        for row in _scores(record, path, untrained, checkpoint=record["checkpoint"])[0]
    ]
    examples: dict[tuple, list[dict]] = {}
    initialization: list[dict] = []
    fits = {Path(folder, "card.json"): fit
            for folder, fit in inputs.get("initialization", {}).items()}  # fmt: skip
    for fit, card in cards(fits, "fitted initializers"):
        names = {axis: fit[axis] for axis in (*CELL[:4], "seed")}
        own = {k: v for k, v in card.items() if k not in ("job", "files", "versions", "statistics")}
        initialization += _numbers(names, own | (card.get("statistics") or {}), "statistic")
        examples[tuple(names.values())] = card.get("examples", [])
    phases: dict[str, list[dict]] = {}
    training: list[dict] = []
    trained = {Path(folder, "card.json"): _reported(cell, untrained)
               for folder, cell in inputs.get("training", {}).items()}  # fmt: skip
    for cell, card in cards(trained, "trained cells"):
        _add_versions(versions, card)
        strategy = card.get("job", {}).get("settings", {})
        curve = {"curve_sentences": strategy.get("curve", {}).get("sentences", math.nan)}
        own = {k: v for k, v in card.items() if isinstance(v, int | float | str)}
        training.append(own | curve | cell)
        if found := strategy.get("phases"):
            phases[cell["strategy"]] = found
    for record in compared:
        _add_versions(versions, record)
    exports = {
        tuple(_reported(inputs["training"][folder], untrained)[axis] for axis in SEEDED):
            shlex.join(["snakemake", target, *inputs.get("snakemake", [])])
        for folder, target in inputs.get("exports", {}).items()
    }  # fmt: skip
    corpora = {Path(card): language for language, card in inputs.get("corpora", {}).items()}
    return StudyResults(
        name=settings["study"],
        title=settings.get("title") or settings["study"],
        reference=settings.get("reference") or {},
        budget=settings.get("budget"),
        languages=inputs.get("languages") or {},
        **evaluated,
        corpora=dict(cards(corpora, "texts")),
        fragmentation=metrics("fragmentation", "vocabularies", CELL[:3]),
        training=pandas.DataFrame(training, columns=None if training else SEEDED),
        curves=read_logs(
            (cell, path.with_name("log.jsonl")) for path, cell in trained.items() if path.is_file()
        ),
        initialization=pandas.DataFrame(
            initialization, columns=[*CELL[:4], "seed", "statistic", "value"]
        ),
        alignment=metrics("alignment", "alignment", [*CELL[:4], "fit"]),
        checkpoints=pandas.DataFrame(checkpoints, columns=[*_COLUMNS, "checkpoint"]),
        tokenizers=_metrics(compared, ["tokenizer", "language"]),
        token_counts={
            (record["tokenizer"], record["language"]): TokenCounts(
                record["details"]["texts"], record["details"]["tokens"]
            )
            for record in compared
            if "tokens" in record.get("details", {})
        },
        counted=_contaminated(present("contamination", "counts of tests in training text")),
        planned=frozenset((language, task) for language, task in inputs.get("planned", ())),
        examples=examples,
        aliases=settings.get("aliases", []),
        phases=phases,
        versions=versions,
        exports=exports,
        published=read_published(map(Path, inputs.get("published", ()))),
        notes=notes,
    )


def read_logs(logs: Iterable[tuple[Mapping[str, Any], Path]]) -> pandas.DataFrame:
    """The logs of trained cells as one frame: the grid of a paper logs millions of steps.

    `logs` has the axes and the log of each cell. Returns one row per line: the cell and the
    `event`, with names as categories; `step`; and the logged numbers that any line has, missing for
    other lines.
    """
    # Arrays of numbers, not a dict per line, which takes twenty times the memory.
    cells, lengths = [], []
    events: dict[str, int] = {}
    codes, steps = array("b"), array("q")
    numbers = {name: array("d") for name in _LOGGED}
    for cell, path in logs:
        lines = read_lines(path)
        cells.append(cell)
        lengths.append(len(lines))
        codes.extend(events.setdefault(line["event"], len(events)) for line in lines)
        steps.extend(line["step"] for line in lines)
        for name, values in numbers.items():
            found = (line.get(name) for line in lines)
            values.extend(math.nan if value is None else value for value in found)
    columns: dict[str, Any] = {
        axis: pandas.Categorical([cell[axis] for cell in cells]).repeat(lengths) for axis in CELL
    }
    columns["seed"] = np.repeat([cell["seed"] for cell in cells], lengths).astype(int)
    columns["event"] = pandas.Categorical.from_codes(np.asarray(codes), list(events))
    columns["step"] = np.asarray(steps)
    columns |= {name: np.asarray(values)
                for name, values in numbers.items() if not np.isnan(values).all()}  # fmt: skip
    return pandas.DataFrame(columns)


def _present(paths: Iterable[str | Path], what: str, notes: list[str]) -> list[Path]:
    """The existing files; notes how many are missing, since unfinished studies have reports too."""
    wanted = [(Path(path), Path(path).is_file()) for path in paths]
    lost = [path for path, there in wanted if not there]
    if lost:
        notes.append(f"{len(lost)} of {len(wanted)} {what} are missing, such as {lost[0]}.")
    return [path for path, there in wanted if there]


def _read_evaluations(
    paths: list[Path], learned: list[Path], untrained: Collection[str], versions: dict
) -> dict[str, Any]:
    """The fields of a study from the records of evaluations and of learned metrics."""
    rows: list[dict[str, Any]] = []
    not_scored = []
    predictions: dict[tuple, Predictions] = {}
    prompts_from: dict[str, str] = {}
    for path in (*paths, *learned):
        record = read_json(path)
        own, run = _scores(record, path, untrained)
        rows += own
        key = (*(str(record["cell"][axis]) for axis in SEEDED), *run[1:])
        if metric := record.get("learned_metric"):
            score = record.get("settings", {}).get("metric") or metric
            if key in predictions:
                one = predictions[key]
                predictions[key] = replace(one, learned=(*one.learned, path))
        else:
            # Only multiple-choice tasks can be unscored, and their score is an accuracy.
            metric, score = record["task"], "accuracy"
            _add_versions(versions, record)
            if record["kind"] == "speed":
                wanted = record.get("settings", {}).get("prompts_from")
                prompts_from[record["task"]] = wanted or "translation"
            file = path.with_name("predictions.jsonl")
            if file.is_file():
                facts = (record["metrics"], record.get("details") or {})
                predictions[key] = Predictions(*run, file, *facts)
        if "not_scored" in record:
            not_scored.append(NotScored(*run, metric, score, record["not_scored"]))
    return {
        "scores": pandas.DataFrame(rows, columns=_COLUMNS),
        "predictions": [*predictions.values()],
        "not_scored": not_scored,
        "prompts_from": prompts_from,
    }


def _mixed_engines(predictions: list[Predictions]) -> list[str]:
    """A note on each task whose texts were not all generated by the same engine."""
    engines: dict[str, set[str]] = {}
    for one in predictions:
        if engine := one.details.get("engine"):
            engines.setdefault(one.task, set()).add(engine)
    return [
        f"Texts of {task} were generated by {' and '.join(sorted(found))}, which round differently."
        for task, found in engines.items()
        if len(found) > 1
    ]


def _scores(
    record: dict[str, Any], path: Path, untrained: Collection[str], **more: Any
) -> tuple[list[dict[str, Any]], Run]:
    """A row per score of a record, and its cell, task and run."""
    missing = {"task", "kind", "cell", "run", "metrics"} - set(record)
    if missing:
        raise UserError(f"{path}: not an evaluation record (missing: {', '.join(sorted(missing))})")
    cell = _reported({axis: record["cell"][axis] for axis in SEEDED}, untrained)
    cell["seed"] = int(cell["seed"])
    run = (cell, record["task"], int(record["run"]))
    base = cell | {"task": run[1], "kind": record["kind"], "run": run[2]} | more
    return _numbers(base, record["metrics"]), run


def _reported(cell: dict[str, Any], untrained: Collection[str]) -> dict[str, Any]:
    return cell | {"strategy": "none"} if cell["strategy"] in untrained else cell


def _numbers(
    names: Mapping[str, Any], values: Mapping[str, Any], called: str = "metric"
) -> list[dict[str, Any]]:
    """A row per number, with these names."""
    return [
        {**names, called: name, "value": float(value)}
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def _add_versions(versions: dict[str, list[str]], found: dict[str, Any]) -> None:
    """Add the versions in a record or a card to the known versions of each package."""
    for package, version in found.get("versions", {}).items():
        known = versions.setdefault(package, [])
        known += [version] if version not in known else []


def _metrics(records: Iterable[dict[str, Any]], names: list[str]) -> pandas.DataFrame:
    """One row per metric of each record, with the names of the record."""
    rows = [
        row
        for record in records
        for row in _numbers({name: record[name] for name in names}, _with_members(record))
    ]
    return pandas.DataFrame(rows, columns=[*names, "metric", "value"])


def _with_members(record: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a record, with those of each member of a group: `fertility_<language>`."""
    return record["metrics"] | {
        f"{name}_{member}": value
        for member, metrics in record.get("members", {}).items()
        for name, value in metrics.items()
    }


def _contaminated(paths: list[Path]) -> list[Contaminated]:
    """Counts of each set of tests, whose name consists of its task, language and part."""
    found = []
    for record in map(read_json, paths):
        for row in record["tests"]:
            other = "" if row["test"] == record["language"] else row["test"]
            name = " ".join(filter(None, [other, row["part"]]))
            tests = f"{record['task']}, {name}" if name else record["task"]
            counts = {key: row[key] for key in row if key not in ("test", "part")}
            found.append(Contaminated(record["language"], tests, counts))
    return found
