"""Tasks that encoders are fine-tuned for: their examples, and the sources and languages they fit.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from typing import Any

from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import task_kind
from workflow.task_examples import (
    check_codes,
    check_text_files,
    codes_of,
    filled,
    run_on,
    tests_of,
    text_of,
)

TRAIN = "train"  # the part that is learned from; tests are called by their language's code
MASKED = "masked"


def example_parts(config: Mapping[str, Any], task: str, language: str) -> dict[str, str]:
    """What a cell of a language is tested on by a task: name of the test -> part of the examples.

    Each language of a group, by its name; and English, if the task has it. None for a task that
    fine-tunes nothing.
    """
    entry = config["tasks"][task]
    if not task_kind(entry["kind"]).fine_tunes:
        return {}
    return tests_of(config, task, language, codes_of(entry["examples"]["test"]))


def example_settings(config: Mapping[str, Any], task: str, part: str) -> dict[str, Any]:
    """What the job that reads one part of a task's examples is told: `text`, `columns`, `labels`.

    `{code}` in a text of several languages stands for the code of each.
    """
    entry = config["tasks"][task]
    examples = entry["examples"]
    text, called = (examples["train"], part) if part == TRAIN else text_of(examples["test"], part)
    own = ("languages", "columns", "labels")
    return {
        "kind": entry["kind"],
        "columns": text.get("columns") or examples["columns"],
        "labels": text.get("labels") or examples.get("labels"),
        "text": {key: filled(value, called) for key, value in text.items() if key not in own},
    }


def check_encoder_tasks(config: Mapping[str, Any]) -> None:
    """Check that strategies and tasks fit the sources, and tasks the languages, of their cells.

    Raises
    ------
    UserError
        A masked language model is trained or tested as a causal one, or the reverse; or a task has
        no examples of a language.
    """
    for block in config["cells"]:
        for source in block["sources"]:
            for strategy in block["strategies"]:
                _check_strategy(config, source, strategy)
            for task, wanted in config["run_tasks"].items():
                if wanted["sources"] is None or source in wanted["sources"]:
                    _check_task(config, source, task)
    for task in config["run_tasks"]:
        kind = config["tasks"][task]["kind"]
        learns = task_kind(kind).fine_tunes or task_kind(kind).generates
        if "examples" in config["tasks"][task] and not learns:
            raise UserError(f"tasks.{task}.examples: kind '{kind}' learns from none; take them out")
    for task, language in run_on(config, "fine_tunes"):
        check_codes(config, task, "test", example_parts(config, task, language))


def check_local_examples(config: Mapping[str, Any]) -> None:
    """Check that the local files of the examples that a resolved study reads exist.

    Raises
    ------
    UserError
        Naming the key and the path of the first one that is missing or empty.
    """
    for task, language in run_on(config, "fine_tunes"):
        for part in (TRAIN, *example_parts(config, task, language).values()):
            check_text_files(task, part, example_settings(config, task, part)["text"])


def _check_strategy(config: Mapping[str, Any], source: str, strategy: str) -> None:
    masked = config["sources"][source]["kind"] == MASKED
    for number, phase in enumerate(config["strategies"][strategy]["phases"]):
        if (phase["objective"] == "mlm") != masked:
            way = "give it objective mlm" if masked else "mlm is for sources of `kind: masked`"
            raise UserError(
                f"strategies.{strategy}.phases[{number}].objective: {phase['objective']} does not "
                f"fit source '{source}', a {config['sources'][source]['kind']} language model; "
                f"{way}, or put the source in a block of cells of its own"
            )


def _check_task(config: Mapping[str, Any], source: str, task: str) -> None:
    kind, masked = config["tasks"][task]["kind"], config["sources"][source]["kind"] == MASKED
    if task_kind(kind).fine_tunes != masked:
        raise UserError(
            f"config.run_tasks.{task}: kind '{kind}' does not fit source '{source}', a "
            f"{config['sources'][source]['kind']} language model; name the sources that the task "
            f"is for: `{task}: {{sources: […]}}`"
        )
