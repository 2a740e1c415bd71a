"""The folders and records that a report reads, from the study's config and its results layout.

Standard library only: the workflow plans a report with the same lists.
"""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from lexigraft.cells import NO_INITIALIZER, SOURCE_VOCABULARY, Cell, cells_of, is_selected

# Keys of the inputs that are records.
RECORDS = (
    "records", "learned", "checkpoints", "fragmentation", "tokenizers", "contamination",
    "alignment",
)  # fmt: skip


def report_inputs(
    config: Mapping[str, Any], folders: Mapping[str, str], searched: list[list[str]]
) -> dict[str, Any]:
    """Folders and records that a report reads, by their content, in the order of the grid.

    Derived from the resolved `config` of the study, `folders`: rule -> template of its output
    folder, with wildcards in braces, and `searched`: languages and tasks whose test sets were
    searched for in training text.

    Returns `RECORDS` -> paths; `training` and `initialization` -> folder -> the cell, with `seed`
    None for an initializer that serves all; `exports` -> folder of a training -> the Snakemake
    target that exports it; `corpora` -> language -> card; `vocabulary` -> folders; `planned` ->
    languages and tasks of the study's runs.
    """
    cells = cells_of(config["cells"], config["aliases"])
    runs = [
        (cell, task, selection, run)
        for task, selection in config["run_tasks"].items()
        for cell in cells
        if is_selected(cell, selection)
        for run in range(selection["runs"])
    ]

    def run_folder(cell: Cell, task: str, run: int, below: str = "") -> str:
        return f"{folders['evaluate'].format(**cell.wildcards)}{below}/{task}/run-{run}"

    def record(rule: str, **wildcards: str) -> str:
        return f"{folders[rule].format(**wildcards)}/record.json"

    # Baselines are included: their tokenizer is that of the source.
    keys = dict.fromkeys((cell.source, cell.language, cell.vocabulary) for cell in cells)
    vocabularies = [
        {"source": source, "language": language, "vocabulary": vocabulary}
        for source, language, vocabulary in keys
    ]
    fits: dict[str, dict[str, Any]] = {}  # folder of each fitted initializer -> its cell
    alignment: dict[str, None] = {}
    for cell in cells:
        if cell.initializer != NO_INITIALIZER:
            drawn = config["initializers"][cell.initializer]["draws"]
            wildcards = cell.wildcards | {"fit": f"seed-{cell.seed}" if drawn else "all-seeds"}
            seed = cell.seed if drawn else None
            fits.setdefault(
                folders["initialize"].format(**wildcards), asdict(cell) | {"seed": seed}
            )
            if "measure_alignment" in folders:
                alignment[record("measure_alignment", **wildcards)] = None
    compared = config["fragmentation"]
    train, export = folders["train"], folders["export_cell"]
    every = [cell.wildcards for cell in cells]
    return {
        "records": [f"{run_folder(cell, task, run)}/record.json" for cell, task, _, run in runs],
        "learned": [
            f"{run_folder(cell, task, run)}/learned/{metric}.json"
            for cell, task, selection, run in runs
            for metric in selection["learned_metrics"]
        ],
        "checkpoints": [
            f"{run_folder(cell, task, run, f'/checkpoint-{number}')}/record.json"
            for cell, task, selection, run in runs
            if selection["checkpoints"]
            for number in range(1, config["strategies"][cell.strategy]["checkpoints"])
        ],
        "fragmentation": [record("measure_fragmentation", **one) for one in vocabularies],
        "tokenizers": [
            record("measure_tokenizer", tokenizer=name, language=language)
            for language in compared["languages"]
            for name in compared["tokenizers"]
        ],
        "corpora": {
            language: f"{folders['prepare_corpus'].format(language=language)}/card.json"
            for language in _single_languages(config, cells)
        },
        "planned": [(cell.language, task) for cell, task, _, run in runs if run == 0],
        "contamination": [
            record("count_tests", language=language, task=task) for language, task in searched
        ],
        "training": {train.format(**cell.wildcards): asdict(cell) for cell in cells},
        "exports": {train.format(**one): f"{export.format(**one)}/card.json" for one in every},
        "initialization": fits,
        "alignment": list(alignment),
        "vocabulary": [
            folders["expand_vocabulary"].format(**one)
            for one in vocabularies
            if one["vocabulary"] != SOURCE_VOCABULARY
        ],
    }


def files_read(inputs: Mapping[str, Any]) -> list[str]:
    """The files that a report reads, given the result of `report_inputs`; without tensors."""
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

    `aliases` are those of the config; `budget` is the study's, if it has one; `sources` are the
    origins of the source models. A strategy without phases is `none` in a report, whatever the
    study calls it.
    """
    untrained = [name for name, entry in config["strategies"].items() if not entry["phases"]]
    return {
        "study": config["study"],
        "title": config["title"],
        **({"budget": config["budget"]} if "budget" in config else {}),
        "reference": {"strategy": config["report"]["reference_strategy"]},
        "items": [_with_none(item, untrained) for item in config["report"]["items"]],
        "untrained": untrained,
        "aliases": config["aliases"],
        "sources": {
            name: _located(config["sources"][name], config["packages"])
            for name in dict.fromkeys(
                chain.from_iterable(block["sources"] for block in config["cells"])
            )
        },
    }


def _located(source: Mapping[str, Any], packages: Mapping[str, Any]) -> str:
    """The origin of a source model, as exactly as the config specifies it."""
    if name := source.get("hub"):
        return f"{name} of the Hugging Face hub, revision {source.get('revision', 'not pinned')}"
    if folder := source.get("folder"):
        return f"folder {folder}"
    package = packages[source["package"]]
    name = package.get("name", source["package"])
    return f"{source['file']} of {package['registry']} package {name} {package['version']}"


def _with_none(item: Any, untrained: list[str]) -> Any:
    """An item, or a part of one, with the report's names of `strategies`."""
    if isinstance(item, list):
        return [_with_none(one, untrained) for one in item]
    if not isinstance(item, dict):
        return item
    return {
        key: ["none" if name in untrained else name for name in value]
        if key == "strategies"
        else _with_none(value, untrained)
        for key, value in item.items()
    }


def _single_languages(config: Mapping[str, Any], cells: list[Cell]) -> list[str]:
    """Languages that cells or compared tokenizers read; groups are replaced by their members."""
    names = [*(cell.language for cell in cells), *config["fragmentation"]["languages"]]
    groups = {name: config["languages"][name].get("group", {}) for name in names}
    members = (one for name, group in groups.items() for one in group.get("members", [name]))
    return list(dict.fromkeys(members))
