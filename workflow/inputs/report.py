"""Stage 8, report: all outputs that a report reads, and the files that Snakemake shows of it."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from lexigraft.cells import NO_INITIALIZER
from lexigraft.report.items import records_read
from workflow.config.registries import PUBLISHED, WITHOUT_EFFECT, papers_compared
from workflow.inputs.corpus import searched, texts_of
from workflow.inputs.evaluation import evaluations
from workflow.inputs.initialization import fit_name, fit_of
from workflow.inputs.rule import Output, Wildcards, output
from workflow.inputs.source import package_of
from workflow.inputs.vocabulary import tokenizer
from workflow.study import Study, in_repository

# Keys of a study that define locations, downloads, and how jobs compute.
_PLACES = (
    "plugins",
    "prefix",
    "hub_cache",
    "machine",
    "packages_folder",
    "metrics_python",
    "files",
)
# The paths of the files of a group, and the name of the group in Snakemake's own report.
_SHOWN = {
    "pages": ("{}.html", "1 Read this first"),
    "tables": ("tables/{}.html", "2 Tables"),
    "figures": ("figures/{}.png", "3 Figures"),
}

# ---- inputs -------------------------------------------------------------------------------------


def cells(study: Study, wildcards: Wildcards) -> list[Output]:
    """All trained cells."""
    return [output(study, "train", cell.wildcards) for cell in study.cells]


def records(study: Study, wildcards: Wildcards) -> list[Output]:
    """All evaluations of cells and checkpoints."""
    return [record for cell in study.cells for record in evaluations(study, cell)]


def learned_scores(study: Study, wildcards: Wildcards) -> list[Output]:
    """The scores of learned metrics."""
    axes = {
        (metric, cell.source, cell.language)
        for cell in study.cells
        for task in study.tasks_of(cell)
        for metric in study.run_tasks[task].learned_metrics
    }
    names = ("metric", "source", "language")
    wildcards_of_jobs = (dict(zip(names, values, strict=True)) for values in sorted(axes))
    return [output(study, "score_predictions", values) for values in wildcards_of_jobs]


def initializations(study: Study, wildcards: Wildcards) -> list[Output]:
    """All fitted initializers."""
    fits = (fit_of(study, cell) for cell in study.cells)
    return list(dict.fromkeys(fit for fit in fits if isinstance(fit, Output)))


def alignments(study: Study, wildcards: Wildcards) -> list[Output]:
    """How all fitted initializers align, if an item of the report shows it."""
    if not _shows_alignment(study):
        return []
    jobs = (
        output(study, "measure_alignment", cell.wildcards | {"fit": fit_name(study, cell)})
        for cell in study.cells
        if cell.initializer != NO_INITIALIZER
    )
    return list(dict.fromkeys(jobs))


def tokenizers(study: Study, wildcards: Wildcards) -> list[Output]:
    """All tokenizers of cells."""
    return list(dict.fromkeys(tokenizer(study, cell.wildcards) for cell in study.cells))


def fragmentation(study: Study, wildcards: Wildcards) -> list[Output]:
    """How all tokenizers split text, including those of the registry that are compared."""
    compared = study.settings.fragmentation
    of_cells = (output(study, "measure_fragmentation", cell.wildcards) for cell in study.cells)
    pairs = product(compared.languages, compared.tokenizers)
    others = (
        output(study, "measure_tokenizer", {"tokenizer": name, "language": language})
        for language, name in pairs
    )
    return list(dict.fromkeys([*of_cells, *others]))


def corpora(study: Study, wildcards: Wildcards) -> list[Output]:
    """The texts of all languages, and of those in groups."""
    languages = dict.fromkeys(cell.language for cell in study.cells)
    names = (name for language in languages for name in study.members(language))
    return [texts_of(study, name) for name in dict.fromkeys(names)]


def contamination(study: Study, wildcards: Wildcards) -> list[Output]:
    """How much of the test sets is in training text."""
    return [
        output(study, "count_tests", {"language": language, "task": task})
        for language, task in searched(study)
    ]


def fonts(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The folder of fonts in a package."""
    fonts = study.settings.report.fonts
    package = package_of(study, fonts)
    return package.file(fonts.folder) if fonts and isinstance(package, Output) else []


def published(study: Study, wildcards: Wildcards) -> list[str]:
    """The files with the numbers of the papers that the report compares with."""
    items = study.items
    names = papers_compared(study.name, items)
    return [in_repository(f"{PUBLISHED}/{name}.csv") for name in names]


# ---- settings -----------------------------------------------------------------------------------


def folders(study: Study, wildcards: Wildcards) -> dict[str, str]:
    """Templates of the folders that the report reads: ten thousand paths are too many to list."""
    rules = {"evaluate": "evaluate", "measure_fragmentation": "measure_fragmentation"}
    rules |= {"measure_tokenizer": "measure_tokenizer", "prepare_corpus": "prepare_corpus"}
    rules |= {"count_tests": "count_tests", "train": "train", "initialize": "initialize"}
    rules |= {"expand_vocabulary": "build_vocabulary", "export_cell": "export_cell"}
    if _shows_alignment(study):
        rules["measure_alignment"] = "measure_alignment"
    return {name: Output(study.card_path(rule)).path for name, rule in rules.items()}


def _shows_alignment(study: Study) -> bool:
    """Whether the report has an item that requires measuring fitted initializers."""
    return "alignment" in records_read(study.items)


def settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The resolved config with only the registry entries that this study uses.

    Excluded are keys that do not affect a report: locations, and resources of cluster jobs.
    """
    config = study.config
    fonts, sources = study.settings.report.fonts, study.used("sources")
    names = {
        "sources": {*sources} | study.teachers(),
        "languages": {*study.languages_read, *study.single_languages},
        "corpora": set[str](),  # already part of the languages
        "tokenizers": {*study.settings.fragmentation.tokenizers},
        "vocabularies": {*study.used("vocabularies")},
        "initializers": {*study.used("initializers")},
        "auxiliary": {*study.used_auxiliaries()},
        "strategies": {*study.used("strategies")},
        "tasks": {*study.run_tasks},
        "metrics": {name for run in study.run_tasks.values() for name in run.learned_metrics},
        "packages": {
            *({fonts.package} if fonts else ()),
            *(study.sources[name].package for name in sources),
        },
    }
    used = {
        key: {
            name: {option: entry[option] for option in entry if option != WITHOUT_EFFECT}
            for name, entry in config[key].items()
            if name in names[key]
        }
        for key in names
    }
    return {"study": {key: used.get(key, config[key]) for key in config if key not in _PLACES}}


# ---- Snakemake's own report ---------------------------------------------------------------------


def report_files(study: Study, group: str) -> Iterator[dict[str, Any]]:
    """The files of the study's `pages`, `tables` or `figures`, see `in_report`."""
    path, category = _SHOWN[group]
    for item in study.items:
        if item.group == group:
            yield in_report(study, path.format(item.name), item.label, category)


def in_report(study: Study, file: str, label: str, category: str) -> dict[str, Any]:
    """The arguments of Snakemake's `report` for a file, whose caption has the same name."""
    folder = study.folder("build_report")
    return {
        "value": f"{folder}/{file}",
        "caption": str(Path(folder, "captions", f"{Path(file).stem}.rst").absolute()),
        "category": category,
        "labels": {"item": label},
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
        relative = (
            file.relative_to(here) if file.is_relative_to(here) else file for file in configfiles
        )
        arguments += ["--configfile", *map(str, relative)]
    return [*arguments, "--config", *config] if config else arguments
