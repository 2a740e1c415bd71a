"""What the rules that measure cells, and the report, are told.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from typing import Any

from lexigraft.evaluation.harness.benchmark_state import benchmark_state
from lexigraft.evaluation.registry import task_file
from lexigraft.report.items import kind_file, read_items
from workflow.asked_tasks import asked_codes, asked_parts
from workflow.benchmarks import KIND, PREPARED, benchmark_settings, benchmarks_of
from workflow.cells import AXES, cell_of
from workflow.checks import NO_INITIALIZER
from workflow.digests import digest
from workflow.encoder_tasks import TRAIN, example_parts
from workflow.fragmentation_checks import languages_measured
from workflow.grid import Study
from workflow.places import PROMPTS
from workflow.teachers import teachers
from workflow.tested import languages_named, tested_language

# It runs in another environment, so no import leads to it.
SCORER = "lexigraft/evaluation/learned/scorer.py"
# Where things lie is no matter of the report.
PLACES = ("prefix", "hub_cache")


def evaluate(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """One run of a task on a cell."""
    cell, task, run = cell_of(wildcards), wildcards["task"], int(wildcards["run"])
    folder = study.evaluation_folder(cell, task, run)
    # Where texts come from, rules before this one know.
    entry = study.config["tasks"][task].items()
    settings = {key: value for key, value in entry if key not in ("language", "examples")}
    if settings["kind"] == KIND:
        settings = {key: value for key, value in settings.items() if key not in PREPARED}
    benchmarks = benchmarks_of(study.config, task, cell.language)
    parts = example_parts(study.config, task, cell.language)
    examples = {
        "train": study.examples_folder(task, TRAIN),
        "tests": {name: study.examples_folder(task, part) for name, part in parts.items()},
    }
    asked = {
        key: {name: study.examples_folder(task, part) for name, part in own.items()}
        for key, own in asked_parts(study.config, task, cell.language).items()
    }
    language = tested_language(study.config, task, cell.language)
    return {
        "settings": settings,
        "inputs": {
            "cell": study.training_folder(cell),
            "corpus": study.corpus_folder(language),
            "prompts": PROMPTS,
            **({"examples": examples} if parts else {}),
            **({"asked": asked} if asked else {}),
            **(
                {"benchmarks": {key: study.benchmark_folder(b) for key, b in benchmarks.items()}}
                if benchmarks
                else {}
            ),
        },
        "outputs": {
            "folder": folder,
            "record": f"{folder}/record.json",
            "predictions": f"{folder}/predictions.jsonl",
        },
        "cell": vars(cell),
        "language": study.config["languages"][language].get("code"),
        "language_name": study.config["languages"][language]["name"],
        **({"tested": asked_codes(study.config, task, cell.language)} if asked else {}),
        "task": task,
        "run": run,
        # The same examples for every cell: what is drawn depends on the task and the run only.
        "seed": [study.config["seed"], "evaluation", language, task, run],
        "code": digest("scripts/evaluate.py", task_file(settings["kind"])),
    }


def evaluate_checkpoint(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The same on a cell as it was in the middle of its training."""
    described = evaluate(study, wildcards)
    name, outputs = f"checkpoint-{wildcards['checkpoint']}", described["outputs"]
    folder = f"{outputs['folder']}/{name}"
    return {
        **described,
        "inputs": described["inputs"] | {"cell": f"{described['inputs']['cell']}/{name}"},
        "outputs": {
            "folder": folder,
            "record": f"{folder}/record.json",
            "predictions": f"{folder}/predictions.jsonl",
        },
        "checkpoint": int(wildcards["checkpoint"]),
    }


def prepare_benchmark(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """What a task of lm-evaluation-harness reads, looked for."""
    settings = benchmark_settings(study.config, wildcards["benchmark"])
    folder = study.benchmark_folder(wildcards["benchmark"])
    return {
        "settings": settings,
        "inputs": {},
        "outputs": {"folder": folder},
        "state": benchmark_state(settings["data"], folder),
        "code": digest("scripts/prepare_benchmark.py"),
    }


def prepare_metric(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """A learned metric's checkpoint, looked for."""
    metric = wildcards["metric"]
    keys = ("kind", "checkpoint", "revision", "encoder", "encoder_revision")
    return {
        "settings": {key: study.config["metrics"][metric][key] for key in keys},
        "inputs": {"python": study.config["metrics_python"]},
        "outputs": {"folder": study.metric_folder(metric)},
        "metric": metric,
        "state": study.metric_state(metric),
        "code": digest("scripts/prepare_metric.py"),
    }


def score_predictions(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """A learned metric's scores of one run."""
    cell, task, run = cell_of(wildcards), wildcards["task"], int(wildcards["run"])
    metric, folder = wildcards["metric"], study.learned_folder(cell, task, run)
    entry = study.config["metrics"][metric]
    return {
        "settings": {key: value for key, value in entry.items() if key != "resources"},
        "inputs": {
            "predictions": f"{study.evaluation_folder(cell, task, run)}/predictions.jsonl",
            "metric": f"{study.metric_folder(metric)}/card.json",
            "python": study.config["metrics_python"],
        },
        # A folder of its own, for two metrics may score one run at a time.
        "outputs": {"folder": f"{folder}/{metric}", "record": f"{folder}/{metric}.json"},
        "cell": vars(cell),
        "task": task,
        "kind": study.config["tasks"][task]["kind"],
        "run": run,
        "metric": metric,
        "code": digest("scripts/score_predictions.py", SCORER),
    }


def measure_fragmentation(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """How a tokenizer cuts text."""
    key = (wildcards["source"], wildcards["language"], wildcards["vocabulary"])
    folder = study.fragmentation_folder(*key)
    return {
        "settings": {},
        "inputs": {
            "source": study.source_folder(key[0]),
            "tokenizer": study.vocabulary_folder(*key),
            "corpus": study.corpus_folder(key[1]),
        },
        "outputs": {"folder": folder, "file": f"{folder}/record.json"},
        "cell": dict(zip(AXES, key, strict=False)),
        "code": digest("scripts/measure_fragmentation.py"),
    }


def measure_tokenizer(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """How a tokenizer of the registry cuts a language's text."""
    name, language = wildcards["tokenizer"], wildcards["language"]
    entry, folder = study.config["tokenizers"][name], study.tokenizer_folder(name, language)
    package = entry.get("package")
    return {
        "settings": entry,
        "inputs": {
            "corpus": study.corpus_folder(language),
            **({"package": study.package_folder(package)} if package else {}),
        },
        "outputs": {"folder": folder, "file": f"{folder}/record.json"},
        "tokenizer": name,
        "language": language,
        "code": digest("scripts/measure_tokenizer.py"),
    }


def measure_alignment(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """How well a fitted initializer aligns old tokens with new ones."""
    key, fit = [wildcards[axis] for axis in AXES[:4]], wildcards["fit"]
    fitted = f"{study.results}/initialization/{'/'.join([*key, fit])}"
    folder = study.alignment_folder(fitted)
    return {
        "settings": study.config["alignment"],
        "inputs": {
            "source": study.source_folder(key[0]),
            "tokenizer": study.vocabulary_folder(*key[:3]),
            "initialization": fitted,
            "corpus": study.corpus_folder(key[1]),
            "encoder": study.sentence_encoder(),
        },
        "outputs": {"folder": folder, "file": f"{folder}/record.json"},
        "cell": {**dict(zip(AXES, key, strict=False)), "fit": fit},
        "seed": [study.config["seed"], "evaluation", key[1], "alignment"],
        "code": digest("scripts/measure_alignment.py"),
    }


def build_report(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The study's tables, figures and pages."""
    # The script finds the files through the grid: ten thousand paths fit no command line.
    return {
        "settings": {"study": _used_config(study)},
        "inputs": {},
        "outputs": {"folder": study.report_folder},
        "code": digest(
            "scripts/build_report.py",
            *(kind_file(item.kind) for item in read_items(study.config["report"]["items"])),
        ),
    }


def _used_config(study: Study) -> dict[str, Any]:
    """The resolved config with the registry entries that this study uses, and no others."""
    used = {axis: {getattr(cell, axis) for cell in study.cells} for axis in AXES[:-1]}
    tested = used["language"] | languages_named(study.config) | languages_measured(study.config)
    keep = {
        "sources": used["source"] | teachers(study.config),
        "languages": tested.union(*map(study.members, tested)),
        "tokenizers": set(study.config["fragmentation"]["tokenizers"]),
        "vocabularies": used["vocabulary"],
        "initializers": used["initializer"],
        "auxiliary": {
            auxiliary
            for name in used["initializer"] - {NO_INITIALIZER}
            for auxiliary in study.config["initializers"][name]["auxiliary"].values()
        },
        "strategies": used["strategy"],
        "tasks": set(study.config["run_tasks"]),
        "metrics": {
            name for task in study.config["run_tasks"].values() for name in task["learned_metrics"]
        },
        "packages": {fonts["package"]} if (fonts := study.config["report"]["fonts"]) else set(),
    }
    return {
        key: {name: entry for name, entry in value.items() if name in keep[key]}
        if key in keep
        else value
        for key, value in study.config.items()
        if key not in PLACES
    }
