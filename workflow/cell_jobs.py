"""What the rules that make a cell are told: fitted, trained, exported.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from typing import Any

from lexigraft.initialization.registry import method_file
from lexigraft.training.objective import objective_file
from workflow.cells import AXES, cell_of
from workflow.digests import digest
from workflow.grid import Study
from workflow.teachers import teacher_folder


def initialize(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """An initializer, fitted."""
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
        "code": digest("scripts/initialize.py", method_file(settings["method"])),
    }


def train(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """A cell, trained."""
    cell = cell_of(wildcards)
    samples, teacher = study.samples_files(cell), teacher_folder(study, cell.strategy)
    strategy = study.config["strategies"][cell.strategy]
    objectives = sorted({objective_file(phase["objective"]) for phase in strategy["phases"]})
    return {
        # What a job asks for changes nothing of what it makes.
        "settings": {key: value for key, value in strategy.items() if key != "resources"},
        "inputs": {
            "source": study.source_folder(cell.source),
            "tokenizer": study.vocabulary_folder(cell.source, cell.language, cell.vocabulary),
            "initialization": study.initialization_folder(cell),
            "corpus": study.corpus_folder(cell.language),
            **({"samples": samples} if samples else {}),
            **({"teacher": teacher} if teacher else {}),
        },
        "outputs": {"folder": study.training_folder(cell)},
        "cell": vars(cell),
        "seed": [study.config["seed"], "training", cell.path],
        "code": digest("scripts/train.py", *objectives),
    }


def export_cell(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """A cell as a plain folder."""
    cell = cell_of(wildcards)
    return {
        "settings": {},
        "inputs": {"cell": study.training_folder(cell)},
        "outputs": {"folder": f"{study.results}/export/{cell.path}"},
        "code": digest("scripts/export.py"),
    }
