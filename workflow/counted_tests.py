"""Which tests are looked for in which training text: all those that cells are scored on.

A corpus looks for the tests of its own language when it is made. What tasks ask beside these is
looked for afterwards, by a rule of its own for each language and task: a new task, or another test
set of an old one, leaves every corpus, and all that was made of it, as it is.

Plain Python: the Snakefile is parsed again in every job.
"""

from pathlib import PurePosixPath

from lexigraft.evaluation.task_kinds import task_kind
from workflow.asked_tasks import asked_parts
from workflow.benchmarks import benchmarks_of
from workflow.cells import is_wanted
from workflow.encoder_tasks import example_parts
from workflow.places import Places
from workflow.task_examples import ENGLISH
from workflow.tested import tested_language

HELDOUT = "heldout"
# What the rules of stage 2 write.
_ASKED, _EXAMPLES = "test_set.jsonl", "examples.jsonl"


def looked_for(places: Places, language: str, task: str) -> dict[str, str]:
    """Name of each test that a task asks cells of a language -> the file or folder with its texts.

    Tests are called after their languages, held-out text `heldout`. None where a task has no tests,
    such as speed, or asks those of the language's own corpus.
    """
    config = places.config
    kind, tested = config["tasks"][task]["kind"], tested_language(config, task, language)
    declared = task_kind(kind)
    corpus = places.corpus_folder(tested)
    if declared.tests == "heldout":
        members = config["languages"][tested].get("group", {}).get("members", [])
        heldout = {name: f"{corpus}/members/{name}/heldout.txt" for name in members}
        own = heldout or {HELDOUT: f"{corpus}/heldout.txt"}
        return own | {ENGLISH: f"{corpus}/english.txt"}
    if declared.tests == "benchmark":
        found = benchmarks_of(config, task, language)
        return {test: places.benchmark_folder(name) for test, name in found.items()}
    if declared.tests == "examples":
        parts, file = example_parts(config, task, language), _EXAMPLES
    else:
        parts, file = asked_parts(config, task, language).get("tests", {}), _ASKED
    if parts:
        return {
            test: f"{places.examples_folder(task, part)}/{file}" for test, part in parts.items()
        }
    if declared.tests == "corpus" and tested != language:
        return {tested: f"{corpus}/tasks/{kind}.jsonl"}
    return {}


def counted_tests(places: Places) -> list[tuple[str, str]]:
    """The languages and tasks of a study whose tests are looked for; the same tests count once."""
    found: dict[tuple[str, frozenset[str]], tuple[str, str]] = {}
    for task, wanted in places.config["run_tasks"].items():
        languages = (cell.language for cell in places.cells if is_wanted(cell, wanted))
        for language in dict.fromkeys(languages):
            tests = looked_for(places, language, task)
            if tests:
                found.setdefault((language, frozenset(tests.values())), (language, task))
    return list(found.values())


def inputs_of(places: Places, language: str, task: str) -> list[str]:
    """The training text, and what says that each test is whole."""
    corpora = {language, tested_language(places.config, task, language)}
    cards = {f"{places.corpus_folder(name)}/card.json" for name in corpora}
    prepared = task_kind(places.config["tasks"][task]["kind"]).tests == "benchmark"
    for place in looked_for(places, language, task).values():
        path = PurePosixPath(place)
        if prepared or path.name in (_ASKED, _EXAMPLES):
            cards.add(f"{path if prepared else path.parent}/card.json")
    return [f"{places.corpus_folder(language)}/train.txt", *sorted(cards)]
