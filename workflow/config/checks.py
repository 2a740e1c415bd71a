"""What entries say of each other: that every name, text and file of a study is there.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.cells import NO_INITIALIZER, SOURCE_VOCABULARY
from lexigraft.corpus.local_files import check_files
from lexigraft.errors import UserError, unknown
from lexigraft.evaluation.task_kinds import kinds, kinds_with, prompts_of, task_kind
from lexigraft.source.kind import MASKED
from lexigraft.training.registry import objective, objectives
from lexigraft.training.settings import of_new_vocabulary
from workflow.config.initializer_data import (
    check_auxiliary_files,
    check_dictionaries,
    check_helper_models,
    check_initializer,
    check_plms,
    check_tokenizers,
    check_word_vector_files,
)
from workflow.config.task_data import (
    check_benchmarks,
    check_examples,
    check_local_examples,
    check_tested,
    languages_named,
    tested_language,
)
from workflow.config.training_data import (
    check_group,
    check_local_samples,
    check_samples,
    check_teachers,
    members,
    teachers,
)

NO_STRATEGY = "none"  # not a registry entry either


def check_study(study: dict[str, Any]) -> None:
    """Check that each cell and each task of a study with defaults has all that it needs.

    Raises
    ------
    UserError
        Naming the first key that is wrong, what is wrong with it, and what to do.
    """
    for number, block in enumerate(study["cells"]):
        _check_cells(study, block, f"config.cells[{number}]")
    untrained = sorted(
        name for name in _used(study, "strategies") if not study["strategies"][name]["phases"]
    )
    if len(untrained) > 1:
        raise UserError(
            f"config.cells: strategies {' and '.join(untrained)} train nothing, and the report "
            "shows one such model of each kind; use one of them in all cells"
        )
    for name in study["run_tasks"]:
        _require(name, list(study["tasks"]), "config.run_tasks")
        _require(study["tasks"][name]["kind"], kinds(), f"tasks.{name}.kind")
        _check_engine(name, study["tasks"][name])
        _check_learned_metrics(study, name)
    for name in sorted(_used(study, "initializers") - {NO_INITIALIZER}):
        check_initializer(name, study["initializers"][name], list(study["auxiliary"]))
    _check_packages(study)
    check_tested(study)
    _check_fragmentation(study)
    read = languages_named(study) | languages_measured(study)
    for language in sorted(_used(study, "languages") | read):
        check_group(study, language)
        for member in members(study, language):
            _check_texts(member, study["languages"][member])
    for language in sorted(_used(study, "languages")):
        for task, wanted in study["run_tasks"].items():
            if wanted["languages"] is not None and language not in wanted["languages"]:
                continue
            tested = tested_language(study, task, language)
            texts = study["languages"][tested]
            _check_texts_of_task(task, study["tasks"][task], tested, texts)
    check_teachers(study)
    _check_kinds_of_sources(study)
    check_examples(study)
    check_benchmarks(study)
    check_samples(study)
    check_plms(study)
    check_word_vector_files(study)
    check_helper_models(study)
    check_dictionaries(study)


def check_local_files(study: dict[str, Any]) -> None:
    """Check that local files and folders which a resolved study will read exist.

    Raises
    ------
    UserError
        Naming the key and the path of the first one that is missing.
    """
    read = languages_named(study) | languages_measured(study)
    languages = sorted(_used(study, "languages") | read)
    for name in dict.fromkeys(name for group in languages for name in members(study, group)):
        check_files(study["languages"][name], f"languages.{name}")
    check_local_samples(study)
    check_local_examples(study)
    check_tokenizers(study)
    _check_tokenizer_folders(study)
    for name in sorted(_used(study, "sources") | teachers(study)):
        folder = study["sources"][name].get("folder")
        if folder is not None and not (Path(folder) / "config.json").is_file():
            raise UserError(
                f"sources.{name}.folder: {folder} holds no config.json; "
                "name a folder in Hugging Face layout"
            )
    check_auxiliary_files(study)


def languages_measured(study: dict[str, Any]) -> set[str]:
    """Languages whose text these tokenizers cut."""
    return set(study["fragmentation"]["languages"])


def _check_cells(study: dict[str, Any], block: dict[str, Any], where: str) -> None:
    axes = {
        "sources": [],
        "languages": [],
        "vocabularies": [SOURCE_VOCABULARY],
        "initializers": [NO_INITIALIZER],
        "strategies": [NO_STRATEGY],
    }
    for axis, reserved in axes.items():
        for name in block[axis]:
            _require(name, [*study[axis], *reserved], f"{where}.{axis}")
    adapted = [name for name in block["vocabularies"] if name != SOURCE_VOCABULARY]
    if bool(adapted) == (NO_INITIALIZER in block["initializers"]) or (
        len(adapted) not in (0, len(block["vocabularies"]))
    ):
        raise UserError(
            f"{where}: vocabulary 'source' goes with initializer 'none' and no other vocabulary "
            "does; put the baselines in a block of their own"
        )
    for name in block["strategies"]:
        trained = of_new_vocabulary(study["strategies"].get(name, {"phases": []}))
        if trained and not adapted:
            raise UserError(
                f"{where}.strategies: '{name}' trains '{trained[0]}', for which there must be a "
                "new vocabulary; give the baselines another strategy"
            )


def _check_packages(study: dict[str, Any]) -> None:
    for kind, key in (("languages", "text"), ("languages", "parallel"), ("sources", None)):
        for name, entry in study[kind].items():
            spec = entry.get(key) if key else entry
            if isinstance(spec, dict) and "package" in spec:
                where = f"{kind}.{name}" + (f".{key}" if key else "")
                _require(spec["package"], list(study["packages"]), f"{where}.package")
    if package := (study["alignment"]["encoder"] or {}).get("package"):
        _require(package, list(study["packages"]), "config.alignment.encoder.package")


def _check_texts(language: str, texts: dict[str, Any]) -> None:
    specs = [texts[key] for key in ("text", "parallel", "english")]
    packages = sorted({spec["package"] for spec in specs if spec and "package" in spec})
    if len(packages) > 1:
        raise UserError(
            f"languages.{language}: text, parallel and english come from the packages "
            f"{' and '.join(packages)}; only one can be read, so put the other's text in a file"
        )
    if texts["parallel"] is None and texts["english"] is None:
        raise UserError(
            f"languages.{language}.english: missing, and there is no parallel text to take "
            "English from; name an English text, so that it is seen what English loses"
        )


def _check_texts_of_task(
    task: str, settings: dict[str, Any], language: str, texts: dict[str, Any]
) -> None:
    kind = task_kind(settings["kind"])
    if kind.tests == "test_sets":
        return  # of its own, see `check_examples`
    prompted, own = prompts_of(settings), "test" in settings.get("examples", {})
    if "prompts_from" in settings and prompted not in kinds_with("language_texts"):
        known = ", ".join(kinds_with("language_texts"))
        raise UserError(f"tasks.{task}.prompts_from: '{prompted}' is not one of {known}")
    if kind.generates and "group" in texts:
        raise UserError(
            f"languages.{language}: a group, but task '{task}' tests one language; leave the task "
            f"out of run_tasks, or name a member in tasks.{task}.language"
        )
    if settings["kind"] == "translation" and not own and texts["parallel"] is None:
        raise UserError(
            f"languages.{language}.parallel: missing, but task '{task}' translates; "
            "name a parallel text or leave the task out of run_tasks"
        )
    if prompted == "summarization" and not own and texts["summarization"] is None:
        raise UserError(
            f"languages.{language}.summarization: missing, but task '{task}' summarizes; "
            "name articles with summaries or leave the task out of run_tasks"
        )


def _check_engine(name: str, entry: dict[str, Any]) -> None:
    if "engine" in entry and not task_kind(entry["kind"]).generates:
        raise UserError(
            f"tasks.{name}.engine: only tasks of kind {', '.join(kinds_with('generates'))} have a "
            f"choice; leave it out of this one, which is of kind '{entry['kind']}'"
        )
    if entry.get("engine") == "vllm" and entry.get("beams", 1) > 1:
        raise UserError(
            f"tasks.{name}.beams: vLLM is greedy here; set beams to 1, or take engine out"
        )


def _check_learned_metrics(study: dict[str, Any], task: str) -> None:
    wanted = study["run_tasks"][task]["learned_metrics"]
    where = f"config.run_tasks.{task}.learned_metrics"
    for name in wanted:
        _require(name, list(study["metrics"]), where)
    if wanted and not task_kind(study["tasks"][task]["kind"]).scored_by_learned_metrics:
        raise UserError(
            f"{where}: task '{task}' writes no predictions to score; only tasks of kind "
            f"{' or '.join(kinds_with('scored_by_learned_metrics'))} do"
        )
    shown = [study["metrics"][name]["metric"] for name in wanted]
    if len(set(shown)) < len(shown):
        raise UserError(
            f"{where}: {' and '.join(wanted)} would be one column of the report; give each a "
            "`metric` of its own"
        )


def _check_kinds_of_sources(study: dict[str, Any]) -> None:
    """Strategies and tasks fit what the source models of their cells predict."""
    for block in study["cells"]:
        for source in block["sources"]:
            for strategy in block["strategies"]:
                _check_objectives(study, source, strategy)
            for task, wanted in study["run_tasks"].items():
                if wanted["sources"] is None or source in wanted["sources"]:
                    _check_kind(study, source, task)


def _check_objectives(config: Mapping[str, Any], source: str, strategy: str) -> None:
    kind = config["sources"][source]["kind"]
    for number, phase in enumerate(config["strategies"][strategy]["phases"]):
        if objective(phase["objective"]).model_kind != kind:
            fitting = [name for name in objectives() if objective(name).model_kind == kind]
            raise UserError(
                f"strategies.{strategy}.phases[{number}].objective: {phase['objective']} does not "
                f"fit source '{source}', a {kind} language model; give it objective "
                f"{' or '.join(fitting)}, or put the source in a block of cells of its own"
            )


def _check_kind(config: Mapping[str, Any], source: str, task: str) -> None:
    kind, masked = config["tasks"][task]["kind"], config["sources"][source]["kind"] == MASKED
    if task_kind(kind).fine_tunes != masked:
        raise UserError(
            f"config.run_tasks.{task}: kind '{kind}' does not fit source '{source}', a "
            f"{config['sources'][source]['kind']} language model; name the sources that the task "
            f"is for: `{task}: {{sources: […]}}`"
        )


def _check_fragmentation(study: dict[str, Any]) -> None:
    """Check that tokenizers and languages are there, and that each is one language."""
    wanted = study["fragmentation"]
    for axis in ("tokenizers", "languages"):
        for name in wanted[axis]:
            if name not in study[axis]:
                raise unknown(f"config.fragmentation.{axis}", name, study[axis])
    for name in wanted["tokenizers"]:
        package = study["tokenizers"][name].get("package")
        if package is not None and package not in study["packages"]:
            raise unknown(f"tokenizers.{name}.package", package, study["packages"])
    for name in wanted["languages"]:
        if "group" in study["languages"][name]:
            raise UserError(
                f"config.fragmentation.languages: '{name}' is a group; name its members"
            )


def _check_tokenizer_folders(study: dict[str, Any]) -> None:
    """Check that tokenizers in local folders are there."""
    for name in study["fragmentation"]["tokenizers"]:
        folder = study["tokenizers"][name].get("folder")
        if folder is None:
            continue
        files = (Path(folder).expanduser() / file for file in ("tokenizer.json", "source.json"))
        if not any(file.is_file() for file in files):
            raise UserError(
                f"tokenizers.{name}.folder: {folder} holds no tokenizer.json; name a folder with a "
                "fast tokenizer"
            )


def _used(study: dict[str, Any], axis: str) -> set[str]:
    return {name for block in study["cells"] for name in block[axis]}


def _require(name: str, known: list[str], where: str) -> None:
    if name not in known:
        raise unknown(where, name, known)
