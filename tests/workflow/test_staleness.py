"""Which jobs start after each kind of change, and which must not: dry runs of the real Snakefile.

What a job that starts computes anew is the matter of test_reuse.py: as a rule less.
"""

import os
import shutil
from collections.abc import Callable

import pytest

from lexigraft.report.items import DEFAULT
from tests.workflow.conftest import REPOSITORY, Checkout, copy_project

TELUGU = "telugu expand-50"
REPORT = {"report"}


def evaluated(*cells: str) -> set[str]:
    """Messages of the tasks of cells, but for speed."""
    return {f"Evaluating {cell}" for cell in cells}


def timed(*cells: str) -> set[str]:
    """Messages of the measurement of cells' speed."""
    return {f"Measuring the speed of {cell}" for cell in cells}


def trained(*cells: str) -> set[str]:
    """Messages of the training of cells and of their tasks."""
    return {f"Training {cell}" for cell in cells} | evaluated(*cells) | timed(*cells)


def initialized(language: str, name: str, fit: str = "all-seeds") -> str:
    return f"Initializing {language} expand-50 with {name} ({fit})"


def cut(*languages: str, vocabulary: str = "expand-50", source: str = "tiny") -> set[str]:
    return {f"Measuring how {vocabulary} of {source} tokenizes {name}" for name in languages}


def built(*languages: str) -> set[str]:
    """Messages of the making of vocabularies, and of what measures them."""
    messages = {f"Building vocabulary expand-50 of tiny for {name}" for name in languages}
    return messages | cut(*languages)


def counted(*languages: str) -> set[str]:
    """Messages of the search for what cells are scored on, held-out text and English."""
    return {f"Searching the training text of {n} for the tests of perplexity" for n in languages}


ALIGN = f"{TELUGU} align short seed 0"
MULTIVARIATE = f"{TELUGU} multivariate short seed 0"
GREEK = "greek expand-50 align short seed 0"
BASELINE = "telugu source none none seed 0"
REMOTE = "greek source none none seed 0"  # of the model on the hub
ADAPTED = (ALIGN, MULTIVARIATE, GREEK)
CELLS = (*ADAPTED, BASELINE, REMOTE)
FITTED = {
    initialized("telugu", "align"),
    initialized("telugu", "multivariate", "seed-0"),
    initialized("greek", "align"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, miniature) -> Checkout:
    """A study whose outputs are all there and up to date."""
    copy = copy_project(tmp_path_factory.mktemp("finished") / "project")
    shutil.copytree(REPOSITORY / "envs", copy.folder / "envs")
    copy.config = miniature
    # The corpus files belong to this study alone, since a test edits them.
    own = copy.folder / "texts"
    own.mkdir()

    def complete(config: dict) -> None:
        for name, language in config["languages"].items():
            for file in (language["text"]["paths"][0], language["parallel"]["path"]):
                shutil.copy2(file, own)
            language["text"]["paths"] = [f"texts/{name}.txt"]
            language["parallel"]["path"] = f"texts/{name}.tsv"
        config["sources"]["remote"] = {"hub": "org/remote", "revision": "v1"}
        baseline = {**config["cells"][0], "sources": ["remote"], "languages": ["greek"]}
        config["cells"].append(baseline)

    copy.change(complete)
    copy.pretend_finished()
    return copy


@pytest.fixture
def study(finished, tmp_path) -> Checkout:
    """A copy of the finished study, to change and plan."""
    shutil.copytree(finished.folder, tmp_path / "project")
    return Checkout(tmp_path / "project")


def config(change: Callable[[dict], object]) -> Callable[[Checkout], None]:
    """A change of the study's config."""
    return lambda study: study.change(change)


def edit_code(study: Checkout) -> None:
    """Change messages and bodies of functions without raising a version."""
    study.edit("lexigraft/training/plan.py", "gets none of the", "has none of the")
    for file in ("vocabulary/expand.py", "training/plan.py", "artifacts/cards.py",
                 "initialization/methods/align.py", "evaluation/tasks/translation.py"):  # fmt: skip
        path = study.folder / "lexigraft" / file
        path.write_text(path.read_text() + "\n\nADDED = 1\n")


def text(file: str, old: str, new: str) -> Callable[[Checkout], None]:
    """A change of a file's text."""
    return lambda study: study.edit(file, old, new)


def older_text(study: Checkout) -> None:
    """Another file of the same size, dated before the first run, as `mv` or `rsync -t` puts it."""
    text, other = study.folder / "texts/greek.txt", study.folder / "other.txt"
    lines = text.read_text().splitlines(keepends=True)
    other.write_text("".join([lines[1], lines[0], *lines[2:]]))
    os.utime(other, (1, 1))
    assert other.stat().st_size == text.stat().st_size
    other.replace(text)


def touch_everything(study: Checkout) -> None:
    """As in a fresh copy, whose files are all new to the clock."""
    for part in ("Snakefile", "workflow", "config", "lexigraft", "scripts"):
        for path in [study.folder / part, *(study.folder / part).rglob("*")]:
            os.utime(path)


def say_otherwise(study: Checkout) -> None:
    """Docstrings and comments, of methods, of what every stage uses, of rules and of configs."""
    study.edit("lexigraft/initialization/methods/align.py", '"""', '"""Said otherwise. ')
    study.edit("lexigraft/artifacts/cards.py", '"""', '# A comment.\n"""Said otherwise. ')
    study.edit("scripts/train.py", '"""', '"""Said otherwise. ')
    study.edit("workflow/rules/training.smk", "rule train:", "# A comment.\nrule train:")
    study.edit("config/strategies.yaml", "strategies:", "# A comment.\nstrategies:")


def new_language(config: dict) -> None:
    config["languages"]["modern"] = config["languages"]["greek"]
    config["cells"].append({**config["cells"][2], "languages": ["modern"]})


SEED_1 = [f"{TELUGU} {name} short seed 1" for name in ("align", "multivariate")]
MODERN = "modern expand-50 align short seed 0"
CHANGES = {
    "nothing": (lambda study: None, set()),
    "a copy, all of it new to the clock": (touch_everything, set()),
    "docstrings and comments": (say_otherwise, set()),
    "code, with the same versions": (edit_code, set()),
    "the explanation of a key": (
        text(
            "workflow/config/vocabularies.py", "how many tokens it has, exactly", "its exact size"
        ),
        set(),
    ),
    "the default of a key": (
        text("lexigraft/training/settings.py", "1e-4, gt=0", "2e-4, gt=0"),
        trained(*CELLS) | REPORT,
    ),
    "where a file is fetched from": (
        text("config/files.yaml", "url: https://dl.fbai", "url: https://mirror.fbai"),
        set(),
    ),
    "a dependency's pin": (text("envs/main.txt", "transformers==", "transformers==0"), set()),
    "an entry of a registry that no cell uses": (
        text("config/vocabularies.yaml", "expand-1k:", "expand-2222:"),
        set(),
    ),
    "a strategy's setting": (
        config(lambda c: c["strategies"]["short"].update(learning_rate=3e-4)),
        trained(*ADAPTED) | REPORT,
    ),
    "an initializer's option": (
        text(
            "config/initializers.yaml",
            "multivariate: {method: multivariate, draws: true}",
            "multivariate: {method: multivariate, options: {covariance_scale: 0.5}, draws: true}",
        ),
        trained(MULTIVARIATE) | {initialized("telugu", "multivariate", "seed-0")} | REPORT,
    ),
    "an initializer's version": (
        text(
            "lexigraft/initialization/methods/align.py",
            "class Align(RecipeInitializer):",
            "class Align(RecipeInitializer):\n    version = 2",
        ),
        trained(ALIGN, GREEK)
        | {initialized("telugu", "align"), initialized("greek", "align")}
        | REPORT,
    ),
    "the version of a stage that builds vocabularies": (
        text(
            "workflow/rules/vocabulary.smk",
            '"build_vocabulary", version=1',
            '"build_vocabulary", version=2',
        ),
        built("telugu", "greek") | FITTED | trained(*ADAPTED) | REPORT,
    ),
    "the version of a stage that trains": (
        text(
            "workflow/rules/training.smk",
            '"train",\n            version=1',
            '"train",\n            version=2',
        ),
        trained(*CELLS) | REPORT,
    ),
    "an objective's version": (
        text(
            "lexigraft/training/objectives/clm.py",
            "class CausalModeling(Objective):",
            "class CausalModeling(Objective):\n    version = 2",
        ),
        trained(*ADAPTED) | REPORT,
    ),
    "a task's setting": (
        config(lambda c: c["tasks"]["translation-short"].update(samples=3)),
        evaluated(*CELLS) | REPORT,
    ),
    "a task's version": (
        text(
            "lexigraft/evaluation/tasks/translation.py",
            '    tests="corpus",',
            '    version=2, tests="corpus",',
        ),
        evaluated(*CELLS) | REPORT,
    ),
    "the version of a stage that searches for tests": (
        text(
            "workflow/rules/corpus.smk",
            '"count_tests",\n            version=1',
            '"count_tests",\n            version=2',
        ),
        counted("telugu", "greek") | REPORT,
    ),
    "a file of prompts": (
        text("config/prompts/names.yaml", "names:\n", "names:\n  xx: Other\n"),
        evaluated(*CELLS) | timed(*CELLS) | REPORT,
    ),
    "a corpus file": (
        older_text,
        {"Preparing the texts of greek", initialized("greek", "align")}
        | built("greek")
        | cut("greek", vocabulary="source", source="remote")
        | trained(GREEK, REMOTE)
        | counted("greek")
        | REPORT,
    ),
    "a source's revision": (
        config(lambda c: c["sources"]["remote"].update(revision="v2")),
        {"Preparing the source model remote"}
        | cut("greek", vocabulary="source", source="remote")
        | trained(REMOTE)
        | REPORT,
    ),
    "a strategy's time and memory": (
        config(lambda c: c["strategies"]["short"].update(resources={"time": 2, "memory": 3})),
        set(),
    ),
    "more GPUs": (
        config(
            lambda c: c["sources"]["tiny"].update(
                resources={"training_gpus": 4, "training_sharded": True}
            )
        ),
        set(),
    ),
    "a table less": (
        config(lambda c: c["report"].update(items=["results", "perplexity"])),
        REPORT,
    ),
    "a table more": (
        config(lambda c: c["report"].update(items=[*DEFAULT, "significance"])),
        REPORT,
    ),
    "a language more": (
        config(new_language),
        {"Preparing the texts of modern", initialized("modern", "align")}
        | built("modern")
        | trained(MODERN)
        | counted("modern")
        | REPORT,
    ),
    # Only what draws is fitted for each seed.
    "a seed more": (
        config(lambda c: c["cells"][1].update(seeds=[0, 1])),
        trained(*SEED_1) | {initialized("telugu", "multivariate", "seed-1")} | REPORT,
    ),
    "a cell less": (
        config(lambda c: c["cells"][1].update(initializers=["align"])),
        REPORT,
    ),
}


# Planned at once: changes that no job depends on, and changes on which different jobs depend.
AT_ONCE = [
    tuple(name for name, (_, jobs) in CHANGES.items() if not jobs),
    ("an initializer's option", "a corpus file"),
    ("an initializer's version", "a language more"),
    ("a strategy's setting", "a source's revision"),
    ("a task's setting", "a seed more", "the version of a stage that searches for tests"),
]
ALONE = [(name,) for name in CHANGES if not any(name in names for names in AT_ONCE)]


@pytest.mark.parametrize("names", [*AT_ONCE, *ALONE], ids="; ".join)
def test_exactly_what_depends_on_a_change_runs_again(study, names):
    expected: set[str] = set()
    for name in names:
        change, jobs = CHANGES[name]
        assert expected & jobs <= REPORT, "one would hide the other"
        change(study)
        expected |= jobs
    assert study.planned() == expected
