"""Read the results of a study from disk: records, logs and cards become `StudyResults`."""

import math
import shlex
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from pandas import DataFrame

from lexigraft.artifacts.records import read_json, read_jsonl
from lexigraft.errors import UserError
from lexigraft.report.frame import (
    CELL,
    SCORE,
    SEEDED,
    ContaminatedTests,
    NotScored,
    Predictions,
    StudyResults,
    select,
)
from lexigraft.report.published import read_published

Record = dict[str, Any]
Records = dict[Path, Record]  # by the path of their file

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
    untrained = settings.get("untrained", ())

    def read(paths: Iterable[Path | str], description: str) -> Records:
        """Read the existing files; note how many are missing: unfinished studies have reports."""
        expected = dict.fromkeys(map(Path, paths))
        missing = [path for path in expected if not path.is_file()]
        if missing:
            counts = f"{len(missing)} of {len(expected)} {description}"
            notes.append(f"{counts} are missing, such as {missing[0]}.")
        return {path: read_json(path) for path in expected if path not in missing}

    def evaluations(name: str, description: str) -> Records:
        records = read(inputs.get(name, ()), description)
        return {path: _checked(path, record, untrained) for path, record in records.items()}

    def cards(name: str, description: str) -> list[tuple[Path, dict[str, Any], Record]]:
        """The folder of each card, its axes, and its content."""
        axes = {Path(folder): axes for folder, axes in inputs.get(name, {}).items()}
        files = read([folder / "card.json" for folder in axes], description)
        return [(path.parent, axes[path.parent], card) for path, card in files.items()]

    records = evaluations("records", "evaluation records")
    tokenizers = read(inputs.get("tokenizers", ()), "records of tokenizers alone")
    if not records and not tokenizers:
        raise UserError(f"study {settings['study']}: no evaluation records to report on")
    learned = evaluations("learned", "records of learned metrics")
    checkpoints = evaluations("checkpoints", "records of checkpoints")
    fragmentation = read(inputs.get("fragmentation", ()), "records of vocabularies")
    alignment = read(inputs.get("alignment", ()), "records of alignment")
    fits = cards("initialization", "cards of fitted initializers")
    training = [
        (folder, _with_none(cell, untrained), card)
        for folder, cell, card in cards("training", "cards of trained cells")
    ]
    corpora = {Path(card): language for language, card in inputs.get("corpora", {}).items()}
    corpus_cards = read(corpora, "cards of texts")
    contamination = read(inputs.get("contamination", ()), "counts of tests in training text")
    strategies = {cell["strategy"]: _settings(card).get("phases") for _, cell, card in training}
    commands = {
        tuple(_with_none(inputs["training"][folder], untrained)[axis] for axis in SEEDED): target
        for folder, target in inputs.get("exports", {}).items()
    }
    versions: dict[str, dict[str, None]] = {}
    for file in [card for *_, card in training] + [*records.values(), *tokenizers.values()]:
        for package, version in file.get("versions", {}).items():
            versions.setdefault(package, {})[version] = None
    return StudyResults(
        name=settings["study"],
        title=settings.get("title") or settings["study"],
        reference=settings.get("reference") or {},
        budget=settings.get("budget"),
        languages=inputs.get("languages") or {},
        scores=_with_speed_ups(_scores([*records.values(), *learned.values()])),
        checkpoints=_scores(checkpoints.values(), "checkpoint"),
        fragmentation=_metrics(fragmentation.values(), CELL[:3]),
        initialization=_initialization((fit, card) for _, fit, card in fits),
        alignment=_metrics(alignment.values(), [*CELL[:4], "fit"]),
        tokenizers=_metrics(tokenizers.values(), ["tokenizer", "language"]),
        training=_training((cell, card) for _, cell, card in training),
        curves=read_logs((cell, folder / "log.jsonl") for folder, cell, _ in training),
        predictions=_predictions(records, learned),
        not_scored=_not_scored([*records.values(), *learned.values()]),
        prompts_from={
            record["task"]: record.get("settings", {}).get("prompts_from") or "translation"
            for record in records.values()
            if record["kind"] == "speed"
        },
        corpora={corpora[path]: card for path, card in corpus_cards.items()},
        contamination=_contamination(contamination.values()),
        planned=frozenset((language, task) for language, task in inputs.get("planned", ())),
        examples={
            tuple(fit[axis] for axis in (*CELL[:4], "seed")): card.get("examples", [])
            for _, fit, card in fits
        },
        aliases=settings.get("aliases", []),
        phases={name: phases for name, phases in strategies.items() if phases},
        versions={package: list(of_package) for package, of_package in versions.items()},
        exports={
            cell: shlex.join(["snakemake", target, *inputs.get("snakemake", [])])
            for cell, target in commands.items()
        },
        published=read_published(map(Path, inputs.get("published", ()))),
        notes=notes,
        reports=inputs.get("reports"),
    )


def read_logs(logs: Iterable[tuple[Mapping[str, Any], Path]]) -> DataFrame:
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
    return DataFrame(columns)


def _checked(path: Path, record: Record, untrained: Collection[str]) -> Record:
    """An evaluation record with the axes of its cell in order, and whole numbers."""
    missing = {"task", "kind", "cell", "run", "metrics"} - set(record)
    if missing:
        fields = ", ".join(sorted(missing))
        raise UserError(f"{path}: not an evaluation record (missing: {fields})")
    cell = {axis: record["cell"][axis] for axis in SEEDED} | {"seed": int(record["cell"]["seed"])}
    return record | {"cell": _with_none(cell, untrained), "run": int(record["run"])}


def _with_none(cell: dict[str, Any], untrained: Collection[str]) -> dict[str, Any]:
    """The cell with the strategy `none` if its strategy trains nothing."""
    return cell | {"strategy": "none"} if cell["strategy"] in untrained else cell


def _settings(card: Record) -> dict[str, Any]:
    return card.get("job", {}).get("settings", {})


def _scores(records: Iterable[Record], *fields: str) -> DataFrame:
    """A row per score; `fields` of the records name it too."""
    rows = []
    for record in records:
        names = record["cell"] | {name: record[name] for name in ("task", "kind", "run", *fields)}
        rows += _numbers(names, record["metrics"])
    return DataFrame(rows, columns=[*SCORE, *fields])


def _with_speed_ups(scores: DataFrame) -> DataFrame:
    """The scores, and the ratio of each speed to the source model's, `<metric>_over_source`."""
    speeds = scores[scores["metric"].str.contains("_per_second_batch_")]
    of_source = select(speeds, initializer="none", strategy="none")
    keys = ["source", "language", "task", "metric"]
    levels = of_source.groupby(keys)["value"].mean().rename("level")
    speed_ups = speeds.join(levels, on=keys)
    speed_ups["value"] /= speed_ups.pop("level").where(lambda level: level > 0)
    speed_ups["metric"] += "_over_source"
    return pandas.concat([scores, speed_ups.dropna(subset="value")], ignore_index=True)


def _metrics(records: Iterable[Record], axes: Sequence[str]) -> DataFrame:
    """A row per metric, with those of each member of a group: `fertility_<language>`."""
    rows = []
    for record in records:
        of_members = {
            f"{name}_{member}": value
            for member, metrics in record.get("members", {}).items()
            for name, value in metrics.items()
        }
        size = {"size": record.get("details", {}).get("size")}
        names = {axis: record[axis] for axis in axes}
        rows += _numbers(names, size | record["metrics"] | of_members)
    return DataFrame(rows, columns=[*axes, "metric", "value"])


def _initialization(fits: Iterable[tuple[Mapping[str, Any], Record]]) -> DataFrame:
    """A row per number in the card of a fitted initializer."""
    axes, rows = [*CELL[:4], "seed"], []
    for fit, card in fits:
        facts = {key: card[key] for key in card if key not in ("job", "files", "versions")}
        facts |= facts.pop("statistics", None) or {}
        rows += _numbers({axis: fit[axis] for axis in axes}, facts)
    frame = DataFrame(rows, columns=[*axes, "metric", "value"]).rename(
        columns={"metric": "statistic"}
    )
    return frame.astype({"seed": float})


def _numbers(names: Mapping[str, Any], values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row per number, with these names."""
    return [
        {**names, "metric": name, "value": float(value)}
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def _training(cards: Iterable[tuple[dict[str, Any], Record]]) -> DataFrame:
    """A row per trained cell, with the numbers and texts of its card."""
    rows = []
    for cell, card in cards:
        facts = {key: value for key, value in card.items() if isinstance(value, int | float | str)}
        facts["curve_sentences"] = _settings(card).get("curve", {}).get("sentences", math.nan)
        rows.append(facts | cell)
    return DataFrame(rows, columns=None if rows else SEEDED)


def _predictions(records: Records, learned: Records) -> list[Predictions]:
    """The runs with recorded outputs, each with the records of learned metrics that scored them."""

    def key(record: Record) -> tuple[Any, ...]:
        return (*record["cell"].values(), record["task"], record["run"])

    learned_paths: dict[tuple[Any, ...], list[Path]] = {}
    for path, record in learned.items():
        learned_paths.setdefault(key(record), []).append(path)
    return [
        Predictions(
            cell=record["cell"],
            task=record["task"],
            run=record["run"],
            path=path.with_name("predictions.jsonl"),
            metrics=record["metrics"],
            details=record.get("details") or {},
            learned=tuple(learned_paths.get(key(record), ())),
        )
        for path, record in records.items()
        if path.with_name("predictions.jsonl").is_file()
    ]


def _not_scored(records: Iterable[Record]) -> list[NotScored]:
    """Runs without a score: of a learned metric, or of a multiple-choice task."""
    runs = []
    for record in records:
        if "not_scored" in record:
            metric, task = record.get("learned_metric"), record["task"]
            # Only multiple-choice tasks can be unscored, and their score is an accuracy.
            score = (record.get("settings", {}).get("metric") or metric) if metric else "accuracy"
            why = record["not_scored"]
            runs.append(NotScored(record["cell"], task, record["run"], metric or task, score, why))
    return runs


def _contamination(records: Iterable[Record]) -> list[ContaminatedTests]:
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
