"""The report stage."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from lexigraft.cells import NO_INITIALIZER
from lexigraft.report.items import read_items, records_read
from workflow.config.checks import languages_read
from workflow.config.registries import PUBLISHED, WITHOUT_EFFECT, papers_compared
from workflow.config.training_data import members, teachers, used
from workflow.stages.cells import initialization, tokenizer_axes, training, vocabulary
from workflow.stages.measuring import evaluations, tasks_of
from workflow.stages.stage import Output, stage
from workflow.stages.study import Study, in_repository
from workflow.stages.texts import corpus, package, searched

# Keys of a study that define locations, downloads, and how jobs compute.
_PLACES = ("prefix", "hub_cache", "machine", "packages_folder", "metrics_python", "files")
# The paths of the files of a group, and the name of the group in Snakemake's own report.
_SHOWN = {
    "pages": ("{}.html", "1 Read this first"),
    "tables": ("tables/{}.html", "2 Tables"),
    "figures": ("figures/{}.png", "3 Figures"),
}


def command_arguments(
    snakefile: Path, configfiles: Sequence[Path], config: Sequence[str], here: Path
) -> list[str]:
    """The arguments of `snakemake` after a target to plan the same study again, run in `here`.

    `config` are the `key=value` arguments of `--config`. The target must come first: `--configfile`
    and `--config` take all arguments that follow them.
    """
    arguments = ["--cores", "1"]
    if snakefile not in (here / "Snakefile", here / "workflow/Snakefile"):
        arguments += ["--snakefile", str(snakefile)]
    if configfiles:
        shown = (file.relative_to(here) if file.is_relative_to(here) else file
                 for file in configfiles)  # fmt: skip
        arguments += ["--configfile", *map(str, shown)]
    return [*arguments, "--config", *config] if config else arguments


def report_files(study: Study, group: str) -> list[dict[str, Any]]:
    """The files of the study's `pages`, `tables` or `figures`, see `in_report`."""
    place, category = _SHOWN[group]
    return [
        in_report(study, place.format(item.name), item.label, category)
        for item in read_items(study.config["report"]["items"])
        if item.group == group
    ]


def in_report(study: Study, file: str, label: str, category: str) -> dict[str, Any]:
    """The arguments of Snakemake's `report` for a file, whose caption has the same name."""
    folder = study.template("build_report")
    return {
        "value": f"{folder}/{file}",
        "caption": str(Path(folder, "captions", f"{Path(file).stem}.rst").absolute()),
        "category": category,
        "labels": {"item": label},
    }


def _required(study: Study, **_: str) -> Iterator[Output]:
    """All outputs that the report reads."""
    aligned = _shows_alignment(study)
    for cell in study.cells:
        yield training(study, cell)
        yield from evaluations(study, cell)
        yield study.output("measure_fragmentation", **tokenizer_axes(cell.wildcards))
        yield vocabulary(study, cell.wildcards)
        fitted = initialization(study, cell)
        if fitted is not None:
            yield fitted
            if aligned:
                yield study.output("measure_alignment", **fitted.wildcards)
        for language in members(study.config, cell.language):
            yield corpus(study, language)
    for cell in study.cells:
        axes = {"source": cell.source, "language": cell.language}
        for task in tasks_of(study, cell):
            for metric in study.config["run_tasks"][task]["learned_metrics"]:
                yield study.output("score_predictions", metric=metric, **axes)
    compared = study.config["fragmentation"]
    for language, tokenizer in product(compared["languages"], compared["tokenizers"]):
        yield study.output("measure_tokenizer", tokenizer=tokenizer, language=language)
    for language, task in searched(study):
        yield study.output("count_tests", language=language, task=task)


@stage("report", "report/{study}", requires=_required)
def build_report(study: Study, **_: str) -> dict[str, Any]:
    """The study's tables, figures and pages."""
    fonts = study.config["report"]["fonts"]
    inputs: dict[str, Any] = {}
    if fonts:
        inputs["fonts"] = package(study, fonts["package"]).file(fonts["folder"])
    items = read_items(study.config["report"]["items"])
    if papers := papers_compared(study.name, items):
        inputs["published"] = [in_repository(f"{PUBLISHED}/{name}.csv") for name in papers]
    # The script expands the cells itself: ten thousand paths do not fit on a command line.
    folders = {
        rule: study.template(rule)
        for rule in (
            "evaluate",
            "measure_fragmentation",
            "measure_tokenizer",
            "prepare_corpus",
            "count_tests",
            "train",
            "initialize",
            "expand_vocabulary",
            "export_cell",
            *(("measure_alignment",) if _shows_alignment(study) else ()),
        )
    }
    return {
        "settings": {"study": _used_config(study)},
        "inputs": inputs,
        "folders": folders,
        "searched": searched(study),
    }


def _shows_alignment(study: Study) -> bool:
    """Whether the report has an item that requires measuring fitted initializers."""
    return "alignment" in records_read(read_items(study.config["report"]["items"]))


def _used_config(study: Study) -> dict[str, Any]:
    """The resolved config with only the registry entries that this study uses.

    Excluded are keys that do not affect a report: locations, and resources of cluster jobs.
    """
    config = study.config
    initializers = {*used(config, "initializers")}
    read = languages_read(config)
    keep = {
        "sources": {*used(config, "sources")} | teachers(config),
        "languages": {*read}.union(*(members(config, language) for language in read)),
        "corpora": set[str](),  # already part of the languages
        "tokenizers": set(config["fragmentation"]["tokenizers"]),
        "vocabularies": {*used(config, "vocabularies")},
        "initializers": initializers,
        "auxiliary": {
            auxiliary
            for name in initializers - {NO_INITIALIZER}
            for auxiliary in config["initializers"][name]["auxiliary"].values()
        },
        "strategies": {*used(config, "strategies")},
        "tasks": set(config["run_tasks"]),
        "metrics": {
            name for task in config["run_tasks"].values() for name in task["learned_metrics"]
        },
        "packages": {
            *({fonts["package"]} if (fonts := config["report"]["fonts"]) else ()),
            *(config["sources"][name].get("package") for name in used(config, "sources")),
        },
    }
    return {
        key: {
            name: {own: entry[own] for own in entry if own != WITHOUT_EFFECT}
            for name, entry in value.items()
            if name in keep[key]
        }
        if key in keep
        else value
        for key, value in config.items()
        if key not in _PLACES
    }
