"""Stage 2, corpus: texts, samples to train on, test sets, and what of them is in training text."""

import re
from typing import Any

from lexigraft.corpus.sample_file import SAMPLES, TEST_SET
from lexigraft.evaluation.task_kinds import prompts_of, task_kind
from workflow.config.languages import OF_GROUP
from workflow.config.task_data import (
    ENGLISH,
    benchmarks_of,
    example_parts,
    learned_parts,
    own_test_parts,
    own_test_settings,
    tested_language,
)
from workflow.config.task_data import example_settings as part_settings
from workflow.config.training_data import answered_samples, members, used
from workflow.inputs.rule import Output, Wildcards, output
from workflow.inputs.source import package_of
from workflow.study import Study, once

EXAMPLES = "examples.jsonl"  # written by `lexigraft.corpus.examples`
# Keys of a language that other rules read.
_NOT_TEXT = ("word_vectors", "english_word_vectors", "dictionary", "plms", "samples")

# ---- texts --------------------------------------------------------------------------------------


def settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The texts of a language, or how those of a group are mixed."""
    entry = study.config["languages"][wildcards["language"]]
    if "group" in entry:
        return {key: entry[key] for key in OF_GROUP if key in entry}
    return {key: value for key, value in entry.items() if key not in _NOT_TEXT}


def package(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The package that contains the texts of a language."""
    entry = study.config["languages"][wildcards["language"]]
    texts = [entry[key] for key in ("text", "parallel", "english") if entry.get(key)]
    return [] if "group" in entry else package_of(study, texts)


def group_members(study: Study, wildcards: Wildcards) -> dict[str, Output]:
    """The texts of each member of a group."""
    group = study.config["languages"][wildcards["language"]].get("group", {})
    return {name: texts_of(study, name) for name in group.get("members", ())}


def seed(study: Study, wildcards: Wildcards) -> list[Any]:
    """The seed of a corpus."""
    return [study.config["seed"], "corpus", wildcards["language"]]


def texts_of(study: Study, language: str) -> Output:
    """The texts of a language or of a group."""
    return output(study, "prepare_corpus", {"language": language})


# ---- samples to train on ------------------------------------------------------------------------


def sample_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """An entry of a language's samples; for a group, those of its members are mixed."""
    texts = study.config["languages"][wildcards["language"]]
    if "group" in texts:
        return {"name": wildcards["samples"]}
    entry = texts["samples"][wildcards["samples"]]
    return {"language": texts["name"], "repair": texts["repair"], **entry}


def sample_package(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The package that contains the text of samples."""
    return package_of(study, [sample_settings(study, wildcards).get("text") or {}])


def sample_corpus(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The texts of the language; a group has those of its members."""
    is_group = "group" in study.config["languages"][wildcards["language"]]
    return [] if is_group else texts_of(study, wildcards["language"])


def member_samples(study: Study, wildcards: Wildcards) -> dict[str, Output]:
    """The samples of each member of a group that has them."""
    languages, language, name = study.config["languages"], *_names(wildcards)
    names = members(study.config, language) if "group" in languages[language] else []
    return {
        member: samples_of(study, member, name)
        for member in names
        if name in languages[member]["samples"]
    }


def sample_corpora(study: Study, wildcards: Wildcards) -> dict[str, Output]:
    """The texts of each member of a group."""
    return group_members(study, wildcards)


def sample_seed(study: Study, wildcards: Wildcards) -> list[Any]:
    """The seed of samples."""
    language, name = _names(wildcards)
    return [study.config["seed"], "corpus", language, "samples", name]


def samples_of(study: Study, language: str, name: str) -> Output:
    """Samples of a language or of a group, from a file or answered by a teacher."""
    return output(study, "prepare_samples", {"language": language, "samples": name})


def _names(wildcards: Wildcards) -> tuple[str, str]:
    return wildcards["language"], wildcards["samples"]


# ---- answers of a teacher -----------------------------------------------------------------------


def answered(study: Study) -> str:
    """The constraint of `language` to samples that a teacher answers, by a look at `samples`."""
    patterns = [
        f"{re.escape(language)}(?=/samples/{re.escape(name)}/)"
        for language, name, _ in answered_samples(study.config)
    ]
    return "|".join(patterns) or "(?!)"


def answer_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """How a teacher answers."""
    entry = _answered_entry(study, wildcards)
    return {key: entry[key] for key in ("max_new_tokens", "batch_size")}


def prompts(study: Study, wildcards: Wildcards) -> Output:
    """The samples whose prompts a teacher answers."""
    name = _answered_entry(study, wildcards)["prompts"]
    return samples_of(study, wildcards["language"], name).file(SAMPLES)


def teacher(study: Study, wildcards: Wildcards) -> Output:
    """The source model that answers."""
    return output(study, "prepare_source", {"source": _answered_entry(study, wildcards)["teacher"]})


def answer_memory(study: Study, wildcards: Wildcards) -> int:
    """Megabytes for the teacher."""
    megabytes: int = _teacher_resources(study, wildcards)["evaluation_mb"]
    return megabytes


def answer_minutes(study: Study, wildcards: Wildcards) -> int:
    """Minutes for all answers."""
    model, resources = study.cost_model, _teacher_resources(study, wildcards)
    return model.minutes(resources, "evaluation_minutes", lambda: model.answers(*_names(wildcards)))


def _answered_entry(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    language, name = _names(wildcards)
    entry: dict[str, Any] = study.config["languages"][language]["samples"][name]
    return entry


def _teacher_resources(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    teacher = _answered_entry(study, wildcards)["teacher"]
    resources: dict[str, Any] = study.config["sources"][teacher]["resources"]
    return resources


# ---- test sets ----------------------------------------------------------------------------------


def example_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """One part of a task's examples: to train on, or the tests or the few-shot of a language."""
    task, part = wildcards["task"], wildcards["part"]
    kind = task_kind(study.config["tasks"][task]["kind"])
    read = part_settings if kind.fine_tunes else own_test_settings
    return read(study.config, task, part)


def searched_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The columns of a test set that are searched for, which the kind of a task declares."""
    kind = study.config["tasks"][wildcards["task"]]["kind"]
    return {
        "kind": kind,
        "texts": {name: list(keys) for name, keys in task_kind(kind).test_texts.items()},
    }


def searched_tests(study: Study, wildcards: Wildcards) -> dict[str, Output]:
    """Name of each test set that a task has for cells of a language -> its file or folder.

    Test sets are named after their languages, held-out text is `heldout`. Empty if a task has no
    test sets, such as speed, or uses those of the language's own corpus, which are searched for
    when it is prepared. A new task or test set does not change any corpus.
    """
    config, language, task = study.config, wildcards["language"], wildcards["task"]
    kind, tested = config["tasks"][task]["kind"], tested_language(config, task, language)
    texts, tests = texts_of(study, tested), task_kind(kind).tests
    if tests == "heldout":
        files = {"heldout": texts.file("heldout.txt")}
        if "group" in config["languages"][tested]:
            names = members(config, tested)
            files = {name: texts.file(f"members/{name}/heldout.txt") for name in names}
        return files | {ENGLISH: texts.file("english.txt")}
    inputs = task_inputs(study, language, task)
    if "benchmarks" in inputs:
        return dict(inputs["benchmarks"])
    for key, file in (("examples", EXAMPLES), ("test_sets", TEST_SET)):
        if parts := inputs.get(key, {}).get("tests"):
            return {test: part.file(file) for test, part in parts.items()}
    if tests == "corpus" and tested != language:
        return {tested: texts.file(f"tasks/{kind}.jsonl")}
    return {}


def searched(study: Study) -> list[tuple[str, str]]:
    """Languages and tasks whose test sets are searched for, with equal test sets only once."""
    first: dict[tuple[str, frozenset[str]], tuple[str, str]] = {}
    for task in study.config["run_tasks"]:
        for language in used(study.config, "languages", task=task):
            tests = searched_tests(study, {"language": language, "task": task})
            if tests:
                paths = frozenset(test.path for test in tests.values())
                first.setdefault((language, paths), (language, task))
    return list(first.values())


@once
def task_inputs(study: Study, language: str, task: str) -> dict[str, Any]:
    """The texts that a task reads for cells of a language."""

    def parts_of(names: dict[str, str]) -> dict[str, Output]:
        return {
            name: output(study, "prepare_examples", {"task": task, "part": part})
            for name, part in names.items()
        }

    config = study.config
    inputs: dict[str, Any] = {"corpus": texts_of(study, tested_language(config, task, language))}
    if file := prompts_of(config["tasks"][task]):
        # Only these: a change of any other would invalidate its records.
        inputs["prompts"] = {name: f"{study.prompts}/{name}.yaml" for name in (file, "names")}
    if parts := example_parts(config, task, language):
        learned = {part: part for part in learned_parts(config, task)}
        inputs["examples"] = parts_of(learned) | {"tests": parts_of(parts)}
    if sets := own_test_parts(config, task, language):
        inputs["test_sets"] = {key: parts_of(sets[key]) for key in sets}
    if benchmarks := benchmarks_of(config, task, language):
        inputs["benchmarks"] = {
            name: output(study, "prepare_benchmark", {"benchmark": benchmark})
            for name, benchmark in benchmarks.items()
        }
    return inputs
