"""Read what a study left on disk: records, logs and cards become tidy frames."""

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
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

if TYPE_CHECKING:
    import pandas

Run = tuple[dict[str, Any], str, int]  # a cell, a task and the number of the run

_COLUMNS = [*SEEDED, "task", "kind", "run", "metric", "value"]
# What figures draw of a line of a training log, beside its event and step.
_LOGGED = (
    "tokens",
    "loss",
    "next_loss",
    "bits_per_byte",
    "english_bits_per_byte",
    "perplexity",
    "english_perplexity",
)


def read_study(settings: dict[str, Any], inputs: dict[str, Any]) -> StudyResults:
    """Read the files of a report job, see `lexigraft.report.build.build_report`.

    Raises
    ------
    UserError
        There are no records at all, or one is not what an evaluation writes.
    """
    import pandas

    notes: list[str] = []

    def present(name: str, what: str) -> list[Path]:
        return _present(inputs.get(name, []), what, notes)

    paths = present("records", "evaluation records")
    compared = present("tokenizers", "records of tokenizers alone")
    if not paths and not compared:
        raise UserError(f"study {settings['study']}: no evaluation records to report on")
    read = _read_records(paths)
    scores, predictions, not_scored = _with_learned(
        read, present("learned", "records of learned metrics")
    )
    checkpoints = [
        row
        for path in present("checkpoints", "records of checkpoints")
        for record in (read_json(path),)
        for row in _scores(record, path, checkpoint=record["checkpoint"])[0]
    ]
    examples: dict[tuple, list[dict]] = {}
    initialization: list[dict] = []
    for fit, card in _cards(inputs.get("initialization", {}), "fitted initializers", notes):
        names = {axis: fit[axis] for axis in (*CELL[:4], "seed")}
        initialization += _numbers(names, _statistics(card), "statistic")
        examples[tuple(names.values())] = card.get("examples", [])
    phases: dict[str, list[dict]] = {}
    training: list[dict] = []
    for cell, card in _cards(inputs.get("training", {}), "trained cells", notes):
        _add_versions(read.versions, card)
        training.append({k: v for k, v in card.items() if isinstance(v, int | float | str)} | cell)
        if found := card.get("job", {}).get("settings", {}).get("phases"):
            phases[cell["strategy"]] = found
    for record in map(read_json, compared):
        _add_versions(read.versions, record)
    corpora = inputs.get("corpora", {})
    cards = set(_present(corpora.values(), "cards of texts", notes))
    study = StudyResults(
        name=settings["study"],
        title=settings.get("title") or settings["study"],
        reference=settings.get("reference") or {},
        languages=inputs.get("languages") or {},
        scores=scores,
        fragmentation=_metrics(present("fragmentation", "records of vocabularies"), CELL[:3]),
        training=pandas.DataFrame(training, columns=None if training else SEEDED),
        curves=read_logs(
            (cell, Path(folder, "log.jsonl"))
            for folder, cell in inputs.get("training", {}).items()
            if Path(folder, "card.json").is_file()
        ),
        initialization=pandas.DataFrame(
            initialization, columns=[*CELL[:4], "seed", "statistic", "value"]
        ),
        alignment=_metrics(present("alignment", "records of alignment"), [*CELL[:4], "fit"]),
        checkpoints=pandas.DataFrame(checkpoints, columns=[*_COLUMNS, "checkpoint"]),
        tokenizers=_metrics(compared, ["tokenizer", "language"]),
        token_counts=_token_counts(compared),
        corpora={name: read_json(Path(p)) for name, p in corpora.items() if Path(p) in cards},
        counted=_contaminated(present("contamination", "counts of tests in training text")),
        predictions=predictions,
        not_scored=not_scored,
        planned=frozenset((language, task) for language, task in inputs.get("planned", ())),
        examples=examples,
        phases=phases,
        versions=read.versions,
        prompts_from=read.prompts_from,
        notes=notes,
    )
    return _untrained_as_none(study, settings.get("untrained", ()))


def _untrained_as_none(study: StudyResults, names: Iterable[str]) -> StudyResults:
    """The study with all strategies that train nothing under the one name `none`."""
    other = dict.fromkeys(names, "none")

    def renamed(cell: dict[str, Any]) -> dict[str, Any]:
        return cell | {"strategy": other.get(cell["strategy"], cell["strategy"])}

    frames = {
        name: frame.assign(strategy=frame["strategy"].map(lambda one: other.get(one, one)))
        for name in ("scores", "training", "curves", "checkpoints")
        if "strategy" in (frame := getattr(study, name))
    }
    return replace(
        study,
        **frames,
        predictions=[replace(one, cell=renamed(one.cell)) for one in study.predictions],
        not_scored=[replace(one, cell=renamed(one.cell)) for one in study.not_scored],
        phases={other.get(name, name): phases for name, phases in study.phases.items()},
    )


def read_logs(logs: Iterable[tuple[Mapping[str, Any], Path]]) -> "pandas.DataFrame":
    """The logs of trained cells as one frame: the grid of a paper logs millions of steps.

    Parameters
    ----------
    logs
        A cell's axes and its log, of each cell.

    Returns
    -------
    pandas.DataFrame
        One row per line: the cell and the `event`, names as categories; `step`; and those of the
        logged numbers that any line has, missing where others have none.
    """
    import numpy as np
    import pandas

    # Numbers side by side, not a dict for each line: that takes twenty times the memory.
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
    for name, values in numbers.items():
        if not np.isnan(values).all():
            columns[name] = np.asarray(values)
    return pandas.DataFrame(columns)


@dataclass
class _Read:
    """What evaluation records hold.

    `without_data` are runs of tasks whose data was not at hand, `prompts_from` says what each speed
    task's prompts are from, and `versions` of which package which were used.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    predictions: list[Predictions] = field(default_factory=list)
    without_data: list[NotScored] = field(default_factory=list)
    prompts_from: dict[str, str] = field(default_factory=dict)
    versions: dict[str, list[str]] = field(default_factory=dict)


def _present(paths: Iterable[str | Path], what: str, notes: list[str]) -> list[Path]:
    """The files that are there: a study that is not finished has a report, which says so."""
    wanted = [Path(path) for path in paths]
    found = [path for path in wanted if path.is_file()]
    if len(found) < len(wanted):
        here = set(found)
        lost = next(path for path in wanted if path not in here)
        count = len(wanted) - len(found)
        notes.append(f"{count} of {len(wanted)} {what} are missing, such as {lost}.")
    return found


def _cards(
    folders: Mapping[str, dict[str, Any]], what: str, notes: list[str]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What names each folder, and its card, of those that have one."""
    places = {Path(folder, "card.json"): names for folder, names in folders.items()}
    found = _present(places, f"cards of {what}", notes)
    return [(places[path], read_json(path)) for path in found]


def _read_records(paths: list[Path]) -> _Read:
    read = _Read()
    for path in paths:
        record = read_json(path)
        rows, run = _scores(record, path)
        read.rows += rows
        if record["kind"] == "speed":
            wanted = record.get("settings", {}).get("prompts_from")
            read.prompts_from[record["task"]] = wanted or "translation"
        if "not_scored" in record:
            # Of multiple choice alone, whose score is an accuracy.
            why = (record["task"], "accuracy", record["not_scored"])
            read.without_data.append(NotScored(*run, *why))
        file = path.parent / "predictions.jsonl"
        if file.is_file():
            facts = (record["metrics"], record.get("details") or {})
            read.predictions.append(Predictions(*run, file, *facts))
        _add_versions(read.versions, record)
    return read


def _scores(record: dict[str, Any], path: Path, **more: Any) -> tuple[list[dict[str, Any]], Run]:
    """A row for each score of a record, and its cell, task and run."""
    missing = {"task", "kind", "cell", "run", "metrics"} - set(record)
    if missing:
        raise UserError(f"{path}: not an evaluation record, lacks {', '.join(sorted(missing))}")
    cell = {axis: record["cell"][axis] for axis in SEEDED}
    cell["seed"] = int(cell["seed"])
    run = (cell, record["task"], int(record["run"]))
    base = cell | {"task": run[1], "kind": record["kind"], "run": run[2]} | more
    return _numbers(base, record["metrics"]), run


def _numbers(
    names: Mapping[str, Any], values: Mapping[str, Any], called: str = "metric"
) -> list[dict[str, Any]]:
    """A row for each number, under these names."""
    return [
        {**names, called: name, "value": float(value)}
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def _with_learned(
    read: _Read, paths: list[Path]
) -> tuple["pandas.DataFrame", list[Predictions], list[NotScored]]:
    """Scores and predictions with those of learned metrics, and all that was not scored."""
    import pandas

    rows, not_scored = list(read.rows), list(read.without_data)
    scored: dict[tuple, list[Path]] = {}
    for path in paths:
        record = read_json(path)
        own, run = _scores(record, path)
        rows += own
        scored.setdefault(_key(*run), []).append(path)
        if "not_scored" in record:
            name = record["learned_metric"]
            score = record.get("settings", {}).get("metric") or name
            not_scored.append(NotScored(*run, name, score, record["not_scored"]))
    predictions = [
        replace(one, learned=tuple(scored.get(_key(one.cell, one.task, one.run), ())))
        for one in read.predictions
    ]
    return pandas.DataFrame(rows, columns=_COLUMNS), predictions, not_scored


def _key(cell: Mapping[str, Any], task: str, run: int) -> tuple:
    return (*cell.values(), task, run)


def _add_versions(versions: dict[str, list[str]], found: dict[str, Any]) -> None:
    """Add those that a record or a card names to what is known of each package."""
    for package, version in found.get("versions", {}).items():
        known = versions.setdefault(package, [])
        known += [version] if version not in known else []


def _metrics(paths: list[Path], names: list[str]) -> "pandas.DataFrame":
    """One row per metric of each record, with what names the record."""
    import pandas

    rows = [
        row
        for record in map(read_json, paths)
        for row in _numbers({name: record[name] for name in names}, record["metrics"])
    ]
    return pandas.DataFrame(rows, columns=[*names, "metric", "value"])


def _statistics(card: dict[str, Any]) -> dict[str, Any]:
    own = {k: v for k, v in card.items() if k not in ("job", "files", "versions", "statistics")}
    return own | (card.get("statistics") or {})


def _contaminated(paths: list[Path]) -> list[Contaminated]:
    """Counts of each set of tests, which is called after its task, its language and its part."""
    found = []
    for record in map(read_json, paths):
        for row in record["tests"]:
            other = "" if row["test"] == record["language"] else row["test"]
            name = " ".join(filter(None, [other, row["part"]]))
            tests = f"{record['task']}, {name}" if name else record["task"]
            counts = {key: row[key] for key in row if key not in ("test", "part")}
            found.append(Contaminated(record["language"], tests, counts))
    return found


def _token_counts(paths: list[Path]) -> dict[tuple[str, str], TokenCounts]:
    """Tokens of each text, where the record has them."""
    records = map(read_json, paths)
    return {
        (found["tokenizer"], found["language"]): TokenCounts(
            found["details"]["texts"], found["details"]["tokens"]
        )
        for found in records
        if "tokens" in found.get("details", {})
    }
