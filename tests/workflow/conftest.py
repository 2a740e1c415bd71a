"""The real Snakefile on a miniature study: a random small Llama with SmolLM2's real tokenizer."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests import preloaded_python

REPOSITORY = Path(__file__).resolve().parents[2]
PARTS = ("Snakefile", "workflow", "config", "lexigraft", "scripts", "profiles")


def open_study(name):
    """A study of config/studies; files of its users need not be there."""
    from tests.workflow.plan import Plan

    return Plan(name)


def study_of_entries(**entries):
    """A study without cells, of some entries."""
    from workflow.study import Study

    return Study({"study": "made-up", "results": "results", "cells": [], "aliases": [], **entries})


def benchmarks_of(study, task, language):
    """Name of each test of a cell in a task of the harness -> name of the benchmark."""
    codes = study.tests(task, language)
    return {test: study.benchmark(task, code)[0] for test, code in codes.items()}


def refused(config, registries) -> str:
    """The error of a config that cannot be resolved, which has one line."""
    from lexigraft.errors import UserError
    from workflow.config.registries import resolve

    with pytest.raises(UserError) as error:
        resolve(config, registries)
    assert "\n" not in str(error.value)
    return str(error.value)


def shown(study, axis, registry):
    """What the report calls the names that a study's cells have on an axis."""
    titles = study.config["titles"].get(registry, {})
    return {titles.get(name, name) for name in (getattr(cell, axis) for cell in study.cells)}


@dataclass
class Checkout:
    """A copy of the project in a folder of its own, with a config to run."""

    folder: Path

    @property
    def python(self) -> str:
        """What runs Snakemake and its jobs: see tests/preloaded_python.py."""
        return preloaded_python.python()

    @property
    def config(self) -> dict:
        return yaml.safe_load((self.folder / "study.yaml").read_text(encoding="utf-8"))

    @config.setter
    def config(self, value: dict) -> None:
        text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False)
        (self.folder / "study.yaml").write_text(text, encoding="utf-8")

    def change(self, change: Callable[[dict], None]) -> None:
        """Edit the study's config in place."""
        config = self.config
        change(config)
        self.config = config

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace text that must be there in a file of the project."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{file} has no {old!r}"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def command(self, *arguments: str) -> list[str]:
        """Snakemake on the study; it runs its jobs with the same Python."""
        snakemake = [self.python, "-m", "snakemake", "--configfile", "study.yaml"]
        return [*snakemake, "--cores", "2", *arguments]

    def environment(self) -> dict[str, str]:
        # The copy's own library, not the installed one.
        return {**os.environ, "PYTHONPATH": str(self.folder), "HF_HUB_OFFLINE": "1"}

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def planned(self, *arguments: str) -> set[str]:
        """Messages of the jobs that a dry run would start."""
        result = self.snakemake("--quiet", "host", "--dry-run", *arguments)
        assert result.returncode == 0, result.stderr
        jobs = re.findall(r"^Job \d+: (.+)$", result.stdout + result.stderr, re.MULTILINE)
        return {job for job in jobs if not job.startswith("Building the report")} | (
            {"report"} if any(job.startswith("Building the report") for job in jobs) else set()
        )

    def pretend_finished(self) -> None:
        """Make all outputs be there and up to date: empty files, with Snakemake's records."""
        summary = self.snakemake("--summary")
        assert summary.returncode == 0, summary.stderr
        for line in summary.stdout.splitlines():
            file = self.folder / line.split("\t")[0]
            if "\t" in line and not line.startswith("output_file"):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
        touched = self.snakemake("--touch", "--forceall")
        assert touched.returncode == 0, touched.stderr


def copy_project(folder: Path) -> Checkout:
    folder.mkdir(parents=True)
    for part in PARTS:
        if (REPOSITORY / part).is_dir():
            # Compiled modules too: they know their source by its time and size, which stay.
            shutil.copytree(REPOSITORY / part, folder / part)
        else:
            shutil.copy2(REPOSITORY / part, folder / part)
    return Checkout(folder)


@pytest.fixture(scope="module")
def registries() -> dict:
    """All registries; read anew for each file of tests."""
    from workflow.config.registries import load_registries

    return load_registries()


@pytest.fixture(scope="session")
def texts(tmp_path_factory, parallel_telugu, greek, english) -> Path:
    """Text files as a user has them: one sentence a line, and tab-separated pairs."""
    folder = tmp_path_factory.mktemp("texts")
    telugu = [target for _, target in parallel_telugu]
    (folder / "telugu.txt").write_text("\n".join(telugu) + "\n", encoding="utf-8")
    (folder / "greek.txt").write_text("\n".join(greek) + "\n", encoding="utf-8")
    pairs = [f"{source}\t{target}" for source, target in parallel_telugu]
    (folder / "telugu.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    # Greek has no pairs in this study's tasks, but its check of English needs sentences.
    pairs = [f"{source}\t{target}" for source, target in zip(english, greek, strict=False)]
    (folder / "greek.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def word_files(tmp_path_factory) -> dict[str, str]:
    """A language's word vectors, those of English and a dictionary, by their keys."""
    folder = tmp_path_factory.mktemp("words")
    files = {  # single letters: the pre-tokenizer cuts words at vowel signs
        "word_vectors": ("te.vec", "3 2\nక 1 0\nన 0 1\nర 1 1\n"),
        "english_word_vectors": ("en.vec", "3 2\nthe 0 1\nof -1 0\nand -1 1\n"),
        "dictionary": ("te.txt", "the\tక\nof\tన\npage\tపేజీ\nname\tపేరు\n"),
    }
    for name, content in files.values():
        (folder / name).write_text(content, encoding="utf-8")
    return {key: str(folder / name) for key, (name, _) in files.items()}


@pytest.fixture(scope="session")
def miniature(smollm2_folder_tiny, texts) -> dict:
    """A study's config: one small source, two languages, two initializers, one strategy."""

    def language(name: str, code: str, script: str) -> dict:
        return {
            "name": name.title(),
            "code": code,
            "script": script,
            "text": {"loader": "text", "paths": [str(texts / f"{name}.txt")]},
            "parallel": {"loader": "tsv", "path": str(texts / f"{name}.tsv")},
            "train_sentences": 100,
            "heldout_sentences": 10,
            "english_sentences": 10,
            "translation_pairs": 4,
        }

    axes = {"sources": ["tiny"], "vocabularies": ["expand-50"], "strategies": ["short"]}
    return {
        "study": "miniature",
        "cells": [
            {
                **axes,
                "languages": ["telugu"],
                "vocabularies": ["source"],
                "initializers": ["none"],
                "strategies": ["none"],
            },
            {**axes, "languages": ["telugu"], "initializers": ["multivariate", "align"]},
            {**axes, "languages": ["greek"], "initializers": ["align"]},
        ],
        "run_tasks": {"perplexity": {}, "translation-short": {}, "speed-short": {}},
        "sources": {"tiny": {"folder": str(smollm2_folder_tiny)}},
        "languages": {
            "telugu": language("telugu", "te", "Telu"),
            "greek": language("greek", "el", "Grek"),
        },
        "strategies": {
            "short": {
                "phases": [
                    {"trainable": ["embeddings", "head", {"layers": [0, -1]}], "length": 64}
                ],
                "epochs": 1,
                "sentences": 20,
                "batch_sequences": 2,
                "gradient_checkpointing": False,
                "curve": {"sentences": 10, "points": 2},
            }
        },
        "tasks": {
            "translation-short": {"base": "translation", "samples": 2, "max_new_tokens": 8},
            "speed-short": {
                "base": "speed",
                "prompts": 2,
                "batch_sizes": [1, 2],
                "new_tokens": 4,
                "repeats": 1,
            },
        },
        "report": {"fonts": None},
    }


@pytest.fixture
def checkout(tmp_path, miniature) -> Checkout:
    """A fresh copy of the project, nothing run."""
    copy = copy_project(tmp_path / "project")
    copy.config = miniature
    return copy


def plan(config: dict, folder: Path) -> dict:
    """Card -> job of a study, as Snakemake plans it in a folder."""
    from workflow.jobs import jobs_of

    text = yaml.safe_dump(config, allow_unicode=True, sort_keys=False)
    (folder / "study.yaml").write_text(text, encoding="utf-8")
    with chdir(folder):
        return jobs_of("study.yaml")


def finish(job, seconds=60.0, ended="done", gpus=0) -> None:
    """Leave what a job leaves in the working folder, without results."""
    from lexigraft.artifacts.atomic import write_json
    from lexigraft.artifacts.cards import INPUTS, relative_paths
    from lexigraft.artifacts.completion import begin, complete, output_checksums

    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "job.json", job.description)
    with (folder / "usage.jsonl").open("a") as file:
        file.write(json.dumps({"seconds": seconds, "ended": ended, "gpus": gpus}) + "\n")
    if ended == "done":
        read = relative_paths(output_checksums(job.description["inputs"]), folder)
        write_json(job.card, {"job": job.description, INPUTS: read})
        finds_inputs = job.rule in ("build_report", "score_predictions")
        complete(job.description, begin(job.description), finds_inputs=finds_inputs)
