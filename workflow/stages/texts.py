"""Stages of external inputs: packages, source models, corpora, samples and test sets."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lexigraft.artifacts.cards import MODEL_FILES
from lexigraft.corpus.sample_file import SAMPLES, TEST_SET
from lexigraft.evaluation.harness.benchmark_state import benchmark_state
from lexigraft.evaluation.learned.checkpoint import state
from lexigraft.evaluation.task_kinds import prompts_of, task_kind
from workflow.config.languages import OF_GROUP
from workflow.config.task_data import (
    ENGLISH,
    benchmark_settings,
    benchmarks_of,
    example_parts,
    example_settings,
    learned_parts,
    own_test_parts,
    own_test_settings,
    tested_language,
)
from workflow.config.training_data import ANSWERED, answered_samples, members, used
from workflow.stages.stage import Describe, Output, Resources, named, stage
from workflow.stages.study import Study, in_repository, once

EXAMPLES = "examples.jsonl"  # written by `lexigraft.corpus.examples`
_LANGUAGES = named("language", "languages", lambda entry: "group" not in entry)
_GROUPS = named("language", "languages", lambda entry: "group" in entry)
_SAMPLES = "corpus/{language}/samples/{samples}"

# ---- the outputs of these stages, by content ----------------------------------------------------


def package(study: Study, name: str) -> Output:
    """An unpacked package, with the version in the folder's name."""
    version = study.config["packages"][name]["version"]
    return study.output("fetch_package", package=f"{name}-{version}")


def sentence_encoder(study: Study, entry: Mapping[str, str]) -> dict[str, str]:
    """Location of a sentence encoder: `{hub, revision}`, or `{folder}`, perhaps in a package."""
    if "package" in entry:
        return {"folder": package(study, entry["package"]).file(entry["folder"])}
    if "folder" in entry:
        return {"folder": f"{Path(entry['folder']).expanduser()}{MODEL_FILES}"}
    return {key: entry[key] for key in ("hub", "revision") if key in entry}


def source(study: Study, name: str) -> Output:
    """A prepared source: its card, and the model itself if it comes from a package."""
    return study.output("prepare_source", source=name)


def corpus(study: Study, language: str) -> Output:
    """The texts of a language or of a group."""
    is_group = "group" in study.config["languages"][language]
    return study.output("mix_corpora" if is_group else "prepare_corpus", language=language)


def sample_folder(study: Study, language: str, name: str) -> Output:
    """Prompts with answers to train on: of a group, by a teacher, or from a file."""
    texts = study.config["languages"][language]
    if "group" in texts:
        rule = "mix_samples"
    else:
        is_answered = texts["samples"][name]["kind"] == ANSWERED
        rule = "answer_samples" if is_answered else "prepare_samples"
    return study.output(rule, language=language, samples=name)


# ---- stages ------------------------------------------------------------------------------------


# Without a version: its content is pinned by a checksum.
@stage("source", "{package}", log="source/packages/{package}", version=None)
def fetch_package(study: Study, package: str) -> dict[str, Any]:
    """An unpacked package of config/packages.yaml."""
    entries = study.config["packages"].items()
    name = next(name for name, entry in entries if package == f"{name}-{entry['version']}")
    settings = {"name": name, **study.config["packages"][name]}
    return {"settings": settings, "inputs": {}}


@stage("source", "source/{source}")
def prepare_source(study: Study, source: str) -> dict[str, Any]:
    """A source model, located or converted, and checked."""
    entry = study.config["sources"][source]
    inputs: dict[str, Any] = dict(_package(study, [entry]))
    if other := entry.get("tokenizer_of"):
        inputs["tokenizer_of"] = study.output("prepare_source", source=other)
    return {"settings": entry, "inputs": inputs}


# Other rules read these keys of a language.
_NOT_TEXT = ("word_vectors", "english_word_vectors", "dictionary", "plms", "samples")


@stage("corpus", "corpus/{language}", names=_LANGUAGES)
def prepare_corpus(study: Study, language: str) -> dict[str, Any]:
    """The texts of one language, cleaned and split."""
    entry = study.config["languages"][language]
    texts = [entry[key] for key in ("text", "parallel", "english") if entry.get(key)]
    return {
        "settings": {key: value for key, value in entry.items() if key not in _NOT_TEXT},
        "inputs": _package(study, texts),
        "seed": [study.config["seed"], "corpus", language],
    }


@stage("corpus", "corpus/{language}", names=_GROUPS)
def mix_corpora(study: Study, language: str) -> dict[str, Any]:
    """The texts of a group, mixed from those of its members."""
    entry = study.config["languages"][language]
    return {
        "settings": {key: entry[key] for key in OF_GROUP if key in entry},
        "inputs": {"members": {name: corpus(study, name) for name in entry["group"]["members"]}},
        "seed": [study.config["seed"], "corpus", language],
    }


@stage("corpus", _SAMPLES, names=_LANGUAGES)
def prepare_samples(study: Study, language: str, samples: str) -> dict[str, Any]:
    """Prompts and answers of one language, from one entry of its samples."""
    texts = study.config["languages"][language]
    settings = texts["samples"][samples]
    return {
        "settings": {"language": texts["name"], "repair": texts["repair"], **settings},
        "inputs": {
            "corpus": corpus(study, language),
            **_package(study, [settings.get("text") or {}]),
        },
        "seed": [study.config["seed"], "corpus", language, "samples", samples],
    }


@stage("corpus", _SAMPLES, names=_GROUPS)
def mix_samples(study: Study, language: str, samples: str) -> dict[str, Any]:
    """Prompts and answers of a group, from its members that have them."""
    every, entries = members(study.config, language), study.config["languages"]
    having = [name for name in every if samples in entries[name]["samples"]]
    return {
        "settings": {"name": samples},
        "inputs": {
            "samples": {name: sample_folder(study, name, samples) for name in having},
            "corpora": {name: corpus(study, name) for name in every},
        },
        "seed": [study.config["seed"], "corpus", language, "samples", samples],
    }


def _answered(study: Study) -> Mapping[str, Iterable[str]]:
    found = [(language, name) for language, name, _ in answered_samples(study.config)]
    return {"language": [one for one, _ in found], "samples": [name for _, name in found]}


def _answering(study: Study, language: str, samples: str) -> Resources:
    teacher = study.config["languages"][language]["samples"][samples]["teacher"]
    resources = study.config["sources"][teacher]["resources"]
    model = study.cost_model
    minutes = model.minutes(
        resources, "evaluation_minutes", lambda: model.answers(language, samples)
    )
    return Resources(resources["evaluation_mb"], minutes, gpus=1)


@stage("corpus", _SAMPLES, resources=_answering, names=_answered)
def answer_samples(study: Study, language: str, samples: str) -> dict[str, Any]:
    """The prompts of other samples with a teacher's answers."""
    entry = study.config["languages"][language]["samples"][samples]
    prompts = sample_folder(study, language, entry["prompts"])
    return {
        "settings": {key: entry[key] for key in ("max_new_tokens", "batch_size")},
        "inputs": {"prompts": prompts.file(SAMPLES), "teacher": source(study, entry["teacher"])},
    }


def _examples_stage(declared: str, part: str) -> Callable[[Describe], Describe]:
    """A stage for tasks whose kind has the attribute `declared`; `part` is a wildcard's pattern."""
    names = named("task", "tasks", lambda entry: getattr(task_kind(entry["kind"]), declared))
    return stage("corpus", "examples/{task}/{part}", names=names, patterns={"part": part})


@_examples_stage("fine_tunes", "train|validation|[a-z]{2,3}")
def prepare_examples(study: Study, task: str, part: str) -> dict[str, Any]:
    """Training examples of a task (`train`, `validation`), or test examples by language code."""
    settings = example_settings(study.config, task, part)
    return {"settings": settings, "inputs": {}}


@_examples_stage("generates", "(test|shots)-[a-z]{2,3}")
def prepare_test_set(study: Study, task: str, part: str) -> dict[str, Any]:
    """A test set of a task in one language, or the few-shot examples of its prompts."""
    settings = own_test_settings(study.config, task, part)
    return {"settings": settings, "inputs": {}}


@stage("corpus", "corpus/{language}/contamination/{task}")
def count_tests(study: Study, language: str, task: str) -> dict[str, Any]:
    """How much of a task's test sets occurs in the training text of a language."""
    kind = study.config["tasks"][task]["kind"]
    texts = {name: list(keys) for name, keys in task_kind(kind).test_texts.items()}
    return {
        # The columns of a test set that are searched are declared by the task kind.
        "settings": {"kind": kind, "texts": texts},
        "inputs": {
            "text": corpus(study, language),
            "tests": searched_tests(study, language, task),
        },
        "language": language,
        "task": task,
    }


@stage("evaluation", "benchmarks/{benchmark}")
def prepare_benchmark(study: Study, benchmark: str) -> dict[str, Any]:
    """The data of a task of lm-evaluation-harness, if it is available."""
    settings = benchmark_settings(study.config, benchmark)
    folder = study.output("prepare_benchmark", benchmark=benchmark)
    if settings["folder"].startswith("."):
        place = settings["folder"].removeprefix("./")
        place = place if Path(place).is_dir() else in_repository(place)
        settings = settings | {"folder": place if place.startswith("/") else f"./{place}"}
    return {
        "settings": settings,
        "inputs": {},
        # The results folder contains the commits of data sets on the hub; missing ones are added.
        "outputs": {"results": study.results},
        "state": benchmark_state(settings["data"], folder, study.locked),
    }


@stage("evaluation", "metrics/{metric}")
def prepare_metric(study: Study, metric: str) -> dict[str, Any]:
    """A learned metric's checkpoint, if it is available."""
    keys = ("kind", "checkpoint", "revision", "encoder", "encoder_revision")
    entry, python = study.config["metrics"][metric], study.metrics_python
    return {
        "settings": {key: entry[key] for key in keys},
        "inputs": {"python": python},
        "metric": metric,
        # It is prepared again when more of it becomes available on this machine.
        "state": state(entry, python, study.output("prepare_metric", metric=metric)),
    }


# ---- the texts that tasks read, and the test sets that are searched for in training text --------


@once
def read_by(study: Study, language: str, task: str) -> dict[str, Any]:
    """The texts that a task reads for cells of a language."""

    def outputs(rule: str, parts: Mapping[str, str]) -> dict[str, Output]:
        return {name: study.output(rule, task=task, part=part) for name, part in parts.items()}

    config = study.config
    found: dict[str, Any] = {"corpus": corpus(study, tested_language(config, task, language))}
    if file := prompts_of(config["tasks"][task]):
        # Only these: a change of any other would invalidate its records.
        found["prompts"] = {name: f"{study.prompts}/{name}.yaml" for name in (file, "names")}
    if parts := example_parts(config, task, language):
        learned = {part: part for part in learned_parts(config, task)}
        tests = {"tests": outputs("prepare_examples", parts)}
        found["examples"] = outputs("prepare_examples", learned) | tests
    if own := own_test_parts(config, task, language):
        found["test_sets"] = {key: outputs("prepare_test_set", own[key]) for key in own}
    if benchmarks := benchmarks_of(config, task, language):
        found["benchmarks"] = {
            name: study.output("prepare_benchmark", benchmark=benchmark)
            for name, benchmark in benchmarks.items()
        }
    return found


def searched_tests(study: Study, language: str, task: str) -> dict[str, Output]:
    """Name of each test set that a task has for cells of a language -> its file or folder.

    Test sets are named after their languages, held-out text is `heldout`. Empty if a task has no
    test sets, such as speed, or uses those of the language's own corpus, which are searched for
    when it is prepared. A new task or test set does not change any corpus.
    """
    config = study.config
    kind, tested = config["tasks"][task]["kind"], tested_language(config, task, language)
    texts, tests = corpus(study, tested), task_kind(kind).tests
    if tests == "heldout":
        own = {"heldout": texts.file("heldout.txt")}
        if "group" in config["languages"][tested]:
            names = members(config, tested)
            own = {name: texts.file(f"members/{name}/heldout.txt") for name in names}
        return own | {ENGLISH: texts.file("english.txt")}
    read = read_by(study, language, task)
    if "benchmarks" in read:
        return dict(read["benchmarks"])
    for key, file in (("examples", EXAMPLES), ("test_sets", TEST_SET)):
        if own := read.get(key, {}).get("tests"):
            return {test: output.file(file) for test, output in own.items()}
    if tests == "corpus" and tested != language:
        return {tested: texts.file(f"tasks/{kind}.jsonl")}
    return {}


def searched(study: Study) -> list[tuple[str, str]]:
    """Languages and tasks whose test sets are searched for, with equal test sets only once."""
    found: dict[tuple[str, frozenset[str]], tuple[str, str]] = {}
    for task in study.config["run_tasks"]:
        for language in used(study.config, "languages", task=task):
            if tests := searched_tests(study, language, task):
                found.setdefault((language, frozenset(tests.values())), (language, task))
    return list(found.values())


def _package(study: Study, texts: Iterable[Mapping[str, Any]]) -> dict[str, Output]:
    """The package that contains some texts, as an input."""
    names = [text["package"] for text in texts if "package" in text]
    return {"package": package(study, names[0])} if names else {}
