"""Stage 2, corpus: texts, samples to train on, test sets, and what of them is in training text."""

import re
from functools import partial
from typing import Any

from lexigraft.corpus.sample_file import SAMPLES, TEST_SET
from lexigraft.evaluation.task_kinds import ENGLISH
from lexigraft.settings import plain
from workflow.config.languages import OF_GROUP
from workflow.cost import cost_model
from workflow.inputs.rule import Output, Wildcards, output
from workflow.inputs.source import package_of
from workflow.study import Study, in_repository, once

EXAMPLES = "examples.jsonl"  # written by `lexigraft.corpus.examples`
# Keys of a language that other rules read.
_NOT_TEXT = ("word_vectors", "english_word_vectors", "dictionary", "plms", "samples")

# ---- texts --------------------------------------------------------------------------------------


def settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The texts of a language, or how those of a group are mixed."""
    language = study.languages[wildcards["language"]]
    entry = plain(language)
    if language.group:
        return {key: entry[key] for key in OF_GROUP if key in entry}
    return {key: value for key, value in entry.items() if key not in _NOT_TEXT}


def package(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The package that contains the texts of a language."""
    language = study.languages[wildcards["language"]]
    return package_of(study, language.text, language.parallel, language.english)


def group_members(study: Study, wildcards: Wildcards) -> dict[str, Output]:
    """The texts of each member of a group."""
    group = study.languages[wildcards["language"]].group
    return {name: texts_of(study, name) for name in group.members} if group else {}


def texts_of(study: Study, language: str) -> Output:
    """The texts of a language or of a group."""
    return output(study, "prepare_corpus", {"language": language})


# ---- samples to train on ------------------------------------------------------------------------


def sample_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """An entry of a language's samples; for a group, those of its members are mixed."""
    language = study.languages[wildcards["language"]]
    if language.group:
        return {"name": wildcards["samples"]}
    entry = plain(_samples(study, wildcards))
    return {"language": language.name, "repair": language.repair, **entry}


def sample_package(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The package that contains the text of samples."""
    is_group = study.languages[wildcards["language"]].group
    return [] if is_group else package_of(study, getattr(_samples(study, wildcards), "text", None))


def sample_corpus(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The texts of the language; a group has those of its members."""
    is_group = study.languages[wildcards["language"]].group
    return [] if is_group else texts_of(study, wildcards["language"])


def member_samples(study: Study, wildcards: Wildcards) -> dict[str, Output]:
    """The samples of each member of a group that has them."""
    name = wildcards["samples"]
    return {
        member: samples_of(study, member, name)
        for member in group_members(study, wildcards)
        if name in study.languages[member].samples
    }


def samples_of(study: Study, language: str, name: str) -> Output:
    """Samples of a language or of a group, from a file or answered by a teacher."""
    return output(study, "prepare_samples", {"language": language, "samples": name})


# ---- answers of a teacher -----------------------------------------------------------------------


def answered(study: Study) -> str:
    """The constraint of `language` to samples that a teacher answers, by a look at `samples`."""
    patterns = [
        f"{re.escape(language)}(?=/samples/{re.escape(name)}/)"
        for language, name, _ in study.answered_samples()
    ]
    return "|".join(patterns) or "(?!)"


def answer_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """How a teacher answers."""
    entry = _samples(study, wildcards)
    return {"max_new_tokens": entry.max_new_tokens, "batch_size": entry.batch_size}


def prompts(study: Study, wildcards: Wildcards) -> Output:
    """The samples whose prompts a teacher answers."""
    name = _samples(study, wildcards).prompts
    return samples_of(study, wildcards["language"], name).file(SAMPLES)


def teacher(study: Study, wildcards: Wildcards) -> Output:
    """The source model that answers."""
    return output(study, "prepare_source", {"source": _samples(study, wildcards).teacher})


def answer_memory(study: Study, wildcards: Wildcards) -> int:
    """Megabytes for the teacher."""
    return study.sources[_samples(study, wildcards).teacher].resources.evaluation_mb


def answer_minutes(study: Study, wildcards: Wildcards) -> int:
    """Minutes for all answers."""
    resources = study.sources[_samples(study, wildcards).teacher].resources
    model, language = cost_model(study), wildcards["language"]
    seconds = partial(model.answers, language, wildcards["samples"])
    return model.minutes(resources, "evaluation_minutes", seconds)


def _samples(study: Study, wildcards: Wildcards) -> Any:
    return study.languages[wildcards["language"]].samples[wildcards["samples"]]


def example_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """One part of the examples of a task."""
    return study.example_settings(wildcards["task"], wildcards["part"])


# ---- test sets ----------------------------------------------------------------------------------


def searched_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The columns of a test set that are searched for, which the kind of a task declares."""
    texts = study.task_kind(wildcards["task"]).test_texts
    return {
        "kind": study.tasks[wildcards["task"]].kind,
        "texts": {name: list(keys) for name, keys in texts.items()},
    }


def searched_tests(study: Study, wildcards: Wildcards) -> dict[str, Output]:
    """Name of each test set that a task has for cells of a language -> its file or folder.

    Test sets are named after their languages, held-out text is `heldout`. Empty if a task has no
    test sets, such as speed, or uses those of the language's own corpus, which are searched for
    when it is prepared. A new task or test set does not change any corpus.
    """
    language, task = wildcards["language"], wildcards["task"]
    tests, tested = study.task_kind(task).tests, study.tested_language(task, language)
    texts = texts_of(study, tested)
    if tests == "heldout":
        files = {"heldout": texts.file("heldout.txt")}
        if study.languages[tested].group:
            names = study.members(tested)
            files = {name: texts.file(f"members/{name}/heldout.txt") for name in names}
        return files | {ENGLISH: texts.file("english.txt")}
    inputs = task_inputs(study, language, task)
    if "benchmarks" in inputs:
        return dict(inputs["benchmarks"])
    for key, file in (("examples", EXAMPLES), ("test_sets", TEST_SET)):
        if parts := inputs.get(key, {}).get("tests"):
            return {test: part.file(file) for test, part in parts.items()}
    if tests == "corpus" and tested != language:
        return {tested: texts.file(f"tasks/{study.tasks[task].kind}.jsonl")}
    return {}


def searched(study: Study) -> list[tuple[str, str]]:
    """Languages and tasks whose test sets are searched for, with equal test sets only once."""
    first: dict[tuple[str, frozenset[str]], tuple[str, str]] = {}
    for task in study.run_tasks:
        for language in study.used("languages", task=task):
            tests = searched_tests(study, {"language": language, "task": task})
            if tests:
                paths = frozenset(test.path for test in tests.values())
                first.setdefault((language, paths), (language, task))
    return list(first.values())


@once
def task_inputs(study: Study, language: str, task: str) -> dict[str, Any]:
    """The texts that a task reads for cells of a language."""
    kind = study.task_kind(task)
    inputs: dict[str, Any] = {"corpus": texts_of(study, study.tested_language(task, language))}
    if file := study.tasks[task].prompts:
        # Only these: a change of any other would invalidate its records.
        files = {name: f"config/prompts/{name}.yaml" for name in (file, "names")}
        inputs["prompts"] = {name: in_repository(path) for name, path in files.items()}
    parts = {
        use: {
            name: output(study, "prepare_examples", {"task": task, "part": part})
            for name, part in names.items()
        }
        for use, names in study.example_parts(task, language).items()
    }
    if kind.fine_tunes:
        inputs["examples"] = parts["learned"] | {"tests": parts["tests"]}
    elif parts:
        inputs["test_sets"] = parts
    if kind.tests == "benchmark" and (codes := study.tests(task, language)):
        names = {test: study.benchmark(task, code)[0] for test, code in codes.items()}
        inputs["benchmarks"] = {
            test: output(study, "prepare_benchmark", {"benchmark": name})
            for test, name in names.items()
        }
    return inputs
