"""Checks across entries: every name, text and file that a study refers to exists.

Each check raises a `UserError` that names the first wrong key and explains how to correct it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lexigraft.artifacts.cards import MODEL_FILES, folder_of
from lexigraft.cells import NO_INITIALIZER, SOURCE_VOCABULARY
from lexigraft.corpus.local_files import check_files, local_paths
from lexigraft.errors import UserError, unknown
from lexigraft.evaluation.task_kinds import kinds, kinds_with, prompts_of, task_kind
from lexigraft.setting_types import MASKED
from lexigraft.settings import validate
from lexigraft.training.registry import objective, objectives
from lexigraft.training.settings import check_optimizer, of_new_vocabulary
from workflow.config.initializer_data import (
    MODEL,
    TOKENIZER,
    auxiliary_corpora,
    check_folder,
    check_initializer,
    check_needed_files,
    check_needs,
)
from workflow.config.task_data import (
    check_benchmarks,
    check_examples,
    check_local_examples,
    check_prompts,
    check_tested,
    tested_language,
)
from workflow.config.tasks import Task
from workflow.config.training_data import (
    check_group,
    check_local_samples,
    check_samples,
    check_teachers,
    members,
    teachers,
    training_gpus,
    used,
)

# Names that a block of cells may use in addition to the entries of each registry.
_RESERVED = {"vocabularies": [SOURCE_VOCABULARY], "initializers": [NO_INITIALIZER]}
# Key of a language -> what tasks do with its texts, and what the key should name.
_TASK_TEXTS = {
    "parallel": ("translates text", "a parallel text"),
    "summarization": ("summarizes articles", "articles with summaries"),
}


def check_study(study: dict[str, Any]) -> None:
    """Check that each cell and task of a study (with defaults) has everything that it needs."""
    for number, block in enumerate(study["cells"]):
        _check_cells(study, block, f"config.cells[{number}]")
    strategies = sorted(used(study, "strategies"))
    untrained = [name for name in strategies if not study["strategies"][name]["phases"]]
    if len(untrained) > 1:
        raise UserError(
            f"config.cells: strategies {' and '.join(untrained)} train nothing, and the report "
            "shows only one such model of each kind; use the same one in all cells"
        )
    _check_aliases(study)
    for name in study["run_tasks"]:
        _require(name, study["tasks"], "config.run_tasks")
        _require(study["tasks"][name]["kind"], kinds(), f"tasks.{name}.kind")
        _check_own_settings(name, study["tasks"][name])
        _check_engine(name, study["tasks"][name])
        _check_learned_metrics(study, name)
    for name in sorted({*used(study, "vocabularies")} - {SOURCE_VOCABULARY}):
        if text := study["vocabularies"][name].get("corpus"):
            _require(text, study["languages"], f"vocabularies.{name}.corpus")
    for name in sorted({*used(study, "initializers")} - {NO_INITIALIZER}):
        check_initializer(name, study["initializers"][name], list(study["auxiliary"]))
    for name, text in auxiliary_corpora(study).items():
        _require(text, study["languages"], f"auxiliary.{name}.corpus")
    _check_packages(study)
    check_tested(study)
    _check_fragmentation(study)
    for language in languages_read(study):
        check_group(study, language)
        for member in members(study, language):
            _check_texts(member, study["languages"][member])
    for task in study["run_tasks"]:
        for language in used(study, "languages", task=task):
            _check_texts_of_task(study, task, tested_language(study, task, language))
    check_teachers(study)
    _check_kinds_of_sources(study)
    _check_tokenizers_of_sources(study)
    check_examples(study)
    check_prompts(study)
    check_benchmarks(study)
    check_samples(study)
    check_needs(study)


def check_local_files(study: dict[str, Any]) -> None:
    """Check that the local files, folders and packages that a resolved study reads exist."""
    for source, strategy in used(study, "sources", "strategies"):
        gpus, _, sharded = training_gpus(study, source, strategy)
        check_optimizer(
            study["strategies"][strategy],
            sharded and gpus > 1,
            f"strategies.{strategy}",
            offload=gpus == 1 and study["machine"].get("offload", False),
        )
    for name in _single_languages(study):
        check_files(study["languages"][name], f"languages.{name}")
    check_local_samples(study)
    check_local_examples(study)
    for name in study["fragmentation"]["tokenizers"]:
        if folder := study["tokenizers"][name].get("folder"):
            check_folder(folder, f"tokenizers.{name}.folder", TOKENIZER, "source.json")
    for name in _sources_read(study):
        if folder := study["sources"][name].get("folder"):
            check_folder(folder, f"sources.{name}.folder", MODEL)
    check_needed_files(study)
    read = [study["languages"][name] for name in _single_languages(study)]
    read += [study["tasks"][name] for name in study["run_tasks"]]
    folders = [folder_of(path) for path in local_paths(read) if not path.endswith(MODEL_FILES)]
    check_results_apart(folders, study["results"])


def check_results_apart(inputs: Iterable[str | Path], results: str | Path) -> None:
    """Check that no folder of inputs contains the results, which would be read as inputs too."""
    for folder in inputs:
        if Path(results).resolve().is_relative_to(Path(folder).resolve()):
            raise UserError(
                f"{folder}: the folder contains the results folder {results}, whose files would be "
                "read as well; choose a results folder elsewhere (`results`, or `--out` of "
                "lexigraft adapt), or move what is read to a folder of its own"
            )


def languages_read(study: dict[str, Any]) -> list[str]:
    """Languages and groups whose texts a study reads, for cells, tasks, tokenizers and vectors."""
    measured = study["fragmentation"]["languages"]
    vocabularies = (study["vocabularies"].get(name, {}) for name in used(study, "vocabularies"))
    learned = (entry["corpus"] for entry in vocabularies if "corpus" in entry)
    own = used(study, "languages")
    tested = (tested_language(study, task, name) for task in study["run_tasks"] for name in own)
    vectors = auxiliary_corpora(study).values()
    return sorted({*own, *tested, *measured, *vectors, *learned})


def _sources_read(study: dict[str, Any]) -> list[str]:
    """The source models that a study reads: those of cells, teachers, and `tokenizer_of` both."""
    names = {*used(study, "sources")} | teachers(study)
    others = {study["sources"][name].get("tokenizer_of") for name in names}
    return sorted(names.union(filter(None, others)))


def _single_languages(study: dict[str, Any]) -> list[str]:
    """The languages whose texts a study reads, with groups replaced by their members."""
    languages = (name for group in languages_read(study) for name in members(study, group))
    return list(dict.fromkeys(languages))


def _check_aliases(study: dict[str, Any]) -> None:
    """Check that aliases name deterministic initializers, and that none refers to an alias."""
    for number, alias in enumerate(study["aliases"]):
        where, name, other = f"config.aliases[{number}]", alias["initializer"], alias["same_as"]
        for key in ("initializer", "same_as"):
            _require(alias[key], study["initializers"], f"{where}.{key}")
            if study["initializers"][alias[key]]["draws"]:
                raise UserError(
                    f"{where}.{key}: '{alias[key]}' draws random numbers, so no other initializer "
                    "produces the same rows; remove the alias"
                )
        for source in alias["sources"] or ():
            _require(source, study["sources"], f"{where}.sources")
        for vocabulary in alias["vocabularies"]:
            _require(vocabulary, study["vocabularies"], f"{where}.vocabularies")
            if any(
                other == one["initializer"] and vocabulary in one["vocabularies"]
                for one in study["aliases"]
            ):
                raise UserError(
                    f"{where}.same_as: '{other}' is itself an alias for vocabulary '{vocabulary}'; "
                    "specify the initializer whose cells are computed"
                )
        for task, run in study["run_tasks"].items():
            if (
                run["initializers"]
                and name in run["initializers"]
                and other not in run["initializers"]
            ):
                raise UserError(
                    f"config.run_tasks.{task}.initializers: '{name}' is an alias of '{other}', "
                    f"whose cells are computed; list '{other}' as well"
                )


def _check_cells(study: dict[str, Any], block: dict[str, Any], where: str) -> None:
    for axis in ("sources", "languages", *_RESERVED, "strategies"):
        for name in block[axis]:
            _require(name, [*study[axis], *_RESERVED.get(axis, ())], f"{where}.{axis}")
    adapted = [name for name in block["vocabularies"] if name != SOURCE_VOCABULARY]
    if bool(adapted) == (NO_INITIALIZER in block["initializers"]) or (
        len(adapted) not in (0, len(block["vocabularies"]))
    ):
        raise UserError(
            f"{where}: vocabulary 'source' and initializer 'none' can only be combined with each "
            "other; put the baselines in a separate block"
        )
    for name in block["strategies"]:
        trained = of_new_vocabulary(study["strategies"][name])
        if trained and not adapted:
            raise UserError(
                f"{where}.strategies: '{name}' trains '{trained[0]}', which requires a new "
                "vocabulary; use another strategy for the baselines"
            )


def _check_packages(study: dict[str, Any]) -> None:
    texts = {
        f"languages.{name}.{key}": entry.get(key)
        for key in ("text", "parallel", "english")
        for name, entry in study["languages"].items()
    }
    places = {
        f"{kind}.{name}": entry
        for kind in ("sources", "tokenizers", "auxiliary")
        for name, entry in study[kind].items()
    }
    own = {
        "config.alignment.encoder": study["alignment"]["encoder"],
        "config.report.fonts": study["report"]["fonts"],
    }
    for where, entry in (texts | places | own).items():
        if entry and entry.get("package"):
            _require(entry["package"], study["packages"], f"{where}.package")


def _check_texts(language: str, texts: dict[str, Any]) -> None:
    specs = [texts[key] for key in ("text", "parallel", "english")]
    packages = sorted({spec["package"] for spec in specs if spec and "package" in spec})
    if len(packages) > 1:
        raise UserError(
            f"languages.{language}: text, parallel and english come from different packages, "
            f"{' and '.join(packages)}, but only one can be read; put the other text in a file"
        )
    if texts["parallel"] is None and texts["english"] is None:
        raise UserError(
            f"languages.{language}.english: missing, and there is no parallel text to take "
            "English from; specify an English text to measure the effect on English"
        )


def _check_texts_of_task(study: dict[str, Any], task: str, language: str) -> None:
    settings, texts = study["tasks"][task], study["languages"][language]
    kind, prompted = task_kind(settings["kind"]), prompts_of(settings)
    if kind.tests == "test_sets":
        return  # it has its own, see `check_examples`
    if kind.generates and "group" in texts:
        raise UserError(
            f"languages.{language}: is a group, but task '{task}' tests one language; leave the "
            f"task out of run_tasks, or specify a member in tasks.{task}.language"
        )
    tests = kind.corpus_tests or (prompted and task_kind(prompted).corpus_tests)
    key = tests and tests.key
    if kind.corpus_tests is None and key == "parallel":
        return  # without pairs, its prompts are held-out sentences
    if key and texts[key] is None and "test" not in settings.get("examples", {}):
        does, name = _TASK_TEXTS[key]
        raise UserError(
            f"languages.{language}.{key}: missing, but task '{task}' {does}; specify {name}, or "
            "remove the task from run_tasks"
        )


def _check_own_settings(name: str, entry: dict[str, Any]) -> None:
    own = {key: value for key, value in entry.items() if key not in Task.model_fields}
    validate(task_kind(entry["kind"]).settings, own, f"tasks.{name}")


def _check_engine(name: str, entry: dict[str, Any]) -> None:
    if "engine" in entry and not task_kind(entry["kind"]).generates:
        raise UserError(
            f"tasks.{name}.engine: only tasks of kind {', '.join(kinds_with('generates'))} have "
            f"this key; remove it from this task, which is of kind '{entry['kind']}'"
        )
    if entry.get("engine") == "vllm" and entry.get("beams", 1) > 1:
        raise UserError(
            f"tasks.{name}.beams: vLLM only decodes greedily here; set beams to 1, or remove engine"
        )


def _check_learned_metrics(study: dict[str, Any], task: str) -> None:
    wanted = study["run_tasks"][task]["learned_metrics"]
    where = f"config.run_tasks.{task}.learned_metrics"
    for name in wanted:
        _require(name, study["metrics"], where)
    if wanted and not task_kind(study["tasks"][task]["kind"]).scored_by_learned_metrics:
        raise UserError(
            f"{where}: task '{task}' writes no predictions to score; only tasks of kind "
            f"{' or '.join(kinds_with('scored_by_learned_metrics'))} do"
        )
    if len({study["metrics"][name]["metric"] for name in wanted}) < len(wanted):
        raise UserError(
            f"{where}: {' and '.join(wanted)} would share one column of the report; give each a "
            "different `metric`"
        )


def _check_tokenizers_of_sources(study: dict[str, Any]) -> None:
    """Check that `tokenizer_of` names a source that has its own tokenizer."""
    for name in sorted({*used(study, "sources")} | teachers(study)):
        where, other = f"sources.{name}.tokenizer_of", study["sources"][name].get("tokenizer_of")
        if other is None:
            continue
        _require(other, study["sources"], where)
        if other == name or "tokenizer_of" in study["sources"][other]:
            raise UserError(
                f"{where}: '{other}' does not have its own tokenizer; specify a source that does"
            )


def _check_kinds_of_sources(study: dict[str, Any]) -> None:
    """Check that strategies and tasks fit the kind of the source models of their cells."""
    for source, strategy in used(study, "sources", "strategies"):
        predicts = study["sources"][source]["kind"]
        for number, phase in enumerate(study["strategies"][strategy]["phases"]):
            if objective(phase["objective"]).model_kind != predicts:
                fitting = [name for name in objectives() if objective(name).model_kind == predicts]
                raise UserError(
                    f"strategies.{strategy}.phases[{number}].objective: {phase['objective']} does "
                    f"not fit source '{source}', a {predicts} language model; use objective "
                    f"{' or '.join(fitting)}, or put the source in a separate block of cells"
                )
    for task in study["run_tasks"]:
        for source in used(study, "sources", task=task):
            predicts, kind = study["sources"][source]["kind"], study["tasks"][task]["kind"]
            if task_kind(kind).fine_tunes != (predicts == MASKED):
                raise UserError(
                    f"config.run_tasks.{task}: kind '{kind}' does not fit source '{source}', a "
                    f"{predicts} language model; list the sources that the task is for: "
                    f"`{task}: {{sources: […]}}`"
                )


def _check_fragmentation(study: dict[str, Any]) -> None:
    """Check that the tokenizers and languages exist, and that no language is a group."""
    wanted = study["fragmentation"]
    for axis in ("tokenizers", "languages"):
        for name in wanted[axis]:
            _require(name, study[axis], f"config.fragmentation.{axis}")
    for name in wanted["languages"]:
        if "group" in study["languages"][name]:
            raise UserError(
                f"config.fragmentation.languages: '{name}' is a group; list its members"
            )


def _require(name: str, known: Any, where: str) -> None:
    if name not in known:
        raise unknown(where, name, known)
