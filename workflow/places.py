"""Where each output of a study lies: the only place that knows the path scheme.

Plain Python: the Snakefile is parsed again in every job.
"""

from pathlib import Path
from typing import Any

from lexigraft.corpus.sample_file import SAMPLES
from lexigraft.prefix import VARIABLE
from lexigraft.training.settings import samples_of
from workflow.cells import Cell, cells_of
from workflow.config.checks import NO_INITIALIZER, SOURCE_VOCABULARY

PROMPTS = "config/prompts"


class Places:
    """The folders of one resolved config.

    Parameters
    ----------
    config
        What `workflow.config.registries.resolve` returned.
    """

    def __init__(self, config: dict[str, Any]):
        self.config = config
        self.name: str = config["study"]
        self.results: str = config["results"].rstrip("/")
        self.cells = list(dict.fromkeys(cells_of(config["cells"])))

    def environment(self) -> dict[str, str]:
        """Environment variables that say where the study's prefix and hub cache are."""
        places = {VARIABLE: self.config["prefix"], "HF_HUB_CACHE": self.config["hub_cache"]}
        return {name: str(Path(place).expanduser()) for name, place in places.items() if place}

    def package_folder(self, package: str) -> str:
        """Where a PyPI package is unpacked, version in the name."""
        version = self.config["packages"][package]["version"]
        return f"{self.config['packages_folder'].rstrip('/')}/{package}-{version}"

    def source_folder(self, source: str) -> str:
        """Where a source model's card lies, and the model too if a package brought it."""
        return f"{self.results}/source/{source}"

    def corpus_folder(self, language: str) -> str:
        """Where a language's texts lie."""
        return f"{self.results}/corpus/{language}"

    def examples_folder(self, task: str, part: str) -> str:
        """Where the examples lie that a task is learned from (`train`), or tested on, by code."""
        return f"{self.results}/examples/{task}/{part}"

    def samples_folder(self, language: str, samples: str) -> str:
        """Where an entry of a language's samples lies."""
        return f"{self.corpus_folder(language)}/samples/{samples}"

    def samples_files(self, cell: Cell) -> dict[str, str]:
        """Name -> file of the samples that a cell's strategy trains on."""
        names = samples_of(self.config["strategies"][cell.strategy])
        return {name: f"{self.samples_folder(cell.language, name)}/{SAMPLES}" for name in names}

    def vocabulary_folder(self, source: str, language: str, vocabulary: str) -> str:
        """The tokenizer's folder; an unchanged vocabulary is the source's own."""
        if vocabulary == SOURCE_VOCABULARY:
            return self.source_folder(source)
        return f"{self.results}/vocabulary/{source}/{language}/{vocabulary}"

    def auxiliary_folder(self, auxiliary: str, source: str, language: str, vocabulary: str) -> str:
        """Where the static vectors of a tokenizer's tokens lie."""
        return f"{self.results}/auxiliary/{source}/{language}/{vocabulary}/{auxiliary}"

    def initialization_folder(self, cell: Cell) -> str | None:
        """Where the cell's fitted initializer lies: one for all seeds unless it draws at random."""
        if cell.initializer == NO_INITIALIZER:
            return None
        drawn = self.config["initializers"][cell.initializer]["draws"]
        fit = f"seed-{cell.seed}" if drawn else "all-seeds"
        return (
            f"{self.results}/initialization/{cell.source}/{cell.language}/{cell.vocabulary}/"
            f"{cell.initializer}/{fit}"
        )

    def training_folder(self, cell: Cell) -> str:
        """Where a cell's changed tensors lie."""
        return f"{self.results}/training/{cell.path}"

    def evaluation_folder(self, cell: Cell, task: str, run: int) -> str:
        """Where one run of a task on a cell puts its record and predictions."""
        return f"{self.results}/evaluation/{cell.path}/{task}/run-{run}"

    def benchmark_folder(self, benchmark: str) -> str:
        """Where the data of a task of lm-evaluation-harness lies, by the harness's name."""
        return f"{self.results}/benchmarks/{benchmark}"

    def metric_folder(self, metric: str) -> str:
        """Where a learned metric's card lies, which says where its checkpoint is."""
        return f"{self.results}/metrics/{metric}"

    def learned_folder(self, cell: Cell, task: str, run: int) -> str:
        """Where learned metrics put their records of one run of a task on a cell."""
        return f"{self.evaluation_folder(cell, task, run)}/learned"

    def fragmentation_folder(self, source: str, language: str, vocabulary: str) -> str:
        """Where the record of a tokenizer lies, which needs no model."""
        return f"{self.results}/evaluation/{source}/{language}/{vocabulary}/fragmentation"

    def tokenizer_folder(self, tokenizer: str, language: str) -> str:
        """Where the record lies of how a tokenizer of the registry cuts a language's text."""
        return f"{self.results}/fragmentation/{tokenizer}/{language}"

    def contamination_folder(self, language: str, task: str) -> str:
        """Where the record lies of what of a task's tests is in a language's training text."""
        return f"{self.corpus_folder(language)}/contamination/{task}"

    def alignment_folder(self, fitted: str) -> str:
        """Where the alignment record of a fitted initializer lies, by that initializer's folder."""
        *axes, fit = fitted.removeprefix(f"{self.results}/initialization/").split("/")
        return f"{self.results}/evaluation/{'/'.join(axes)}/alignment/{fit}"

    @property
    def report_folder(self) -> str:
        """Where the study's tables, figures and pages lie."""
        return f"{self.results}/report/{self.name}"
