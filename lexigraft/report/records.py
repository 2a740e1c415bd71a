"""Read the results of a study from disk: records, logs and cards become `StudyResults`."""

import math
import shlex
from array import array
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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


class _File(NamedTuple):
    """A record or a card."""

    path: Path
    content: dict[str, Any]


class _Evaluation(NamedTuple):
    """The record of a run of a task on a cell, of the task's own metrics or of a learned one."""

    path: Path
    cell: dict[str, Any]  # its strategy is `none` if it trains nothing
    task: str
    run: int
    record: dict[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """What identifies the run: records of learned metrics have that of the scored run."""
        return (*self.cell.values(), self.task, self.run)


def read_study(settings: dict[str, Any], inputs: dict[str, Any]) -> StudyResults:
    """Read the files of a report job, see `lexigraft.report.page.build_report`.

    All strategies that train nothing are called `none`. Raises a UserError if there are no records,
    or if one is not an evaluation record.
    """
    notes: list[str] = []
    untrained = settings.get("untrained", ())

    def read(name: str, description: str) -> list[_File]:
        return _read_files(map(Path, inputs.get(name, ())), description, notes)

    evaluations = _evaluations(read("records", "evaluation records"), untrained)
    tokenizers = [file.content for file in read("tokenizers", "records of tokenizers alone")]
    if not evaluations and not tokenizers:
        raise UserError(f"study {settings['study']}: no evaluation records to report on")
    learned = _evaluations(read("learned", "records of learned metrics"), untrained)
    checkpoints = _evaluations(read("checkpoints", "records of checkpoints"), untrained)
    fragmentation = [file.content for file in read("fragmentation", "records of vocabularies")]
    alignment = [file.content for file in read("alignment", "records of alignment")]

    fits = {
        Path(folder, "card.json"): fit for folder, fit in inputs.get("initialization", {}).items()
    }
    fit_cards = _read_files(fits, "cards of fitted initializers", notes)
    cells = {
        Path(folder, "card.json"): _with_none(cell, untrained)
        for folder, cell in inputs.get("training", {}).items()
    }
    training_cards = _read_files(cells, "cards of trained cells", notes)

    predictions = _predictions(evaluations, learned)
    notes += _mixed_engines(predictions)

    corpora = {Path(card): language for language, card in inputs.get("corpora", {}).items()}
    corpus_cards = _read_files(corpora, "cards of texts", notes)
    contamination = read("contamination", "counts of tests in training text")

    rows = [
        *_score_rows([*evaluations, *learned]),
        *_score_rows(checkpoints, "checkpoint"),
        *_metric_rows("fragmentation", fragmentation, CELL[:3]),
        *_metric_rows("alignment", alignment, [*CELL[:4], "fit"]),
        *_metric_rows("tokenizer", tokenizers, ["tokenizer", "language"]),
    ]
    examples = {}
    for path, card in fit_cards:
        fit = {axis: fits[path][axis] for axis in (*CELL[:4], "seed")}
        rows += _initialization_rows(fit, card)
        examples[tuple(fit.values())] = card.get("examples", [])
    training = [_training_facts(card) | cells[path] for path, card in training_cards]
    strategies = ((cells[path]["strategy"], _strategy(card)) for path, card in training_cards)
    versioned = [file.content for file in training_cards]
    versioned += [*(evaluation.record for evaluation in evaluations), *tokenizers]
    return StudyResults(
        name=settings["study"],
        title=settings.get("title") or settings["study"],
        reference=settings.get("reference") or {},
        budget=settings.get("budget"),
        languages=inputs.get("languages") or {},
        numbers=pandas.DataFrame(rows, columns=NUMBERS),
        training=pandas.DataFrame(training, columns=None if training else SEEDED),
        curves=read_logs((cells[path], path.with_name("log.jsonl")) for path, _ in training_cards),
        predictions=predictions,
        not_scored=_not_scored([*evaluations, *learned]),
        prompts_from=_prompts_from(evaluations),
        corpora={corpora[path]: card for path, card in corpus_cards},
        contamination=_contamination(file.content for file in contamination),
        planned=frozenset((language, task) for language, task in inputs.get("planned", ())),
        examples=examples,
        aliases=settings.get("aliases", []),
        phases={name: entry["phases"] for name, entry in strategies if entry.get("phases")},
        versions=_versions(versioned),
        exports=_export_commands(inputs, cells),
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


def _read_files(paths: Iterable[Path], description: str, notes: list[str]) -> list[_File]:
    """Read the existing files.

    Notes how many are missing, since unfinished studies have reports too.
    """
    expected = list(paths)
    missing = {path: None for path in expected if not path.is_file()}
    if missing:
        count = sum(path in missing for path in expected)
        example = next(iter(missing))
        notes.append(f"{count} of {len(expected)} {description} are missing, such as {example}.")
    return [_File(path, read_json(path)) for path in expected if path not in missing]


def _evaluations(files: Iterable[_File], untrained: Collection[str]) -> list[_Evaluation]:
    """Check evaluation records; their cells get the strategy `none` if it trains nothing."""
    evaluations = []
    for path, record in files:
        missing = {"task", "kind", "cell", "run", "metrics"} - set(record)
        if missing:
            fields = ", ".join(sorted(missing))
            raise UserError(f"{path}: not an evaluation record (missing: {fields})")
        cell = {axis: record["cell"][axis] for axis in SEEDED}
        cell["seed"] = int(cell["seed"])
        evaluations.append(
            _Evaluation(
                path=path,
                cell=_with_none(cell, untrained),
                task=record["task"],
                run=int(record["run"]),
                record=record,
            )
        )
    return evaluations


def _with_none(cell: dict[str, Any], untrained: Collection[str]) -> dict[str, Any]:
    """The cell with the strategy `none` if its strategy trains nothing."""
    return cell | {"strategy": "none"} if cell["strategy"] in untrained else cell


def _strategy(card: dict[str, Any]) -> dict[str, Any]:
    """The settings of the strategy that a cell was trained with."""
    return card.get("job", {}).get("settings", {})


def _score_rows(evaluations: Iterable[_Evaluation], *axes: str) -> list[dict[str, Any]]:
    """A row per score; `axes` are fields of the records that name it too."""
    rows = []
    for evaluation in evaluations:
        names = {
            "record": "evaluation",
            **evaluation.cell,
            "task": evaluation.task,
            "kind": evaluation.record["kind"],
            "run": evaluation.run,
            **{axis: evaluation.record[axis] for axis in axes},
        }
        rows += _number_rows(names, evaluation.record["metrics"])
    return rows


def _metric_rows(
    record_kind: str, records: Iterable[dict[str, Any]], axes: Iterable[str]
) -> list[dict[str, Any]]:
    """A row per metric, with those of each member of a group: `fertility_<language>`."""
    axes, rows = list(axes), []
    for record in records:
        metrics_of_members = {
            f"{name}_{member}": value
            for member, metrics in record.get("members", {}).items()
            for name, value in metrics.items()
        }
        names = {"record": record_kind, **{axis: record[axis] for axis in axes}}
        rows += _number_rows(names, record["metrics"] | metrics_of_members)
    return rows


def _initialization_rows(fit: dict[str, Any], card: dict[str, Any]) -> list[dict[str, Any]]:
    """A row per number in the card of a fitted initializer."""
    facts = {key: card[key] for key in card if key not in ("job", "files", "versions")}
    facts |= facts.pop("statistics", None) or {}
    return _number_rows({"record": "initialization", **fit}, facts)


def _number_rows(names: Mapping[str, Any], values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row per number, with these names."""
    return [
        {**names, "metric": name, "value": float(value)}
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def _training_facts(card: dict[str, Any]) -> dict[str, Any]:
    """The numbers and texts in the card of a trained cell."""
    facts = {key: value for key, value in card.items() if isinstance(value, int | float | str)}
    facts["curve_sentences"] = _strategy(card).get("curve", {}).get("sentences", math.nan)
    return facts


def _predictions(
    evaluations: Iterable[_Evaluation], learned: Iterable[_Evaluation]
) -> list[Predictions]:
    """The runs with recorded outputs, each with the records of learned metrics that scored them."""
    learned_paths: dict[tuple[Any, ...], list[Path]] = {}
    for evaluation in learned:
        learned_paths.setdefault(evaluation.key, []).append(evaluation.path)
    predictions = []
    for evaluation in evaluations:
        outputs = evaluation.path.with_name("predictions.jsonl")
        if outputs.is_file():
            predictions.append(
                Predictions(
                    cell=evaluation.cell,
                    task=evaluation.task,
                    run=evaluation.run,
                    path=outputs,
                    metrics=evaluation.record["metrics"],
                    details=evaluation.record.get("details") or {},
                    learned=tuple(learned_paths.get(evaluation.key, ())),
                )
            )
    return predictions


def _not_scored(evaluations: Iterable[_Evaluation]) -> list[NotScored]:
    """Runs without a score: of a learned metric, or of a multiple-choice task."""
    runs = []
    for evaluation in evaluations:
        record = evaluation.record
        if "not_scored" not in record:
            continue
        metric = record.get("learned_metric")
        # Only multiple-choice tasks can be unscored, and their score is an accuracy.
        score = (record.get("settings", {}).get("metric") or metric) if metric else "accuracy"
        runs.append(
            NotScored(
                cell=evaluation.cell,
                task=evaluation.task,
                run=evaluation.run,
                metric=metric or evaluation.task,
                score=score,
                why=record["not_scored"],
            )
        )
    return runs


def _prompts_from(evaluations: Iterable[_Evaluation]) -> dict[str, str]:
    """Speed task -> the kind of task whose prompts it generates from."""
    speeds = [evaluation for evaluation in evaluations if evaluation.record["kind"] == "speed"]
    settings = ((speed.task, speed.record.get("settings", {})) for speed in speeds)
    return {task: options.get("prompts_from") or "translation" for task, options in settings}


def _export_commands(
    inputs: Mapping[str, Any], cells: Mapping[Path, dict[str, Any]]
) -> dict[tuple[Any, ...], str]:
    """Trained cell -> the command that exports it; `cells` are by path of their card."""
    commands = {}
    for folder, target in inputs.get("exports", {}).items():
        cell = cells[Path(folder, "card.json")]
        command = ["snakemake", target, *inputs.get("snakemake", [])]
        commands[tuple(cell[axis] for axis in SEEDED)] = shlex.join(command)
    return commands


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


def _versions(files: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """The versions of each package in records and cards."""
    versions: dict[str, dict[str, None]] = {}
    for file in files:
        for package, version in file.get("versions", {}).items():
            versions.setdefault(package, {})[version] = None
    return {package: list(of_package) for package, of_package in versions.items()}


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
