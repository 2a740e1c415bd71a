"""Read what a study left on disk: records, logs and cards become tidy frames."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.report.files import read_json
from lexigraft.report.logs import read_logs
from lexigraft.report.study import SEEDED, Contaminated, NotScored, Predictions, Study, TokenCounts
from lexigraft.report.summarize import CELL

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas

_COLUMNS = [*SEEDED, "task", "kind", "run", "metric", "value"]
_RECORD = re.compile(
    r"(?P<language>[^/]+)(/[^/]+){3}/seed-\d+/(?P<task>[^/]+)/run-\d+/record\.json$"
)


def read_study(settings: dict[str, Any], inputs: dict[str, Any]) -> Study:
    """Read the files of a report job.

    Raises
    ------
    UserError
        There are no records at all, or one is not what an evaluation writes.
    """
    import pandas

    notes: list[str] = []
    paths = _present(inputs.get("records", []), "evaluation records", notes)
    compared = _present(inputs.get("tokenizers", []), "records of tokenizers alone", notes)
    if not paths and not compared:
        raise UserError(f"study {settings['study']}: no evaluation records to report on")
    read = _read_records(paths)
    learned = _present(inputs.get("learned", []), "records of learned metrics", notes)
    scores, predictions, not_scored = _with_learned(read, learned)
    checkpoints = _read_checkpoints(
        _present(inputs.get("checkpoints", []), "records of checkpoints", notes)
    )
    examples: dict[tuple, list[dict]] = {}
    phases: dict[str, list[dict]] = {}
    initialization: list[dict] = []
    training: list[dict] = []
    fitted = [Path(folder, "card.json") for folder in inputs.get("initialization", [])]
    for path in _present(fitted, "cards of fitted initializers", notes):
        key, card = _initialization_key(path.parent), read_json(path)
        initialization.extend(_statistics(card, key))
        examples[key] = card.get("examples", [])
    trained = [Path(folder, "card.json") for folder in inputs.get("training", [])]
    trained = _present(trained, "cards of trained cells", notes)
    for path in trained:
        cell, card = _cell_of(path.parent), read_json(path)
        _add_versions(read.versions, card)
        training.append({k: v for k, v in card.items() if isinstance(v, int | float | str)} | cell)
        if found := _find_phases(card.get("job", {}).get("settings", {})):
            phases[cell["strategy"]] = found
    study = Study(
        name=settings["study"],
        title=settings.get("title") or settings["study"],
        reference=settings.get("reference") or {},
        languages=inputs.get("languages") or {},
        scores=scores,
        fragmentation=_read_fragmentation(
            _present(inputs.get("fragmentation", []), "records of tokenizers", notes)
        ),
        training=pandas.DataFrame(training, columns=None if training else SEEDED),
        curves=read_logs((_cell_of(path.parent), path.parent / "log.jsonl") for path in trained),
        initialization=pandas.DataFrame(
            initialization, columns=[*CELL[:4], "seed", "statistic", "value"]
        ),
        alignment=_read_alignment(
            _present(inputs.get("alignment", []), "records of alignment", notes)
        ),
        checkpoints=checkpoints,
        tokenizers=_read_tokenizers(compared, read.versions),
        token_counts=_token_counts(compared),
        corpora={
            path.parent.name: read_json(path)
            for path in _present(inputs.get("corpora", []), "cards of texts", notes)
        },
        counted=_contaminated(
            _present(inputs.get("contamination", []), "counts of tests in training text", notes)
        ),
        predictions=predictions,
        not_scored=not_scored,
        planned=_planned(inputs.get("records", [])),
        examples=examples,
        phases=phases,
        versions=read.versions,
        prompts_from=read.prompts_from,
        notes=notes,
    )
    return _untrained_as_none(study, settings.get("untrained", ()))


def _untrained_as_none(study: Study, names: "Iterable[str]") -> Study:
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


def _present(paths: "Iterable[str | Path]", what: str, notes: list[str]) -> list[Path]:
    """The files that are there: a study that is not finished has a report, which says so."""
    wanted = [Path(path) for path in paths]
    found = [path for path in wanted if path.is_file()]
    if len(found) < len(wanted):
        here = set(found)
        lost = next(path for path in wanted if path not in here)
        count = len(wanted) - len(found)
        notes.append(f"{count} of {len(wanted)} {what} are missing, such as {lost}.")
    return found


def _read_records(paths: list[Path]) -> _Read:
    read = _Read()
    for path in paths:
        record = read_json(path)
        rows, place = _scores(path, record)
        read.rows += rows
        if record["kind"] == "speed":
            wanted = record.get("settings", {}).get("prompts_from")
            read.prompts_from[record["task"]] = wanted or "translation"
        if "not_scored" in record:
            # Of multiple choice alone, whose score is an accuracy.
            why = (record["task"], "accuracy", record["not_scored"])
            read.without_data.append(NotScored(*place, *why))
        kept = path.parent / "predictions.jsonl"
        if kept.is_file():
            facts = (record["metrics"], record.get("details") or {})
            read.predictions.append(Predictions(*place, kept, *facts))
        _add_versions(read.versions, record)
    return read


def _scores(
    path: Path, record: dict[str, Any], **more: Any
) -> tuple[list[dict[str, Any]], tuple[dict[str, Any], str, int]]:
    """A row for each score of a record, and its cell, task and run."""
    missing = {"task", "kind", "cell", "run", "metrics"} - set(record)
    if missing:
        raise UserError(f"{path}: not an evaluation record, lacks {', '.join(sorted(missing))}")
    cell = {axis: record["cell"][axis] for axis in SEEDED}
    cell["seed"] = int(cell["seed"])
    place = (cell, record["task"], int(record["run"]))
    base = cell | {"task": place[1], "kind": record["kind"], "run": place[2]} | more
    rows = [
        base | {"metric": name, "value": float(value)}
        for name, value in record["metrics"].items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return rows, place


def _with_learned(
    read: _Read, paths: list[Path]
) -> tuple["pandas.DataFrame", list[Predictions], list[NotScored]]:
    """Scores and predictions with those of learned metrics, and all that was not scored."""
    import pandas

    rows, not_scored = list(read.rows), list(read.without_data)
    of_run: dict[Path, list[Path]] = {}
    for path in paths:
        record = read_json(path)
        own, place = _scores(path, record)
        rows += own
        of_run.setdefault(path.parent.parent, []).append(path)
        if "not_scored" in record:
            name = record["learned_metric"]
            score = record.get("settings", {}).get("metric") or name
            not_scored.append(NotScored(*place, name, score, record["not_scored"]))
    predictions = [
        replace(kept, learned=tuple(of_run.get(kept.path.parent, ()))) for kept in read.predictions
    ]
    return pandas.DataFrame(rows, columns=_COLUMNS), predictions, not_scored


def _add_versions(versions: dict[str, list[str]], found: dict[str, Any]) -> None:
    """Add those that a record or a card names to what is known of each package."""
    for package, version in found.get("versions", {}).items():
        known = versions.setdefault(package, [])
        known += [version] if version not in known else []


def _planned(paths: "Iterable[str]") -> frozenset[tuple[str, str]]:
    """The languages and tasks that a study measures, by where its records are to lie."""
    found = set()
    for path in map(str, paths):
        match = _RECORD.search(path)
        if match is None:
            return frozenset()
        found.add((match["language"], match["task"]))
    return frozenset(found)


def _read_checkpoints(paths: list[Path]) -> "pandas.DataFrame":
    """Scores of checkpoints, with the number of each."""
    import pandas

    rows: list[dict] = []
    for path in paths:
        record = read_json(path)
        rows += _scores(path, record, checkpoint=record["checkpoint"])[0]
    return pandas.DataFrame(rows, columns=[*_COLUMNS, "checkpoint"])


def _read_fragmentation(paths: list[Path]) -> "pandas.DataFrame":
    import pandas

    rows: list[dict] = []
    for path in paths:
        found = read_json(path)
        key = {axis: found[axis] for axis in CELL[:3]}
        rows.extend(
            key | {"metric": name, "value": float(value)}
            for name, value in found["metrics"].items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        )
    return pandas.DataFrame(rows, columns=[*CELL[:3], "metric", "value"])


def _read_tokenizers(paths: list[Path], versions: dict[str, list[str]]) -> "pandas.DataFrame":
    """Numbers of tokenizers that were compared without a model; their versions join the others."""
    import pandas

    rows: list[dict] = []
    for path in paths:
        found = read_json(path)
        key = {"tokenizer": found["tokenizer"], "language": found["language"]}
        rows.extend(
            key | {"metric": name, "value": float(value)}
            for name, value in found["metrics"].items()
        )
        _add_versions(versions, found)
    return pandas.DataFrame(rows, columns=["tokenizer", "language", "metric", "value"])


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


def _read_alignment(paths: list[Path]) -> "pandas.DataFrame":
    import pandas

    rows: list[dict] = []
    for path in paths:
        found = read_json(path)
        key = {axis: found[axis] for axis in [*CELL[:4], "fit"]}
        rows.extend(
            key | {"metric": name, "value": float(value)}
            for name, value in found["metrics"].items()
        )
    return pandas.DataFrame(rows, columns=[*CELL[:4], "fit", "metric", "value"])


def _cell_of(folder: Path) -> dict[str, Any]:
    *axes, seed = folder.parts[-6:]
    match = re.fullmatch(r"seed-(\d+)", seed)
    if match is None:
        raise UserError(f"{folder}: not the folder of a trained cell, it must end in seed-<number>")
    return dict(zip(CELL, axes, strict=True)) | {"seed": int(match[1])}


def _initialization_key(folder: Path) -> tuple:
    parts = folder.parts
    match = re.fullmatch(r"seed-(\d+)|all-seeds", parts[-1])
    axes = parts[-5:-1] if match else parts[-4:]
    return (*axes, int(match[1]) if match and match[1] else None)


def _statistics(card: dict[str, Any], key: tuple) -> list[dict[str, Any]]:
    flat = {k: v for k, v in card.items() if k not in ("job", "files", "versions", "statistics")}
    flat |= card.get("statistics") or {}
    names = dict(zip([*CELL[:4], "seed"], key, strict=True))
    return [
        names | {"statistic": name, "value": float(value)}
        for name, value in flat.items()
        if isinstance(value, int | float)
    ]


def _find_phases(settings: Any) -> list[dict] | None:
    """The phases of a strategy, wherever the training job's settings keep them."""
    if isinstance(settings, dict):
        if isinstance(settings.get("phases"), list):
            return settings["phases"]
        for value in settings.values():
            if found := _find_phases(value):
                return found
    return None
