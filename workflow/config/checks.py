"""Checks across entries: every name, text and file that a study refers to exists.

Each check raises a `UserError` that names the first wrong key and explains how to correct it.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lexigraft.artifacts.cards import MODEL_FILES, folder_of
from lexigraft.auxiliary.kinds.plm import ModelEmbeddings
from lexigraft.auxiliary.kinds.word_vectors import WordVectors
from lexigraft.auxiliary.language_files import check_word_vectors, word_vector_files
from lexigraft.cells import NO_INITIALIZER, SOURCE_VOCABULARY
from lexigraft.corpus.local_files import check_file, check_files, local_paths
from lexigraft.corpus.mixture import check_shares
from lexigraft.errors import UserError, suggestion, unknown
from lexigraft.evaluation.task_kinds import kinds, kinds_with, task_kind
from lexigraft.initialization import registry
from lexigraft.installation import PIPELINE
from lexigraft.setting_types import MASKED
from lexigraft.settings import plain
from lexigraft.source.hub_check import is_folder
from lexigraft.source.positions import POSITIONS
from lexigraft.training.registry import objective, objectives
from lexigraft.yaml_files import read_yaml
from workflow.config.sources import SourceConfig
from workflow.config.vocabularies import TAKEN, ModelReplacement, TakenReplacement
from workflow.study import TEST_SETS, Study, codes_of, corpus_of

# Names that a block of cells may use in addition to the entries of each registry.
RESERVED = {"vocabularies": [SOURCE_VOCABULARY], "initializers": [NO_INITIALIZER]}
# Roles of a method that contain text instead of vectors -> the key of an entry for it, and the
# value to set. `samples` may also provide a dictionary, see `pairs_role`.
_TEXT_ROLES = {
    "dictionary": ("dictionary", "true"),
    "parallel": ("samples", "a name in the samples of its languages"),
}
# Keys for the location of a pair's quality, by loader.
_QUALITY = ("quality", "quality_column", "quality_field")
TOKENIZER, MODEL = "tokenizer.json", "config.json"
# File -> description of a folder that contains it.
_FOLDERS = {TOKENIZER: "with a fast tokenizer", MODEL: "in Hugging Face format"}


def check_study(study: Study) -> None:
    """Check that each cell and task of a study has everything that it needs."""
    for key, name, names in _references(study):
        if name not in names:
            raise unknown(key, name, names)
    _check_cells(study)
    _check_aliases(study)
    for task in study.run_tasks:
        _check_task(study, task)
    for name in sorted({*study.used("initializers")} - {NO_INITIALIZER}):
        _check_initializer(study, name)
    for name in study.used_auxiliaries():
        if corpus := corpus_of(study.auxiliary[name]):
            _require(f"auxiliary.{name}.corpus", corpus, study.languages)
    for task in study.run_tasks:
        _check_selection(study, task)
    for language in study.languages_read:
        _check_language(study, language)
    for task in study.run_tasks:
        for language in study.used("languages", task=task):
            _check_texts_of_task(study, task, study.tested_language(task, language))
    _check_teachers(study)
    _check_sources(study)
    _check_lengths(study)
    for task in study.run_tasks:
        _check_examples(study, task)
    _check_benchmarks(study)
    _check_samples(study)
    _check_needs(study)


def _check_lengths(study: Study) -> None:
    """Check that no strategy reads sequences for which a model has too few positions."""
    pairs = dict.fromkeys((cell.source, cell.strategy) for cell in study.cells)
    sources = dict.fromkeys(source for source, _ in pairs)
    positions_of = {name: known_positions(study.sources[name]) for name in sources}
    for source, strategy in pairs:
        positions = positions_of[source]
        for number, phase in enumerate(study.strategies[strategy].phases):
            if positions and phase.length > positions:
                raise UserError(
                    f"strategies.{strategy}.phases[{number}].length: {phase.length} tokens, but "
                    f"the model {source} has {positions} positions; lower it to {positions}"
                )


def known_positions(source: SourceConfig) -> int | None:
    """The number of positions of a model, if its entry or a config.json on this machine says it."""
    file: str | Path | object | None = None
    if source.folder:
        file = Path(folder_of(source.folder), MODEL).expanduser()
    elif source.hub:
        from huggingface_hub import try_to_load_from_cache

        file = try_to_load_from_cache(source.hub, MODEL, revision=source.revision)
    try:
        config = json.loads(Path(file).read_text(encoding="utf-8"))  # type: ignore[arg-type]
        config = config.get("text_config", config)
        named = (config[key] for key in POSITIONS if config.get(key, 0) > 0)
        return next(named, source.resources.positions)
    except (OSError, ValueError, TypeError, AttributeError):
        return source.resources.positions


def check_local_files(study: Study) -> None:
    """Check that the local files, folders and packages that a study reads exist."""
    for name in study.single_languages:
        check_files(plain(study.languages[name]), f"languages.{name}")
    for language, _, name in study.samples_read():
        for key, entry in _prompts(study, language, name):
            check_files(plain(entry), key)
    parts = {
        (task, part): None
        for task in study.run_tasks
        if study.tasks[task].examples
        for language in study.used("languages", task=task)
        for names in study.example_parts(task, language).values()
        for part in names.values()
    }
    for task, part in parts:
        text = study.example_settings(task, part)["text"]
        check_files({"text": text}, f"tasks.{task}.examples ({part})")
    for name in study.settings.fragmentation.tokenizers:
        if folder := study.tokenizers[name].folder:
            check_folder(folder, f"tokenizers.{name}.folder", TOKENIZER, "source.json")
    sources = {*study.used("sources")} | study.teachers()
    for name in sorted({study.sources[name].tokenizer_of or name for name in sources} | sources):
        if folder := study.sources[name].folder:
            check_folder(folder, f"sources.{name}.folder", MODEL)
    for name in study.used_auxiliaries():
        entry = study.auxiliary[name]
        entry.check(plain(entry), f"auxiliary.{name}")
    for key, path, file, _ in _needs(study):
        if file is None:
            (check_file if key.endswith("dictionary") else check_word_vectors)(path, key)
        elif is_folder(path):
            check_folder(path, key, file, instead=", or a hub name")
    texts = [study.languages[name] for name in study.single_languages]
    paths = local_paths(plain([*texts, *(study.tasks[name] for name in study.run_tasks)]))
    folders = [folder_of(path) for path in paths if not path.endswith(MODEL_FILES)]
    check_results_apart(folders, study.results)


def check_results_apart(inputs: Iterable[str | Path], results: str | Path) -> None:
    """Check that no folder of inputs contains the results, which would be read as inputs too."""
    for folder in inputs:
        if Path(results).resolve().is_relative_to(Path(folder).resolve()):
            raise UserError(
                f"{folder}: the folder contains the results folder {results}, whose files would be "
                "read as well; choose a results folder elsewhere (`results`, or `--out` of "
                "lexigraft adapt), or move what is read to a folder of its own"
            )


def check_folder(folder: str, where: str, *files: str, instead: str = "") -> None:
    """Check that a folder contains one of these files; the message describes the first."""
    if not any((Path(folder).expanduser() / name).is_file() for name in files):
        raise UserError(
            f"{where}: {folder} contains no {files[0]}; specify a folder {_FOLDERS[files[0]]}"
            f"{instead}"
        )


# ---- references and cells ----------------------------------------------------------------------


def _require(key: str, name: str, names: Collection[str], among: str = "known") -> None:
    if name not in names:
        raise unknown(key, name, names, among)


def _references(study: Study) -> Iterator[tuple[str, str, Collection[str]]]:
    """Key, name, and the names that exist, of references between entries.

    In the order of their checks: later references rely on earlier ones.
    """
    settings, entries = study.settings, study.entries
    for number, block in enumerate(settings.cells):
        for axis in ("sources", "languages", "vocabularies", "initializers", "strategies"):
            for name in getattr(block, axis):
                names = [*entries[axis], *RESERVED.get(axis, ())]
                yield f"config.cells[{number}].{axis}", name, names
    for number, alias in enumerate(settings.aliases):
        key = f"config.aliases[{number}]"
        yield f"{key}.initializer", alias.initializer, study.initializers
        yield f"{key}.same_as", alias.same_as, study.initializers
        for axis in ("sources", "vocabularies"):
            for name in getattr(alias, axis) or ():
                yield f"{key}.{axis}", name, entries[axis]
    for task, run in study.run_tasks.items():
        yield "config.run_tasks", task, study.tasks
        yield f"tasks.{task}.kind", study.tasks[task].kind, kinds()
        for name in run.learned_metrics:
            yield f"config.run_tasks.{task}.learned_metrics", name, study.metrics
    for name in sorted({*study.used("vocabularies")} - {SOURCE_VOCABULARY}):
        if corpus := corpus_of(study.vocabularies[name]):
            yield f"vocabularies.{name}.corpus", corpus, study.languages
    for axis in ("tokenizers", "languages"):
        for name in getattr(settings.fragmentation, axis):
            yield f"config.fragmentation.{axis}", name, entries[axis]
    packaged: dict[str, Any] = {
        f"languages.{name}.{key}": getattr(entry, key)
        for key in ("text", "parallel", "english")
        for name, entry in study.languages.items()
    }
    for kind in ("sources", "tokenizers", "auxiliary"):
        packaged |= {f"{kind}.{name}": entry for name, entry in entries[kind].items()}
    packaged["config.alignment.encoder"] = settings.alignment.encoder
    packaged["config.report.fonts"] = settings.report.fonts
    for key, entry in packaged.items():
        if package := getattr(entry, "package", None):
            yield f"{key}.package", package, study.packages


def _check_cells(study: Study) -> None:
    known = set(study.cells)
    for number, block in enumerate(study.settings.cells):
        adapted = [name for name in block.vocabularies if name != SOURCE_VOCABULARY]
        if bool(adapted) == (NO_INITIALIZER in block.initializers) or (
            len(adapted) not in (0, len(block.vocabularies))
        ):
            raise UserError(
                f"config.cells[{number}]: vocabulary 'source' and initializer 'none' can only be "
                "combined with each other; put the baselines in a separate block"
            )
        for name in () if adapted else block.strategies:
            if trained := study.strategies[name].parts_of_new_vocabulary:
                raise UserError(
                    f"config.cells[{number}].strategies: '{name}' trains '{trained[0]}', which "
                    "requires a new vocabulary; use another strategy for the baselines"
                )
    for cell in study.cells:
        names = [cell.strategy]
        while after := study.strategies[names[-1]].after:
            key, names = f"strategies.{names[-1]}.after", [*names, after]
            if replace(cell, strategy=after) not in known:
                raise UserError(
                    f"{key}: the study has no cell {replace(cell, strategy=after).path}; add "
                    f"'{after}' to the block of cells of '{cell.strategy}'"
                )
            if names.index(after) < len(names) - 1:
                raise UserError(f"{key}: {' -> '.join(names)} is circular; remove one of them")
    strategies = sorted(study.used("strategies"))
    untrained = [name for name in strategies if not study.strategies[name].phases]
    if len(untrained) > 1:
        raise UserError(
            f"config.cells: strategies {' and '.join(untrained)} train nothing, and the report "
            "shows only one such model of each kind; use the same one in all cells"
        )


def _check_aliases(study: Study) -> None:
    """Check that aliases name deterministic initializers, and that none refers to an alias."""
    aliases = study.settings.aliases
    for number, alias in enumerate(aliases):
        key, name, original = f"config.aliases[{number}]", alias.initializer, alias.same_as
        for role, initializer in (("initializer", name), ("same_as", original)):
            if study.initializers[initializer].draws:
                raise UserError(
                    f"{key}.{role}: '{initializer}' draws random numbers, so no other initializer "
                    "produces the same rows; remove the alias"
                )
        for vocabulary in alias.vocabularies:
            if any(
                original == other.initializer and vocabulary in other.vocabularies
                for other in aliases
            ):
                raise UserError(
                    f"{key}.same_as: '{original}' is itself an alias for vocabulary "
                    f"'{vocabulary}'; specify the initializer whose cells are computed"
                )
        for task, run in study.run_tasks.items():
            names = run.initializers or ()
            if name in names and original not in names:
                raise UserError(
                    f"config.run_tasks.{task}.initializers: '{name}' is an alias of '{original}', "
                    f"whose cells are computed; list '{original}' as well"
                )


def _check_sources(study: Study) -> None:
    """Check that strategies and tasks fit the kind of the models, and `tokenizer_of`."""
    for source, strategy in study.used("sources", "strategies"):
        predicts = study.sources[source].kind
        for number, phase in enumerate(study.strategies[strategy].phases):
            if objective(phase.objective).model_kind != predicts:
                fitting = [name for name in objectives() if objective(name).model_kind == predicts]
                raise UserError(
                    f"strategies.{strategy}.phases[{number}].objective: {phase.objective} does "
                    f"not fit source '{source}', a {predicts} language model; use objective "
                    f"{' or '.join(fitting)}, or put the source in a separate block of cells"
                )
            if predicts == MASKED and "adapter" in phase.trainable:
                raise UserError(
                    f"strategies.{strategy}.phases[{number}].trainable: an adapter is for causal "
                    "models; for an encoder, train embeddings and head themselves"
                )
    for task in study.run_tasks:
        for source in study.used("sources", task=task):
            predicts = study.sources[source].kind
            if study.task_kind(task).fine_tunes != (predicts == MASKED):
                raise UserError(
                    f"config.run_tasks.{task}: kind '{study.tasks[task].kind}' does not fit "
                    f"source '{source}', a {predicts} language model; list the sources that the "
                    f"task is for: `{task}: {{sources: […]}}`"
                )
    for name in sorted({*study.used("sources")} | study.teachers()):
        key, other = f"sources.{name}.tokenizer_of", study.sources[name].tokenizer_of
        if other is None:
            continue
        _require(key, other, study.sources)
        if other == name or study.sources[other].tokenizer_of:
            raise UserError(
                f"{key}: '{other}' does not have its own tokenizer; specify a source that does"
            )


# ---- tasks -------------------------------------------------------------------------------------


def _check_task(study: Study, task: str) -> None:
    """Check the settings of a task, its prompt, and the metrics that score its predictions."""
    entry, kind, settings = study.tasks[task], study.task_kind(task), study.task_settings(task)
    if entry.engine and not kind.generates:
        raise UserError(
            f"tasks.{task}.engine: only tasks of kind {', '.join(kinds_with('generates'))} have "
            f"this key; remove it from this task, which is of kind '{entry.kind}'"
        )
    if entry.engine == "vllm" and getattr(settings, "beams", 1) > 1:
        raise UserError(
            f"tasks.{task}.beams: vLLM only decodes greedily here; set beams to 1, or remove engine"
        )
    if entry.examples and not (kind.fine_tunes or kind.generates):
        raise UserError(
            f"tasks.{task}.examples: tasks of kind '{entry.kind}' do not use examples; remove them"
        )
    prompt = getattr(settings, "prompt", None)
    if prompt is not None and kind.built_in_prompts:
        file = f"config/prompts/{kind.prompts}.yaml"
        prompts = [*kind.built_in_prompts, *_named_prompts(file)]
        _require(f"tasks.{task}.prompt", prompt, prompts, f"in {file}")
    metrics = study.run_tasks[task].learned_metrics
    key = f"config.run_tasks.{task}.learned_metrics"
    if metrics and not kind.corpus_tests:
        raise UserError(
            f"{key}: task '{task}' writes no predictions to score; only tasks of kind "
            f"{' or '.join(kinds_with('corpus_tests'))} do"
        )
    if len({study.metrics[name].metric for name in metrics}) < len(metrics):
        raise UserError(
            f"{key}: {' and '.join(metrics)} would share one column of the report; give each a "
            "different `metric`"
        )


@cache
def _named_prompts(file: str) -> list[str]:
    return list(read_yaml(PIPELINE / file)["named"])


def _check_selection(study: Study, task: str) -> None:
    """Check that a task is run on cells, and that the languages that it tests exist."""
    run, key = study.run_tasks[task], f"config.run_tasks.{task}"
    known = {
        "languages": study.used("languages"),
        "sources": study.sources,
        "initializers": [NO_INITIALIZER, *study.initializers],
        "strategies": study.strategies,
    }
    for axis, names in known.items():
        among = "used in any cell" if axis == "languages" else "known"
        for name in getattr(run, axis) or ():
            _require(f"{key}.{axis}", name, names, among)
    languages = study.used("languages", task=task)
    if not languages:
        raise UserError(
            f"{key}: no cell of the study matches all of its selections; correct them, or remove "
            "the task"
        )
    tested = study.tasks[task].language
    missing = [name for name in languages if isinstance(tested, Mapping) and name not in tested]
    if missing:
        raise UserError(
            f"tasks.{task}.language: has no entry for '{missing[0]}'; add one, or leave the "
            f"language out of {key}.languages"
        )
    for name in languages:
        _require(f"tasks.{task}.language", study.tested_language(task, name), study.languages)
    if run.checkpoints and not any(
        study.checkpoints(task, name) for name in study.used("strategies")
    ):
        raise UserError(
            f"{key}.checkpoints: no strategy of this study keeps checkpoints; set `checkpoints: "
            "5`, for example, in one of them"
        )


def _check_texts_of_task(study: Study, task: str, language: str) -> None:
    """Check that the corpus of a language has the tests that a task takes from it."""
    entry, texts, kind = study.tasks[task], study.languages[language], study.task_kind(task)
    if kind.tests == "test_sets":
        return  # it has its own, see `_check_examples`
    if kind.generates and texts.group:
        raise UserError(
            f"languages.{language}: is a group, but task '{task}' tests one language; leave the "
            f"task out of run_tasks, or specify a member in tasks.{task}.language"
        )
    tests = kind.corpus_tests or (entry.prompts and task_kind(entry.prompts).corpus_tests)
    key = tests and tests.key
    if kind.corpus_tests is None and key == "parallel":
        return  # without pairs, its prompts are held-out sentences
    if key and getattr(texts, key) is None and not getattr(entry.examples, "test", None):
        raise UserError(
            f"languages.{language}.{key}: missing, but task '{task}' reads it; specify it, or "
            "remove the task from run_tasks"
        )


def _check_examples(study: Study, task: str) -> None:
    """Check that a task has tests and examples for every language on which it is run."""
    examples = study.tasks[task].examples
    parts = {part: texts for part in TEST_SETS.values() if (texts := getattr(examples, part, None))}
    for language in study.used("languages", task=task):
        codes = study.tests(task, language)
        for part, texts in parts.items():
            known = codes_of(texts)
            for name in (name for name, code in codes.items() if code not in known):
                raise UserError(
                    f"tasks.{task}.examples.{part}: has no text in '{codes[name]}', the language "
                    f"of '{name}'; add one, or leave it out of config.run_tasks.{task}.languages"
                )
    if "shots" in parts and not getattr(study.task_settings(task), "shots", None):
        raise UserError(
            f"tasks.{task}.shots: missing, but examples.shots is set; specify how many of them "
            "precede a question"
        )


def _check_benchmarks(study: Study) -> None:
    """Check that tasks of the harness cover every language, and have one folder in all tasks."""
    first: dict[str, tuple[str, dict[str, Any]]] = {}
    for task, name, settings in study.benchmarks():
        first_task, first_settings = first.setdefault(name, (task, settings))
        if settings != first_settings:
            raise UserError(
                f"tasks.{task}: {settings['task']} has a different folder in task "
                f"'{first_task}'; use the same folder for both"
            )
    for task in dict.fromkeys(task for task, _ in first.values()):
        known = codes_of(study.tasks[task].harness)
        for language in study.used("languages", task=task):
            members = study.members(study.tested_language(task, language))
            # Tasks in English alone, such as IFEval, test every cell.
            if known != {"en"} and not known & {study.languages[name].code for name in members}:
                raise UserError(
                    f"tasks.{task}.harness: has no task in the language of '{language}'; leave it "
                    f"out of config.run_tasks.{task}.languages"
                )


# ---- languages and samples ---------------------------------------------------------------------


def _check_language(study: Study, language: str) -> None:
    """Check the members of a group, and that each language has a package and English text."""
    if group := study.languages[language].group:
        key = f"languages.{language}.group"
        for member in group.members:
            _require(f"{key}.members", member, study.languages)
            if study.languages[member].group:
                raise UserError(f"{key}.members: '{member}' is itself a group; list its members")
        try:
            check_shares(group.members, group.shares)
        except UserError as error:
            raise UserError(f"{key}.{error}") from None
        if language in study.settings.fragmentation.languages:
            raise UserError(
                f"config.fragmentation.languages: '{language}' is a group; list its members"
            )
    for member in study.members(language):
        entry = study.languages[member]
        texts = (entry.text, entry.parallel, entry.english)
        packages = sorted({name for text in texts if (name := getattr(text, "package", None))})
        if len(packages) > 1:
            raise UserError(
                f"languages.{member}: text, parallel and english come from different packages, "
                f"{' and '.join(packages)}, but only one can be read; put the other text in a file"
            )
        if entry.parallel is None and entry.english is None:
            raise UserError(
                f"languages.{member}.english: missing, and there is no parallel text to take "
                "English from; specify an English text to measure the effect on English"
            )


def _check_teachers(study: Study) -> None:
    """Check that every teacher of cells exists, and the prompts that it answers."""
    for name in sorted(study.used("strategies")):
        if (merge := study.strategies[name].merge) and merge.of:
            _require(f"strategies.{name}.merge.of", merge.of, study.sources)
        for phase in study.strategies[name].phases:
            if (teacher := phase.teacher()) is not None:
                key = f"strategies.{name}.phases: {phase.objective}.teacher"
                _require(key, teacher, study.sources)
    for language, name, entry in study.answered_samples():
        key, samples = f"languages.{language}.samples", study.languages[language].samples
        _require(f"{key}.{name}.teacher", entry.teacher, study.sources)
        prompts = [prompt for prompt in samples if samples[prompt].kind != entry.kind]
        _require(f"{key}.{name}.prompts", entry.prompts, prompts)
        for other, texts in study.languages.items():
            kind = texts.samples.get(name, entry).kind
            if kind != entry.kind:
                raise UserError(
                    f"{key}.{name}: contains a teacher's answers, but is of kind {kind} in "
                    f"languages.{other}; rename one of them"
                )


def _check_samples(study: Study) -> None:
    """Check that every language has the samples that its strategies and initializers read."""
    for language, reader, name in study.samples_read():
        samples = [study.languages[member].samples for member in study.members(language)]
        if not any(name in entries for entries in samples):
            names = sorted({key for entries in samples for key in entries})
            raise UserError(
                f"languages.{language}.samples: '{name}', which {reader}, is missing"
                f"{suggestion(name, names)}; add it, or leave the language out of these cells"
            )
        for key, entry in _prompts(study, language, name):
            if package := getattr(entry.text, "package", None):
                _require(f"{key}.text.package", package, study.packages)
            is_rated = any(getattr(entry.text, quality, None) for quality in _QUALITY)
            if getattr(entry, "minimum_quality", None) is not None and not is_rated:
                raise UserError(
                    f"{key}.minimum_quality: the text has no quality scores; specify where they "
                    f"are with one of {', '.join(_QUALITY)}, or remove this key"
                )


def _prompts(study: Study, language: str, name: str) -> Iterator[tuple[str, Any]]:
    """Key and settings of the entries that contain the prompts of samples.

    Answered samples have the prompts of another entry. For a group, those of each member that has
    some.
    """
    for member in study.members(language):
        samples = study.languages[member].samples
        if name in samples:
            prompts = getattr(samples[name], "prompts", name)
            yield f"languages.{member}.samples.{prompts}", samples[prompts]


# ---- what initializers and vocabularies read ---------------------------------------------------


def _check_initializer(study: Study, name: str) -> None:
    """Check that a method exists, and that its options and the inputs of its roles fit."""
    entry, key = study.initializers[name], f"initializers.{name}"
    method = entry.method
    _require(f"{key}.method", method, registry.methods())
    declared = registry.declaration(method)
    roles = [role for role in declared.needs if role not in _TEXT_ROLES]
    for role, auxiliary in entry.auxiliary.items():
        if role not in roles:
            reads = f"only reads {', '.join(roles)}" if roles else "reads no auxiliary"
            raise UserError(f"{key}.auxiliary: sets role '{role}', but method '{method}' {reads}")
        role_key = f"{key}.auxiliary" if role == "target" else f"{key}.auxiliary.{role}"
        _require(role_key, auxiliary, study.auxiliary)
    for role in roles:
        if role not in entry.auxiliary:
            form = ", ".join(f"{need}: …" for need in roles)
            raise UserError(
                f"{key}.auxiliary: role '{role}', which method '{method}' reads, is missing; "
                f"specify an entry of auxiliary.yaml: {{{form}}}"
            )
    texts: dict[str | None, str] = {}  # role -> the key that fills it
    for text_key, text_role in (("dictionary", "dictionary"), ("samples", declared.pairs_role)):
        if not (value := getattr(entry, text_key)):
            continue
        setting = f"set to {'true' if value is True else value}"
        if text_role not in (*declared.needs, *declared.reads):
            raise UserError(
                f"{key}.{text_key}: {setting}, but method '{method}' does not read it; remove it"
            )
        if text_role in texts:
            raise UserError(
                f"{key}.{text_key}: {setting}, but method '{method}' reads only one dictionary; "
                f"remove it or '{texts[text_role]}'"
            )
        texts[text_role] = text_key
    for role, (text_key, value) in _TEXT_ROLES.items():
        if role in declared.needs and role not in texts:
            raise UserError(
                f"{key}.{text_key}: missing, but method '{method}' reads it; set it to {value}"
            )
    language = {"language": entry.languages[0]} if entry.languages else {}
    if options := entry.options | language:
        # Only if necessary: creating an initializer imports transformers, which takes seconds.
        try:
            registry.initializer(method, **options)
        except UserError as error:
            raise UserError(f"{key}.options: {error}") from None


def _check_needs(study: Study) -> None:
    """Check that languages define the inputs of their vocabularies and initializers."""
    for initializer, language in study.used("initializers", "languages"):
        study.language_option(initializer, language)
        if initializer == NO_INITIALIZER or not (name := study.initializers[initializer].samples):
            continue
        for member in study.members(language):
            samples = study.languages[member].samples.get(name)
            if samples and samples.kind != "parallel":
                raise UserError(
                    f"languages.{member}.samples.{name}.kind: is {samples.kind}, but initializer "
                    f"'{initializer}' aligns sentence pairs; specify samples of kind parallel in "
                    f"initializers.{initializer}.samples"
                )
    for key, path, _, reader in _needs(study):
        if not path:
            form = "a .bin or .vec file" if key.endswith("word_vectors") else "a model"
            form = "a text file of pairs" if key.endswith("dictionary") else form
            raise UserError(
                f"{key}: missing, but {reader} reads it; specify {form}, or do not use the "
                f"{reader.split()[0]} for this language"
            )
    for initializer, vocabulary in study.used("initializers", "vocabularies"):
        for entry in study.auxiliaries_of(initializer, ModelEmbeddings).values():
            if not isinstance(study.vocabularies[vocabulary], TAKEN):
                raise UserError(
                    f"config.cells: initializer '{initializer}' reads a model's embeddings, which "
                    f"have no rows for vocabulary '{vocabulary}'; use {{mode: replace, plm: "
                    f"{entry.plm}}}"
                )


def _needs(study: Study) -> Iterator[tuple[str, str, str | None, str]]:
    """The inputs that vocabularies and initializers of a language's cells require.

    For each its key; its path, or an empty text; the file that it must contain if it is a folder;
    and who reads it, for messages.
    """

    def model(language: str, name: str) -> tuple[str, str]:
        key, plms = f"languages.{language}.plms.{name}", study.languages[language].plms
        return (f"{key}.model", plms[name].model) if name in plms else (key, "")

    for vocabulary, language in study.used("vocabularies", "languages"):
        entry, reader = study.vocabularies.get(vocabulary), f"vocabulary '{vocabulary}'"
        if isinstance(entry, TakenReplacement):
            yield f"vocabularies.{vocabulary}.tokenizer", entry.tokenizer, TOKENIZER, reader
        if isinstance(entry, ModelReplacement):
            yield *model(language, entry.plm), TOKENIZER, reader
    for initializer, language in study.used("initializers", "languages"):
        texts, reader = study.languages[language], f"initializer '{initializer}'"
        for name, auxiliary in study.auxiliaries_of(initializer, WordVectors).items():
            for key, file in word_vector_files(name, auxiliary, language, texts).values():
                yield key, file or "", None, reader
        for embeddings in study.auxiliaries_of(initializer, ModelEmbeddings).values():
            yield *model(language, embeddings.plm), MODEL, reader
        if initializer != NO_INITIALIZER and study.initializers[initializer].dictionary:
            dictionaries = {
                f"languages.{member}.dictionary": path
                for member in study.members(language)
                if (path := study.languages[member].dictionary)
            }
            for key, path in (dictionaries or {f"languages.{language}.dictionary": ""}).items():
                yield key, path, None, reader
