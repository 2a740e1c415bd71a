"""Read what a study left on disk: records, logs and cards become tidy frames."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.report.files import read_json, read_lines
from lexigraft.report.study import SEEDED, NotScored, Predictions, Study
from lexigraft.report.summarize import CELL

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas


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
    scores, predictions, versions, prompts_from = _read_records(paths)
    learned = _present(inputs.get("learned", []), "records of learned metrics", notes)
    checkpoints = _read_checkpoints(
        _present(inputs.get("checkpoints", []), "records of checkpoints", notes)
    )
    scores, predictions, not_scored = _with_learned(scores, predictions, learned)
    not_scored = [*_without_data(paths), *not_scored]
    examples: dict[tuple, list[dict]] = {}
    phases: dict[str, list[dict]] = {}
    initialization: list[dict] = []
    cards: list[dict] = []
    training: list[dict] = []
    curves: list[dict] = []
    fitted = [Path(folder, "card.json") for folder in inputs.get("initialization", [])]
    for path in _present(fitted, "cards of fitted initializers", notes):
        key, card = _initialization_key(path.parent), read_json(path)
        initialization.extend(_statistics(card, key))
        examples[key] = card.get("examples", [])
    trained = [Path(folder, "card.json") for folder in inputs.get("training", [])]
    for path in _present(trained, "cards of trained cells", notes):
        cell, card = _cell_of(path.parent), read_json(path)
        cards.append(card)
        training.append({k: v for k, v in card.items() if isinstance(v, int | float | str)} | cell)
        if found := _find_phases(card.get("job", {}).get("settings", {})):
            phases[cell["strategy"]] = found
        curves.extend(cell | line for line in read_lines(path.parent / "log.jsonl"))
    return Study(
        name=settings["study"],
        title=settings.get("title") or settings["study"],
        reference=settings.get("reference") or {},
        languages=inputs.get("languages") or {},
        scores=scores,
        fragmentation=_read_fragmentation(
            _present(inputs.get("fragmentation", []), "records of tokenizers", notes)
        ),
        training=pandas.DataFrame(training, columns=None if training else SEEDED),
        curves=pandas.DataFrame(curves, columns=None if curves else [*SEEDED, "event", "step"]),
        initialization=pandas.DataFrame(
            initialization, columns=[*CELL[:4], "seed", "statistic", "value"]
        ),
        alignment=_read_alignment(
            _present(inputs.get("alignment", []), "records of alignment", notes)
        ),
        checkpoints=checkpoints,
        tokenizers=_read_tokenizers(compared, versions),
        corpora={
            path.parent.name: read_json(path)
            for path in _present(inputs.get("corpora", []), "cards of texts", notes)
        },
        predictions=predictions,
        not_scored=not_scored,
        planned=_planned(inputs.get("records", [])),
        examples=examples,
        cards=cards,
        phases=phases,
        record_versions=versions,
        prompts_from=prompts_from,
        notes=notes,
    )


def _present(paths: "Iterable[str | Path]", what: str, notes: list[str]) -> list[Path]:
    """The files that are there: a study that is not finished has a report, which says so."""
    wanted = [Path(path) for path in paths]
    found = [path for path in wanted if path.is_file()]
    if lost := [path for path in wanted if not path.is_file()]:
        notes.append(f"{len(lost)} of {len(wanted)} {what} are missing, such as {lost[0]}.")
    return found


def _read_records(
    paths: list[Path],
) -> tuple["pandas.DataFrame", list[Predictions], dict[str, list[str]], dict[str, str]]:
    """Scores, predictions, versions of packages, and what each speed task's prompts are from."""
    import pandas

    rows: list[dict] = []
    predictions: list[Predictions] = []
    versions: dict[str, list[str]] = {}
    prompts_from: dict[str, str] = {}
    for path in paths:
        record = read_json(path)
        missing = {"task", "kind", "cell", "run", "metrics"} - set(record)
        if missing:
            raise UserError(f"{path}: not an evaluation record, lacks {', '.join(sorted(missing))}")
        cell = {axis: record["cell"][axis] for axis in SEEDED}
        cell["seed"] = int(cell["seed"])
        base = cell | {"task": record["task"], "kind": record["kind"], "run": int(record["run"])}
        rows.extend(
            base | {"metric": name, "value": float(value)}
            for name, value in record["metrics"].items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        )
        if record["kind"] == "speed":
            wanted = record.get("settings", {}).get("prompts_from")
            prompts_from[record["task"]] = wanted or "translation"
        kept = path.parent / "predictions.jsonl"
        if kept.is_file():
            facts = (record["metrics"], record.get("details") or {})
            predictions.append(Predictions(cell, record["task"], int(record["run"]), kept, *facts))
        for package, version in record.get("versions", {}).items():
            found = versions.setdefault(package, [])
            if version not in found:
                found.append(version)
    columns = [*SEEDED, "task", "kind", "run", "metric", "value"]
    return pandas.DataFrame(rows, columns=columns), predictions, versions, prompts_from


def _with_learned(
    scores: "pandas.DataFrame", predictions: list[Predictions], paths: list[Path]
) -> tuple["pandas.DataFrame", list[Predictions], list[NotScored]]:
    """Scores and predictions with those of learned metrics, and what these could not score."""
    import pandas

    not_scored: list[NotScored] = []
    of_run: dict[Path, list[Path]] = {}
    for path in paths:
        record = read_json(path)
        of_run.setdefault(path.parent.parent, []).append(path)
        if "not_scored" in record:
            name = record["learned_metric"]
            score = record.get("settings", {}).get("metric") or name
            place = (record["cell"], record["task"], record["run"])
            not_scored.append(NotScored(*place, name, score, record["not_scored"]))
    more = _read_records(paths)[0]
    if not more.empty:
        scores = pandas.concat([scores, more], ignore_index=True)
    predictions = [
        replace(kept, learned=tuple(of_run.get(kept.path.parent, ()))) for kept in predictions
    ]
    return scores, predictions, not_scored


def _without_data(paths: list[Path]) -> list[NotScored]:
    """Runs of tasks whose data was not at hand: of multiple choice, whose score is an accuracy."""
    records = (read_json(path) for path in paths)
    return [
        NotScored(
            record["cell"], record["task"], record["run"], record["task"], "accuracy",
            record["not_scored"],
        )
        for record in records
        if "not_scored" in record
    ]  # fmt: skip


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

    rows: list[pandas.DataFrame] = []
    for path in paths:
        scores, *_ = _read_records([path])
        rows.append(scores.assign(checkpoint=read_json(path)["checkpoint"]))
    columns = [*SEEDED, "task", "kind", "run", "metric", "value", "checkpoint"]
    return pandas.concat(rows, ignore_index=True) if rows else pandas.DataFrame(columns=columns)


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
        for package, version in found["versions"].items():
            known = versions.setdefault(package, [])
            known += [version] if version not in known else []
    return pandas.DataFrame(rows, columns=["tokenizer", "language", "metric", "value"])


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
