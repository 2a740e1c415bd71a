"""The real Snakefile on a miniature study: a random small Llama with SmolLM2's real tokenizer."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import chdir
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from tests import preloaded_python
from tests.conftest import REPOSITORY, run_command

PARTS = ("Snakefile", "workflow", "config", "lexigraft", "scripts", "profiles")


def open_study(name):
    """A study of config/studies; files of its users need not be there."""
    from tests.workflow.plan import Plan

    return Plan(name)


@cache
def planned_jobs(name):
    """Card -> job of one of the repository's studies, where nothing has run."""
    from workflow.jobs import jobs_of

    with TemporaryDirectory() as folder, chdir(folder):
        return jobs_of(f"{REPOSITORY}/config/studies/{name}.yaml")


def study_of_entries(settings=None, **entries):
    """A study without cells, of some entries, with other settings than the default ones."""
    from workflow.config.registries import REGISTRIES, read_entries
    from workflow.config.study import StudyConfig
    from workflow.study import Study

    validated = {kind: read_entries(kind, {}, entries.get(kind, {}))[0] for kind in REGISTRIES}
    return Study(StudyConfig.model_construct(study="made-up", **(settings or {})), validated, {})


def edited(study, kind, name, **values):
    """A study with other values of an entry."""
    from workflow.study import Study

    entry = study.entries[kind][name].model_copy(update=values)
    entries = {**study.entries, kind: {**study.entries[kind], name: entry}}
    return Study(study.settings, entries, study.titles)


def benchmarks_of(study, task, language):
    """Name of each test of a cell in a task of the harness -> name of the benchmark."""
    codes = study.tests(task, language)
    return {test: study.benchmark(task, code)[0] for test, code in codes.items()}


def refused(config, registries=None) -> str:
    """The error of a config that is invalid or names missing files, which has one line."""
    from lexigraft.errors import UserError
    from workflow.config.checks import check_local_files
    from workflow.config.registries import load_registries, resolve

    with pytest.raises(UserError) as error:
        check_local_files(resolve(config, registries or load_registries()))
    assert "\n" not in str(error.value)
    return str(error.value)


def errors_of(output: str) -> set[str]:
    """The errors that a run tells: in logs of jobs, and at its end with the name of the log."""
    return set(re.findall(r"^\s*error: (.+?)(?: \(see .+)?$", output, re.MULTILINE))


def shown(study, axis, registry):
    """What the report calls the names that a study's cells have on an axis."""
    titles = study.config["titles"].get(registry, {})
    return {titles.get(name, name) for name in (getattr(cell, axis) for cell in study.cells)}


def changed(config: dict, changes: dict) -> dict:
    """A copy of a config with values at other keys, such as `cells.0.sources`."""
    config = deepcopy(config)
    for key, value in changes.items():
        *path, last = key.split("/")
        place = config
        for part in path:
            place = place[int(part) if isinstance(place, list) else part]
        if value == "<removed>":
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value
    return config


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
        return run_command(self.command(*arguments), cwd=self.folder, env=self.environment())

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


@pytest.fixture(scope="session")
def full_study(miniature, word_files, texts, smollm2_folder_tiny, tmp_path_factory) -> dict:
    """The miniature with cells and tasks that read everything that a study can read."""
    folder = tmp_path_factory.mktemp("config")
    model, question = folder / "bert", {"question": "Which?", "answers": {"text": ["this"]}}
    model.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (model / name).touch()
    (folder / "questions.jsonl").write_text(json.dumps(question | {"context": "this"}) + "\n")
    config = deepcopy(miniature)
    telugu, greek = (config["languages"][name] for name in ("telugu", "greek"))
    text = {"loader": "tsv", "path": str(texts / "telugu.tsv")}
    pairs = {"kind": "parallel", "text": text}
    answers = {"kind": "answered", "prompts": "pairs", "teacher": "large"}
    telugu |= {**word_files, "samples": {"pairs": pairs, "answers": answers}}
    telugu["plms"] = {"bert": {"model": str(model)}}
    greek["samples"] = {"pairs": deepcopy(pairs)}
    config["languages"]["both"] = {"name": "Both", "group": {"members": ["telugu", "greek"]}}
    config["sources"]["large"] = {"folder": str(smollm2_folder_tiny)}
    short = config["strategies"]["short"] | {"checkpoints": 3}
    phase = {"trainable": ["all"], "length": 64}
    taught = phase | {"objective": "distill", "distill": {"teacher": "large"}}
    matched = [part | {"objective": "alm"} for part in short["phases"]]
    mixed = [phase | {"share": 0.5}, phase | {"share": 0.5, "data": {"pairs": 0.5, "answers": 0.5}}]
    config["strategies"] = {
        "short": short,
        "taught": short | {"phases": [taught], "checkpoints": 1},
        "mixed": short | {"phases": mixed, "checkpoints": 1},
        "matched": short | {"phases": matched, "checkpoints": 1},
    }
    config["vocabularies"] = {"own": {"mode": "replace", "plm": "bert"}}
    config["auxiliary"] = {
        "english": {"base": "english-word-vectors", "unlisted_words": False},
        "aligned": {"base": "aligned-word-vectors", "unlisted_words": False},
        "trained": {"kind": "glove", "corpus": "greek"},
    }
    config["initializers"] = {
        "words": {"base": "wechsel", "auxiliary": {"target": "aligned", "source": "english"}},
        "translated": {"method": "transtokenizers", "samples": "pairs"},
        "mine": {"base": "align"},
        "focused": {"base": "focus", "auxiliary": "trained"},
        "encoded": {"base": "tokenadapt"},
        "bilingual": {"method": "dictionary-alignment", "dictionary": True},
        "model": {"base": "omp", "auxiliary": {"plm": "plm-bert"}},
    }
    cells = config["cells"][1] | {"strategies": ["none"]}
    config["cells"] += [
        cells | {"initializers": ["words", "translated", "mine", "focused", "bilingual"]},
        cells | {"vocabularies": ["own"], "initializers": ["model"]},
        config["cells"][0] | {"languages": ["telugu", "both"], "strategies": ["taught", "mixed"]},
        config["cells"][0] | {"strategies": ["matched"]},
        cells | {"languages": ["telugu", "greek"], "initializers": ["encoded"]},
    ]
    config["aliases"] = [{"initializer": "mine", "same_as": "align", "vocabularies": ["own"]}]
    codes = {"languages": {"te": "te"}}
    config["tasks"] |= {
        "titles": {
            "base": "translation",
            "shots": 1,
            "prompt": "names",
            "examples": {"test": [text | codes], "shots": [text | codes]},
        },
        "asked": {
            "kind": "question_answering",
            "examples": {
                "test": [
                    {
                        "loader": "jsonl",
                        "path": str(folder / "questions.jsonl"),
                        "languages": ["te", "en"],
                    }
                ]
            },
        },
        "elsewhere": {"base": "perplexity", "language": "telugu"},
    }
    telugu_only = {"languages": ["telugu"]}
    config["run_tasks"] |= {"titles": telugu_only, "asked": telugu_only, "elsewhere": {}}
    config["run_tasks"]["perplexity"] = {"checkpoints": True}
    config["run_tasks"]["translation-short"] = {"languages": ["telugu", "greek"]}
    return config


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
