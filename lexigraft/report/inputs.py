"""The folders and records that a report reads, from the study's config and its results layout.

Standard library only: the workflow plans a report with the same lists.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lexigraft.cells import NO_INITIALIZER, SOURCE_VOCABULARY, cells_of, is_selected

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

    def record(rule: str, **wildcards: str) -> str:
        return f"{folders[rule].format(**wildcards)}/record.json"

    cells = cells_of(config["cells"], config["aliases"])
    inputs: dict[str, Any] = {name: [] for name in (*RECORDS, "planned", "vocabulary")}
    inputs |= {"training": {}, "exports": {}, "initialization": {}, "corpora": {}}
    for task, selection in config["run_tasks"].items():
        for cell in (cell for cell in cells if is_selected(cell, selection)):
            folder = folders["evaluate"].format(**cell.wildcards)
            checkpoints = range(0)  # all but the last
            if selection["checkpoints"]:
                checkpoints = range(1, config["strategies"][cell.strategy]["checkpoints"])
            inputs["planned"].append((cell.language, task))
            learned = [f"learned/{metric}.json" for metric in selection["learned_metrics"]]
            for run in (f"{task}/run-{number}" for number in range(selection["runs"])):
                inputs["records"].append(f"{folder}/{run}/record.json")
                inputs["learned"] += [f"{folder}/{run}/{file}" for file in learned]
                inputs["checkpoints"] += [
                    f"{folder}/checkpoint-{number}/{run}/{file}"
                    for number in checkpoints
                    for file in ("record.json", *learned)
                ]
    for cell in cells:
        folder = folders["train"].format(**cell.wildcards)
        inputs["training"][folder] = asdict(cell)
        inputs["exports"][folder] = f"{folders['export_cell'].format(**cell.wildcards)}/card.json"
        if cell.initializer != NO_INITIALIZER:
            drawn = config["initializers"][cell.initializer]["draws"]
            wildcards = cell.wildcards | {"fit": f"seed-{cell.seed}" if drawn else "all-seeds"}
            fit = asdict(cell) | {"seed": cell.seed if drawn else None}
            inputs["initialization"].setdefault(folders["initialize"].format(**wildcards), fit)
            if "measure_alignment" in folders:
                inputs["alignment"].append(record("measure_alignment", **wildcards))
    inputs["alignment"] = list(dict.fromkeys(inputs["alignment"]))
    # Baselines are included: their tokenizer is that of the source.
    for key in dict.fromkeys((cell.source, cell.language, cell.vocabulary) for cell in cells):
        wildcards = dict(zip(("source", "language", "vocabulary"), key, strict=True))
        inputs["fragmentation"].append(record("measure_fragmentation", **wildcards))
        if key[-1] != SOURCE_VOCABULARY:
            inputs["vocabulary"].append(folders["expand_vocabulary"].format(**wildcards))
    compared = config["fragmentation"]
    inputs["tokenizers"] = [
        record("measure_tokenizer", tokenizer=name, language=language)
        for language in compared["languages"]
        for name in compared["tokenizers"]
    ]
    inputs["contamination"] = [
        record("count_tests", language=language, task=task) for language, task in searched
    ]
    for name in dict.fromkeys([*(cell.language for cell in cells), *compared["languages"]]):
        # Groups are replaced by their members.
        for language in config["languages"][name].get("group", {}).get("members", [name]):
            card = f"{folders['prepare_corpus'].format(language=language)}/card.json"
            inputs["corpora"][language] = card
    return inputs


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
    sources = dict.fromkeys(name for block in config["cells"] for name in block["sources"])
    return {
        "study": config["study"],
        "title": config["title"],
        **({"budget": config["budget"]} if "budget" in config else {}),
        "reference": {"strategy": config["report"]["reference_strategy"]},
        "items": _with_none(config["report"]["items"], untrained),
        "untrained": untrained,
        "aliases": config["aliases"],
        "sources": {name: _origin(config["sources"][name], config["packages"]) for name in sources},
    }


def _origin(source: Mapping[str, Any], packages: Mapping[str, Any]) -> str:
    """The origin of a source model, as exactly as the config specifies it."""
    if name := source.get("hub"):
        return f"{name} of the Hugging Face hub, revision {source.get('revision', 'not pinned')}"
    if folder := source.get("folder"):
        return f"folder {folder}"
    package = packages[source["package"]]
    name = package.get("name", source["package"])
    return f"{source['file']} of {package['registry']} package {name} {package['version']}"


def _with_none(items: Any, untrained: list[str]) -> Any:
    """Items, or a part of one, with the report's names of `strategies`."""
    if isinstance(items, list):
        return [_with_none(item, untrained) for item in items]
    if not isinstance(items, dict):
        return items
    return {
        key: ["none" if name in untrained else name for name in value]
        if key == "strategies"
        else _with_none(value, untrained)
        for key, value in items.items()
    }
