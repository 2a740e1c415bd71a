"""What each rule's script is told: the job description of a file, as JSON.

Plain Python: the Snakefile is parsed again in every job.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from lexigraft.evaluation.registry import task_file
from lexigraft.initialization.registry import method_file
from lexigraft.staleness import code_digest
from workflow.checks import NO_INITIALIZER
from workflow.grid import AXES, PROMPTS, Study, cell_of, corpus_packages

# It runs in another environment, so no import leads to it.
SCORER = "lexigraft/evaluation/learned/scorer.py"


def job(study: Study, rule: str, wildcards: Mapping[str, str]) -> str:
    """The job description of one rule and its wildcards, as JSON text.

    One string holds all that the output depends on and Snakemake cannot see: the settings of
    the stage and the digest of its code. As a parameter it is compared as a whole, which a
    dict's or a list's values are not.
    """
    return json.dumps({"rule": rule, **_JOBS[rule](study, wildcards)}, ensure_ascii=False)


def _fetch_package(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    folder = f"{study.config['packages_folder'].rstrip('/')}/{wildcards['package']}"
    name = next(name for name in study.config["packages"] if study.package_folder(name) == folder)
    # Without the code's digest: what is unpacked is pinned by its checksum.
    return {
        "settings": {"name": name, **study.config["packages"][name]},
        "inputs": {},
        "outputs": {"folder": folder},
    }


def _prepare_source(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    source = wildcards["source"]
    settings = {
        key: value for key, value in study.config["sources"][source].items() if key != "resources"
    }
    inputs = {}
    if "package" in settings:
        inputs["package"] = study.package_folder(settings["package"])
    return {
        "settings": settings,
        "inputs": inputs,
        "outputs": {"folder": study.source_folder(source)},
        "code": _digest("scripts/prepare_source.py"),
    }


def _prepare_corpus(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    language = wildcards["language"]
    # Word vectors and models are no text: rules of their own read them.
    settings = {
        key: value
        for key, value in study.config["languages"][language].items()
        if key not in ("word_vectors", "english_word_vectors", "dictionary", "plms")
    }
    packages = corpus_packages(settings)
    return {
        "settings": settings,
        "inputs": {"package": study.package_folder(packages[0])} if packages else {},
        "outputs": {"folder": study.corpus_folder(language)},
        "seed": [study.config["seed"], "corpus", language],
        "code": _digest("scripts/prepare_corpus.py"),
    }


def _mix_corpora(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    language = wildcards["language"]
    entry = study.config["languages"][language]
    members = {member: study.corpus_folder(member) for member in study.members(language)}
    return {
        "settings": {key: entry[key] for key in ("name", "group", "train_sentences")},
        "inputs": {"members": members},
        "outputs": {"folder": study.corpus_folder(language)},
        "seed": [study.config["seed"], "corpus", language],
        "code": _digest("scripts/mix_corpora.py"),
    }


def _expand_vocabulary(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    settings = study.config["vocabularies"][wildcards["vocabulary"]]
    return _vocabulary(study, wildcards, settings, "scripts/expand_vocabulary.py")


def _train_vocabulary(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    settings = study.config["vocabularies"][wildcards["vocabulary"]]
    return _vocabulary(study, wildcards, settings, "scripts/train_vocabulary.py")


def _take_vocabulary(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    settings = study.tokenizer_of(wildcards["language"], wildcards["vocabulary"])
    return _vocabulary(study, wildcards, settings, "scripts/take_vocabulary.py")


def _vocabulary(
    study: Study, wildcards: Mapping[str, str], settings: dict[str, Any], script: str
) -> dict[str, Any]:
    """What the three rules that make a vocabulary have in common."""
    key = (wildcards["source"], wildcards["language"], wildcards["vocabulary"])
    return {
        "settings": settings,
        "inputs": {
            "source": study.source_folder(key[0]),
            "corpus": study.corpus_folder(key[1]),
        },
        "outputs": {"folder": study.vocabulary_folder(*key)},
        "code": _digest(script),
    }


def _train_fasttext(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    return _trained_vectors(study, wildcards, "scripts/train_fasttext.py")


def _train_glove(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    return _trained_vectors(study, wildcards, "scripts/train_glove.py")


def _trained_vectors(study: Study, wildcards: Mapping[str, str], script: str) -> dict[str, Any]:
    """What the rules that train vectors on the corpus have in common."""
    axes, name = [wildcards[axis] for axis in AXES[:3]], wildcards["auxiliary"]
    described = _vectors(study, wildcards, script)
    described["inputs"]["corpus"] = study.corpus_folder(axes[1])
    return {**described, "seed": [study.config["seed"], "auxiliary", *axes, name]}


def _read_word_vectors(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    described = _vectors(study, wildcards, "scripts/read_word_vectors.py")
    described["inputs"] |= study.word_vectors(wildcards["auxiliary"], wildcards["language"])
    return described


def _read_plm(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    described = _vectors(study, wildcards, "scripts/read_plm.py")
    model = study.plm(wildcards["auxiliary"], wildcards["language"])
    return {**described, "settings": {"kind": "plm", **model}}


def _vectors(study: Study, wildcards: Mapping[str, str], script: str) -> dict[str, Any]:
    """What all rules that make auxiliary vectors for a tokenizer have in common."""
    axes, name = [wildcards[axis] for axis in AXES[:3]], wildcards["auxiliary"]
    return {
        "settings": study.config["auxiliary"][name],
        "inputs": {"tokenizer": study.vocabulary_folder(*axes)},
        "outputs": {"folder": study.auxiliary_folder(name, *axes)},
        "code": _digest(script),
    }


def _initialize(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    axes = [wildcards[axis] for axis in AXES[:3]]
    name, fit = wildcards["initializer"], wildcards["fit"]
    settings = {
        "method": study.config["initializers"][name]["method"],
        "options": study.config["initializers"][name]["options"],
    }
    place = "/".join([*axes, name, fit])
    auxiliaries = study.auxiliary_folders(wildcards)
    dictionaries = study.dictionaries(wildcards)
    return {
        "settings": settings,
        "inputs": {
            "source": study.source_folder(axes[0]),
            "tokenizer": study.vocabulary_folder(*axes),
            "corpus": study.corpus_folder(axes[1]),
            **({"auxiliary": auxiliaries} if auxiliaries else {}),
            **({"dictionaries": dictionaries} if dictionaries else {}),
        },
        "outputs": {"folder": f"{study.results}/initialization/{place}"},
        "seed": [study.config["seed"], "initialization", place],
        "code": _digest("scripts/initialize.py", method_file(settings["method"])),
    }


def _train(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    cell = cell_of(wildcards)
    return {
        "settings": study.config["strategies"][cell.strategy],
        "inputs": {
            "source": study.source_folder(cell.source),
            "tokenizer": study.vocabulary_folder(cell.source, cell.language, cell.vocabulary),
            "initialization": study.initialization_folder(cell),
            "corpus": study.corpus_folder(cell.language),
        },
        "outputs": {"folder": study.training_folder(cell)},
        "cell": vars(cell),
        "seed": [study.config["seed"], "training", cell.path],
        "code": _digest("scripts/train.py"),
    }


def _evaluate(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    cell, task, run = cell_of(wildcards), wildcards["task"], int(wildcards["run"])
    folder = study.evaluation_folder(cell, task, run)
    settings = study.config["tasks"][task]
    return {
        "settings": settings,
        "inputs": {
            "cell": study.training_folder(cell),
            "corpus": study.corpus_folder(cell.language),
            "prompts": PROMPTS,
        },
        "outputs": {
            "folder": folder,
            "record": f"{folder}/record.json",
            "predictions": f"{folder}/predictions.jsonl",
        },
        "cell": vars(cell),
        "language": study.config["languages"][cell.language].get("code"),
        "task": task,
        "run": run,
        # The same examples for every cell: what is drawn depends on the task and the run only.
        "seed": [study.config["seed"], "evaluation", cell.language, task, run],
        "code": _digest("scripts/evaluate.py", task_file(settings["kind"])),
    }


def _prepare_metric(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    metric = wildcards["metric"]
    keys = ("kind", "checkpoint", "revision", "encoder", "encoder_revision")
    return {
        "settings": {key: study.config["metrics"][metric][key] for key in keys},
        "inputs": {"python": study.config["metrics_python"]},
        "outputs": {"folder": study.metric_folder(metric)},
        "metric": metric,
        "state": study.metric_state(metric),
        "code": _digest("scripts/prepare_metric.py"),
    }


def _score_predictions(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
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
        "code": _digest("scripts/score_predictions.py", SCORER),
    }


def _measure_fragmentation(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
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
        "code": _digest("scripts/measure_fragmentation.py"),
    }


def _measure_alignment(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
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
        "code": _digest("scripts/measure_alignment.py"),
    }


def _build_report(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    # The script finds the files through the grid: ten thousand paths fit no command line.
    return {
        "settings": {"study": _used_config(study)},
        "inputs": {},
        "outputs": {"folder": study.report_folder},
        "code": _digest("scripts/build_report.py"),
    }


def _export_cell(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    cell = cell_of(wildcards)
    return {
        "settings": {},
        "inputs": {"cell": study.training_folder(cell)},
        "outputs": {"folder": f"{study.results}/export/{cell.path}"},
        "code": _digest("scripts/export.py"),
    }


def _used_config(study: Study) -> dict[str, Any]:
    """The resolved config with the registry entries that this study uses, and no others."""
    used = {axis: {getattr(cell, axis) for cell in study.cells} for axis in AXES[:-1]}
    keep = {
        "sources": used["source"],
        "languages": used["language"].union(*map(study.members, used["language"])),
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
    }


@cache
def _digest(*entry_points: str) -> str:
    return code_digest(*entry_points)


_JOBS = {
    "fetch_package": _fetch_package,
    "prepare_source": _prepare_source,
    "prepare_corpus": _prepare_corpus,
    "mix_corpora": _mix_corpora,
    "expand_vocabulary": _expand_vocabulary,
    "train_vocabulary": _train_vocabulary,
    "take_vocabulary": _take_vocabulary,
    "train_fasttext": _train_fasttext,
    "train_glove": _train_glove,
    "read_word_vectors": _read_word_vectors,
    "read_plm": _read_plm,
    "initialize": _initialize,
    "train": _train,
    "evaluate": _evaluate,
    "prepare_metric": _prepare_metric,
    "score_predictions": _score_predictions,
    "measure_fragmentation": _measure_fragmentation,
    "measure_alignment": _measure_alignment,
    "build_report": _build_report,
    "export_cell": _export_cell,
}
