"""What a schema cannot check of a study: that every name, text and file is there.

Plain Python: the Snakefile is parsed again in every job.
"""

from pathlib import Path
from typing import Any

from lexigraft.corpus.local_files import check_files
from lexigraft.errors import UserError, unknown
from lexigraft.evaluation.task_kinds import kinds, kinds_with, prompts_of, task_kind
from lexigraft.initialization.registry import initializer, methods, needed_roles
from lexigraft.training.settings import of_new_vocabulary, read_strategy
from workflow.asked_tasks import check_asked_tasks, check_local_asked
from workflow.auxiliary_checks import (
    check_auxiliary_files,
    check_dictionaries,
    check_helper_models,
    check_word_vector_files,
)
from workflow.benchmarks import check_benchmarks
from workflow.encoder_tasks import check_encoder_tasks, check_local_examples
from workflow.fragmentation_checks import (
    check_fragmentation,
    check_tokenizer_folders,
    languages_measured,
)
from workflow.group_checks import check_group, members
from workflow.sample_checks import check_local_samples, check_samples
from workflow.teachers import check_teachers, teachers
from workflow.tested import check_tested, languages_named, tested_language
from workflow.vocabulary_checks import check_plms, check_tokenizers

# Not registry entries: what "nothing was changed here" is called on each axis.
SOURCE_VOCABULARY = "source"
NO_INITIALIZER = "none"
NO_STRATEGY = "none"


def check_study(study: dict[str, Any]) -> None:
    """Check that each cell and each task of a study with defaults has all that it needs.

    Raises
    ------
    UserError
        Naming the first key that is wrong, what is wrong with it, and what to do.
    """
    for number, block in enumerate(study["cells"]):
        _check_cells(study, block, f"config.cells[{number}]")
    for name in study["run_tasks"]:
        _require(name, list(study["tasks"]), "config.run_tasks")
        _require(study["tasks"][name]["kind"], kinds(), f"tasks.{name}.kind")
        _check_engine(name, study["tasks"][name])
        _check_learned_metrics(study, name)
    for name in sorted(_used(study, "initializers") - {NO_INITIALIZER}):
        _check_initializer(name, study["initializers"][name], list(study["auxiliary"]))
    for name in sorted(_used(study, "strategies")):
        _check_strategy(name, study["strategies"][name])
    _check_packages(study)
    check_tested(study)
    check_fragmentation(study)
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
    check_encoder_tasks(study)
    check_asked_tasks(study)
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
    check_local_asked(study)
    check_tokenizers(study)
    check_tokenizer_folders(study)
    for name in sorted(_used(study, "sources") | teachers(study)):
        folder = study["sources"][name].get("folder")
        if folder is not None and not (Path(folder) / "config.json").is_file():
            raise UserError(
                f"sources.{name}.folder: {folder} holds no config.json; "
                "name a folder in Hugging Face layout"
            )
    check_auxiliary_files(study)


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
        return  # of its own, see `asked_tasks`
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


def _check_initializer(name: str, entry: dict[str, Any], auxiliaries: list[str]) -> None:
    _require(entry["method"], methods(), f"initializers.{name}.method")
    _check_roles(name, entry, auxiliaries)
    if entry["options"]:
        # Only then: making an initializer imports numpy, and the Snakefile is to stay light.
        try:
            initializer(entry["method"], **entry["options"])
        except UserError as error:
            raise UserError(f"initializers.{name}.options: {error}") from None


def _check_roles(name: str, entry: dict[str, Any], auxiliaries: list[str]) -> None:
    """An initializer names what its method reads, each in its role, and nothing else."""
    where, needed = f"initializers.{name}.auxiliary", needed_roles(entry["method"])
    for role, auxiliary in entry["auxiliary"].items():
        if role not in needed:
            reads = f"reads {', '.join(needed)}" if needed else "reads no auxiliary"
            raise UserError(f"{where}: role '{role}', but method '{entry['method']}' {reads}")
        at = where if role == "target" else f"{where}.{role}"
        _require(auxiliary, auxiliaries, at)
    for role in needed:
        if role not in entry["auxiliary"]:
            raise UserError(
                f"{where}: none in the role '{role}', which method '{entry['method']}' reads; name "
                f"an entry of auxiliary.yaml: {{{', '.join(f'{need}: …' for need in needed)}}}"
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


def _check_strategy(name: str, entry: dict[str, Any]) -> None:
    """What a schema cannot say, such as that the shares of the phases add up to one."""
    try:
        read_strategy(entry)
    except UserError as error:
        raise UserError(f"strategies.{name}: {error}") from None


def _used(study: dict[str, Any], axis: str) -> set[str]:
    return {name for block in study["cells"] for name in block[axis]}


def _require(name: str, known: list[str], where: str) -> None:
    if name not in known:
        raise unknown(where, name, known)
