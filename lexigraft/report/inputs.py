"""Which folders and records a report reads, from the study's config and the layout of its results.

Standard library only: the workflow plans a report by the same lists.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lexigraft.cells import NO_INITIALIZER, SOURCE_VOCABULARY, Cell, cells_of, is_selected

# The inputs that are records.
RECORDS = (
    "records", "learned", "checkpoints", "fragmentation", "tokenizers", "contamination",
    "alignment",
)  # fmt: skip


def report_inputs(
    config: Mapping[str, Any], folders: Mapping[str, str], searched: list[list[str]]
) -> dict[str, Any]:
    """Folders and records that a report reads, by what they hold, in the order of the grid.

    Parameters
    ----------
    config
        The resolved config of the study.
    folders
        Rule -> template of the folder of its outputs, wildcards in braces.
    searched
        Languages and tasks whose test sets were searched for in training text.

    Returns
    -------
    dict
        `RECORDS` -> paths; `training` and `initialization` -> folder -> the cell, `seed` being None
        for one that serves all; `corpora` -> language -> card; `vocabulary` -> folders; `planned`
        -> languages and tasks of the study's runs.
    """
    cells = cells_of(config["cells"])
    runs = [
        (cell, task, selection, run)
        for task, selection in config["run_tasks"].items()
        for cell in cells
        if is_selected(cell, selection)
        for run in range(selection["runs"])
    ]

    def record(cell: Cell, task: str, run: int, below: str = "") -> str:
        return f"{folders['evaluate'].format(**cell.wildcards)}{below}/{task}/run-{run}/record.json"

    # A baseline's tokenizer is the source's own, in the source's folder.
    vocabularies = list(dict.fromkeys((c.source, c.language, c.vocabulary) for c in cells))
    axes = [
        dict(zip(("source", "language", "vocabulary"), key, strict=True)) for key in vocabularies
    ]
    fits: dict[
        tuple[str, ...], dict[str, Any]
    ] = {}  # wildcards of each fitted initializer -> its cell
    for cell in cells:
        if cell.initializer != NO_INITIALIZER:
            drawn = config["initializers"][cell.initializer]["draws"]
            fit = f"seed-{cell.seed}" if drawn else "all-seeds"
            key = (cell.source, cell.language, cell.vocabulary, cell.initializer, fit)
            fits.setdefault(key, asdict(cell) | {"seed": cell.seed if drawn else None})
    names = ("source", "language", "vocabulary", "initializer", "fit")
    fitted = [dict(zip(names, key, strict=True)) for key in fits]
    compared = config["fragmentation"]
    return {
        "records": [record(cell, task, run) for cell, task, _, run in runs],
        "learned": [
            f"{record(cell, task, run).removesuffix('/record.json')}/learned/{metric}.json"
            for cell, task, selection, run in runs
            for metric in selection["learned_metrics"]
        ],
        "checkpoints": [
            record(cell, task, run, f"/checkpoint-{number}")
            for cell, task, selection, run in runs
            if selection["checkpoints"]
            for number in range(1, config["strategies"][cell.strategy]["checkpoints"])
        ],
        "fragmentation": [
            f"{folders['measure_fragmentation'].format(**one)}/record.json" for one in axes
        ],
        "tokenizers": [
            f"{folders['measure_tokenizer'].format(tokenizer=name, language=language)}/record.json"
            for language in compared["languages"]
            for name in compared["tokenizers"]
        ],
        "corpora": {
            language: f"{folders['prepare_corpus'].format(language=language)}/card.json"
            for language in _single_languages(config, cells)
        },
        "planned": [(cell.language, task) for cell, task, _, run in runs if run == 0],
        "contamination": [
            f"{folders['count_tests'].format(language=language, task=task)}/record.json"
            for language, task in searched
        ],
        "training": {folders["train"].format(**cell.wildcards): asdict(cell) for cell in cells},
        "initialization": {
            folders["initialize"].format(**one): cell
            for one, cell in zip(fitted, fits.values(), strict=True)
        },
        "alignment": [f"{folders['measure_alignment'].format(**one)}/record.json" for one in fitted]
        if "measure_alignment" in folders
        else [],
        "vocabulary": [
            folders["expand_vocabulary"].format(**one)
            for one in axes
            if one["vocabulary"] != SOURCE_VOCABULARY
        ],
    }


def files_read(inputs: Mapping[str, Any]) -> list[str]:
    """The files that a report reads, by what `report_inputs` returned; of folders no tensors."""
    read = []
    for kind in RECORDS:
        for record in inputs[kind]:
            read += [record, f"{Path(record).parent}/predictions.jsonl"]
    read += inputs["corpora"].values()
    for folder in (*inputs["training"], *inputs["initialization"], *inputs["vocabulary"]):
        read += [f"{folder}/{name}" for name in ("card.json", "log.jsonl")]
    return read


def report_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a report: `study`, `title`, `reference`, `items` and `untrained` strategies.

    A strategy without phases is `none` in a report, whatever the study calls it.
    """
    untrained = [name for name, entry in config["strategies"].items() if not entry["phases"]]
    return {
        "study": config["study"],
        "title": config["title"],
        "reference": {"strategy": config["report"]["reference_strategy"]},
        "items": [_with_none(item, untrained) for item in config["report"]["items"]],
        "untrained": untrained,
    }


def _with_none(item: str | dict[str, Any], untrained: list[str]) -> str | dict[str, Any]:
    where = item.get("where", {}) if isinstance(item, dict) else {}
    if not isinstance(item, dict) or "strategies" not in where:
        return item
    names = ["none" if name in untrained else name for name in where["strategies"]]
    return item | {"where": where | {"strategies": names}}


def _single_languages(config: Mapping[str, Any], cells: list[Cell]) -> list[str]:
    """Languages that cells or compared tokenizers read, of groups their members."""
    languages = dict.fromkeys(cell.language for cell in cells)
    languages |= dict.fromkeys(config["fragmentation"]["languages"])
    groups = {name: config["languages"][name].get("group", {}) for name in languages}
    return list(
        dict.fromkeys(one for name in languages for one in groups[name].get("members", [name]))
    )
