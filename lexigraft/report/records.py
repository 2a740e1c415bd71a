"""Read the results of a study from disk: records, logs and cards become `StudyResults`."""

import math
import shlex
from array import array
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from lexigraft.artifacts.records import read_json, read_jsonl
from lexigraft.errors import UserError
from lexigraft.report.frame import (
    CELL,
    NUMBERS,
    SEEDED,
    ContaminatedTests,
    NotScored,
    Predictions,
    StudyResults,
    TokenCounts,
)
from lexigraft.report.published import read_published

# Numbers in a line of a training log that figures draw, in addition to its event and step.
_LOGGED = (
    "tokens",
    "seconds",
    "loss",
    "next_loss",
    "bits_per_byte",
    "english_bits_per_byte",
    "perplexity",
    "english_perplexity",
)


def read_study(settings: dict[str, Any], inputs: dict[str, Any]) -> StudyResults:
    """Read the files of a report job, see `lexigraft.report.page.build_report`.

    All strategies that train nothing are called `none`. Raises a UserError if there are no records,
    or if one is not an evaluation record.
    """
    notes: list[str] = []
    versions: dict[str, list[str]] = {}
    untrained = settings.get("untrained", ())

    def records(name: str, what: str) -> list[tuple[Path, dict[str, Any]]]:
        paths = _existing(map(Path, inputs.get(name, ())), what, notes)
        return [(path, read_json(path)) for path in paths]

    def cards(folders: Mapping[str, Any], what: str) -> list[tuple[Any, Path, dict[str, Any]]]:
        """The value of each folder, the path of its card, and the card."""
        paths = {Path(folder, "card.json"): value for folder, value in folders.items()}
        existing = _existing(paths, f"cards of {what}", notes)
        return [(paths[path], path, read_json(path)) for path in existing]

    evaluations = records("records", "evaluation records")
    tokenizers = [record for _, record in records("tokenizers", "records of tokenizers alone")]
    if not evaluations and not tokenizers:
        raise UserError(f"study {settings['study']}: no evaluation records to report on")
    learned = records("learned", "records of learned metrics")
    numbers = [row for path, record in (*evaluations, *learned)
               for row in _scores(path, record, untrained)]  # fmt: skip
    for path, record in records("checkpoints", "records of checkpoints"):
        numbers += _scores(path, record, untrained, checkpoint=record["checkpoint"])
    for kind, what, axes, of_kind in (
        ("fragmentation", "records of vocabularies", CELL[:3], None),
        ("alignment", "records of alignment", [*CELL[:4], "fit"], None),
        ("tokenizer", "", ["tokenizer", "language"], tokenizers),
    ):
        read = [record for _, record in records(kind, what)] if of_kind is None else of_kind
        for record in read:
            names = {"record": kind, **{axis: record[axis] for axis in axes}}
            numbers += _numbers(names, _with_members(record))
    examples = {}
    for fit, _, card in cards(inputs.get("initialization", {}), "fitted initializers"):
        names = {axis: fit[axis] for axis in (*CELL[:4], "seed")}
        facts = {key: card[key] for key in card if key not in ("job", "files", "versions")}
        facts |= facts.pop("statistics", None) or {}
        numbers += _numbers({"record": "initialization", **names}, facts)
        examples[tuple(names.values())] = card.get("examples", [])
    training, logs, phases = [], [], {}
    for cell, path, card in cards(inputs.get("training", {}), "trained cells"):
        cell = _with_none(cell, untrained)
        strategy = card.get("job", {}).get("settings", {})
        facts = {key: value for key, value in card.items() if isinstance(value, int | float | str)}
        facts["curve_sentences"] = strategy.get("curve", {}).get("sentences", math.nan)
        training.append(facts | cell)
        logs.append((cell, path.with_name("log.jsonl")))
        if strategy.get("phases"):
            phases[cell["strategy"]] = strategy["phases"]
        _add_versions(versions, card)
    for record in (*(record for _, record in evaluations), *tokenizers):
        _add_versions(versions, record)
    predictions = _predictions(evaluations, learned, untrained)
    notes += _mixed_engines(predictions)
    corpora = {str(Path(card).parent): name for name, card in inputs.get("corpora", {}).items()}
    exports = {
        tuple(_with_none(inputs["training"][folder], untrained)[axis] for axis in SEEDED):
            shlex.join(["snakemake", target, *inputs.get("snakemake", [])])
        for folder, target in inputs.get("exports", {}).items()
    }  # fmt: skip
    return StudyResults(
        name=settings["study"],
        title=settings.get("title") or settings["study"],
        reference=settings.get("reference") or {},
        budget=settings.get("budget"),
        languages=inputs.get("languages") or {},
        numbers=pandas.DataFrame(numbers, columns=NUMBERS),
        training=pandas.DataFrame(training, columns=None if training else SEEDED),
        curves=read_logs(logs),
        predictions=predictions,
        not_scored=_not_scored((*evaluations, *learned), untrained),
        prompts_from={
            record["task"]: record.get("settings", {}).get("prompts_from") or "translation"
            for _, record in evaluations
            if record["kind"] == "speed"
        },
        corpora={language: card for language, _, card in cards(corpora, "texts")},
        token_counts={
            (record["tokenizer"], record["language"]): TokenCounts(
                record["details"]["texts"], record["details"]["tokens"]
            )
            for record in tokenizers
            if "tokens" in record.get("details", {})
        },
        contamination=_contamination(
            record for _, record in records("contamination", "counts of tests in training text")
        ),
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
        lines = read_jsonl(path)
        cells.append(cell)
        lengths.append(len(lines))
        codes.extend(events.setdefault(line["event"], len(events)) for line in lines)
        steps.extend(line["step"] for line in lines)
        for name, values in numbers.items():
            logged = (line.get(name) for line in lines)
            values.extend(math.nan if value is None else value for value in logged)
    columns: dict[str, Any] = {
        axis: pandas.Categorical([cell[axis] for cell in cells]).repeat(lengths) for axis in CELL
    }
    columns["seed"] = np.repeat([cell["seed"] for cell in cells], lengths).astype(int)
    columns["event"] = pandas.Categorical.from_codes(np.asarray(codes), list(events))
    columns["step"] = np.asarray(steps)
    for name, values in numbers.items():
        if not np.isnan(values).all():
            columns[name] = np.asarray(values)
    return pandas.DataFrame(columns)


def _existing(paths: Iterable[Path], what: str, notes: list[str]) -> list[Path]:
    """The existing files; notes how many are missing, since unfinished studies have reports too."""
    expected = list(paths)
    missing = [path for path in expected if not path.is_file()]
    if missing:
        notes.append(f"{len(missing)} of {len(expected)} {what} are missing, such as {missing[0]}.")
    return [path for path in expected if path not in set(missing)]


def _run(record: dict[str, Any], untrained: Collection[str]) -> tuple[dict[str, Any], str, int]:
    """The cell, the task and the number of the run of an evaluation record."""
    cell = {axis: record["cell"][axis] for axis in SEEDED}
    cell["seed"] = int(cell["seed"])
    return _with_none(cell, untrained), record["task"], int(record["run"])


def _with_none(cell: dict[str, Any], untrained: Collection[str]) -> dict[str, Any]:
    return cell | {"strategy": "none"} if cell["strategy"] in untrained else cell


def _scores(
    path: Path, record: dict[str, Any], untrained: Collection[str], **more: Any
) -> list[dict[str, Any]]:
    """A row per score of an evaluation record."""
    missing = {"task", "kind", "cell", "run", "metrics"} - set(record)
    if missing:
        raise UserError(f"{path}: not an evaluation record (missing: {', '.join(sorted(missing))})")
    cell, task, run = _run(record, untrained)
    names = {"record": "evaluation", **cell, "task": task, "kind": record["kind"], "run": run}
    return _numbers(names | more, record["metrics"])


def _numbers(names: Mapping[str, Any], values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row per number, with these names."""
    return [
        {**names, "metric": name, "value": float(value)}
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def _with_members(record: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a record, with those of each member of a group: `fertility_<language>`."""
    return record["metrics"] | {
        f"{name}_{member}": value
        for member, metrics in record.get("members", {}).items()
        for name, value in metrics.items()
    }


def _predictions(
    evaluations: list[tuple[Path, dict[str, Any]]],
    learned: list[tuple[Path, dict[str, Any]]],
    untrained: Collection[str],
) -> list[Predictions]:
    """The runs with recorded outputs, each with the records of learned metrics that scored them."""

    def key(record: dict[str, Any]) -> tuple[Any, ...]:
        cell, task, run = _run(record, untrained)
        return (*cell.values(), task, run)

    scored: dict[tuple, list[Path]] = {}
    for path, record in learned:
        scored.setdefault(key(record), []).append(path)
    predictions = []
    for path, record in evaluations:
        outputs = path.with_name("predictions.jsonl")
        if outputs.is_file():
            facts = (record["metrics"], record.get("details") or {})
            of_learned = tuple(scored.get(key(record), ()))
            predictions.append(Predictions(*_run(record, untrained), outputs, *facts, of_learned))
    return predictions


def _not_scored(
    records: Iterable[tuple[Path, dict[str, Any]]], untrained: Collection[str]
) -> list[NotScored]:
    """Runs without a score: of a learned metric, or of a multiple-choice task."""
    runs = []
    for _, record in records:
        if "not_scored" in record:
            name = record.get("learned_metric")
            # Only multiple-choice tasks can be unscored, and their score is an accuracy.
            score = (record.get("settings", {}).get("metric") or name) if name else "accuracy"
            names = (name or record["task"], score, record["not_scored"])
            runs.append(NotScored(*_run(record, untrained), *names))
    return runs


def _mixed_engines(predictions: list[Predictions]) -> list[str]:
    """A note on each task whose texts were not all generated by the same engine."""
    engines: dict[str, set[str]] = {}
    for run in predictions:
        if engine := run.details.get("engine"):
            engines.setdefault(run.task, set()).add(engine)
    return [
        f"Texts of {task} were generated by {' and '.join(sorted(names))}, which round differently."
        for task, names in engines.items()
        if len(names) > 1
    ]


def _add_versions(versions: dict[str, list[str]], record: dict[str, Any]) -> None:
    """Add the versions in a record or a card to the known versions of each package."""
    for package, version in record.get("versions", {}).items():
        known = versions.setdefault(package, [])
        if version not in known:
            known.append(version)


def _contamination(records: Iterable[dict[str, Any]]) -> list[ContaminatedTests]:
    """Counts of each set of tests, whose name consists of its task, language and part."""
    counted = []
    for record in records:
        for row in record["tests"]:
            language = "" if row["test"] == record["language"] else row["test"]
            name = " ".join(filter(None, [language, row["part"]]))
            tests = f"{record['task']}, {name}" if name else record["task"]
            counts = {key: row[key] for key in row if key not in ("test", "part")}
            counted.append(ContaminatedTests(record["language"], tests, counts))
    return counted
