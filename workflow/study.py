"""A study: its config with all defaults, what follows from it, and where its rules write."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, wraps
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from lexigraft.auxiliary.registry import AuxiliaryKind
from lexigraft.cells import PLURALS, Cell, cells_of, is_selected
from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import ENGLISH, TaskKind, task_kind
from lexigraft.installation import PIPELINE
from lexigraft.job import PLUGINS, PREFIX
from lexigraft.machine import job_environment
from lexigraft.report.items import Item, read_items
from lexigraft.settings import Settings, plain, validate
from lexigraft.source.revision_lock import read_lock
from lexigraft.training.settings import Strategy
from workflow.config.initializers import InitializerConfig
from workflow.config.languages import AnsweredSamples, LanguageConfig
from workflow.config.revisions import with_commits
from workflow.config.sources import FileConfig, PackageConfig, SourceConfig, TokenizerConfig
from workflow.config.study import Run, StudyConfig
from workflow.config.tasks import MetricConfig, Task
from workflow.config.vocabularies import VocabularyConfig
from workflow.rule_files import rules

P = ParamSpec("P")
Result = TypeVar("Result")
Kind = TypeVar("Kind", bound=AuxiliaryKind)

# Parts of the examples of a task that fine-tunes: to train on, and to choose the epoch. Parts that
# are tests are named after the code of their language.
LEARNED_PARTS = ("train", "validation")
# Names in a job -> parts of the examples of a task that generates, such as `test-te`.
TEST_SETS = {"tests": "test", "shots": "shots"}


def once(
    compute: Callable[Concatenate["Study", P], Result],
) -> Callable[Concatenate["Study", P], Result]:
    """Cache a function of a study by its arguments, until the study changes."""

    @wraps(compute)
    def cached(study: "Study", *arguments: P.args, **named: P.kwargs) -> Result:
        key = (compute, *arguments, *named.items())
        if key not in study.shared:
            study.shared[key] = compute(study, *arguments, **named)
        result: Result = study.shared[key]
        return result

    return cached


class Study:
    """The cells of a study, its entries by name, and what follows from them.

    `workflow.config.registries.resolve` makes one: of the `settings`, the validated `entries` (by
    registry and name), and `titles`, what reports show instead of names. Revisions on the hub are
    replaced by the commits that the results folder locks.
    """

    def __init__(
        self,
        settings: StudyConfig,
        entries: Mapping[str, Mapping[str, Settings]],
        titles: Mapping[str, Mapping[str, str]],
    ):
        self.settings, self.entries, self.titles = settings, entries, titles
        self.name = settings.study
        self.results = settings.results.rstrip("/")
        self.cells = cells_of(plain(settings.cells), plain(settings.aliases))
        self.shared: dict[tuple[Any, ...], Any] = {}  # see `once`
        self.take_commits()

    def take_commits(self) -> None:
        """Apply the commits that the results folder locks (`lexigraft.source.revision_lock`)."""
        self.locked = read_lock(self.results)
        self.settings = with_commits(self.settings, self.locked)
        self.run_tasks: dict[str, Run] = self.settings.run_tasks
        self.entries = entries = with_commits(self.entries, self.locked)
        self.packages: dict[str, PackageConfig] = entries["packages"]
        self.sources: dict[str, SourceConfig] = entries["sources"]
        self.tokenizers: dict[str, TokenizerConfig] = entries["tokenizers"]
        self.files: dict[str, FileConfig] = entries["files"]
        self.languages: dict[str, LanguageConfig] = entries["languages"]
        self.vocabularies: dict[str, VocabularyConfig] = entries["vocabularies"]
        self.auxiliary: dict[str, AuxiliaryKind] = entries["auxiliary"]
        self.initializers: dict[str, InitializerConfig] = entries["initializers"]
        self.strategies: dict[str, Strategy] = entries["strategies"]
        self.tasks: dict[str, Task] = entries["tasks"]
        self.metrics: dict[str, MetricConfig] = entries["metrics"]
        self.shared.clear()

    @property
    @once
    def config(self) -> dict[str, Any]:
        """The settings and all entries as plain data, for jobs and reports."""
        config = {**plain(self.settings), "titles": self.titles, **plain(self.entries)}
        config.pop("entries_of", None)
        return config

    @property
    @once
    def items(self) -> list[Item]:
        """The pages, tables and figures of the report."""
        return read_items(plain(self.settings.report.items))

    # ---- cells ---------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> list[dict[str, Any]]:
        """The blocks of cells, followed by those whose cells an alias shares."""
        blocks: list[dict[str, Any]] = plain(self.settings.cells)
        for block, alias in product(self.settings.cells, self.settings.aliases):
            sources = [name for name in block.sources if name in (alias.sources or (name,))]
            vocabularies = [name for name in block.vocabularies if name in alias.vocabularies]
            if alias.initializer in block.initializers and sources and vocabularies:
                shared = {"initializers": [alias.same_as], "sources": sources}
                blocks.append(plain(block) | shared | {"vocabularies": vocabularies})
        return blocks

    def used(self, *axes: str, task: str | None = None) -> list[Any]:
        """Names of an axis in the cells, such as `languages`; tuples for several axes.

        Each occurs once, in the order of the blocks. Tuples are combinations that occur in a block.
        With a `task`, only cells on which it is run are considered.
        """
        run = vars(self.run_tasks[task]) if task else {}
        combinations: dict[tuple[Any, ...], None] = {}
        for block in self.blocks:
            names = {
                axis: [name for name in block[axis] if run.get(axis) is None or name in run[axis]]
                for axis in PLURALS.values()
            }
            if all(names.values()):
                combinations |= dict.fromkeys(product(*(names[axis] for axis in axes)))
        return list(combinations) if len(axes) > 1 else [name for (name,) in combinations]

    @once
    def tasks_of(self, cell: Cell) -> list[str]:
        """The tasks that are run on a cell, in the order of the study."""
        return [task for task, run in self.run_tasks.items() if is_selected(cell, vars(run))]

    # ---- languages and their texts -------------------------------------------------------------

    def members(self, language: str) -> list[str]:
        """The members of a group, or the language itself."""
        group = self.languages[language].group
        return group.members if group else [language]

    @property
    def languages_read(self) -> list[str]:
        """Languages and groups whose texts are read, for cells, tasks, tokenizers and vectors."""
        cells = self.used("languages")
        tested = (self.tested_language(task, name) for task in self.run_tasks for name in cells)
        vocabularies = (self.vocabularies.get(name) for name in self.used("vocabularies"))
        trained = (self.auxiliary.get(name) for name in self.used_auxiliaries())
        corpora = {corpus for entry in (*vocabularies, *trained) if (corpus := corpus_of(entry))}
        mixed = {name for key in self.used("strategies") for name in self.strategies[key].samples}
        corpora |= mixed & self.languages.keys()
        return sorted({*cells, *tested, *self.settings.fragmentation.languages, *corpora})

    @property
    def single_languages(self) -> list[str]:
        """The languages whose texts are read, with groups replaced by their members."""
        members = (name for language in self.languages_read for name in self.members(language))
        return list(dict.fromkeys(members))

    def samples_read(self) -> Iterator[tuple[str, str, str]]:
        """Language, description of the reader, and name, for all samples that cells read."""
        for language, strategy in self.used("languages", "strategies"):
            for name in self.strategies[strategy].samples:
                if name not in self.languages:
                    yield language, f"strategy '{strategy}' trains on", name
        for language, initializer in self.used("languages", "initializers"):
            entry = self.initializers.get(initializer)
            if entry and entry.samples:
                yield language, f"initializer '{initializer}' aligns", entry.samples

    def answered_samples(self) -> list[tuple[str, str, AnsweredSamples]]:
        """Language, name and settings of the answered samples that cells read, once each."""
        entries = {
            (language, name): self.languages[language].samples.get(name)
            for group, _, name in self.samples_read()
            for language in self.members(group)
        }
        return [
            (*key, entry) for key, entry in entries.items() if isinstance(entry, AnsweredSamples)
        ]

    # ---- models --------------------------------------------------------------------------------

    def teachers(self) -> set[str]:
        """All source models that are teachers in cells, or that cells are merged with."""
        strategies = [self.strategies[name] for name in self.used("strategies")]
        imitated = [strategy.teacher() for strategy in strategies]
        imitated += [strategy.merge.of for strategy in strategies if strategy.merge]
        answering = {entry.teacher for _, _, entry in self.answered_samples()}
        return answering.union(name for name in imitated if name)

    def training_gpus(self, source: str, strategy: str) -> tuple[int, int, bool]:
        """GPUs of a training, megabytes for the process on each, and if the model is sharded."""
        resources = self.sources[source].resources
        gpus, megabytes = resources.training_gpus, resources.training_mb
        if self.strategies[strategy].trains_whole_model:
            full, megabytes = resources.full_training_gpus, resources.full_training_mb or megabytes
            return full or gpus, megabytes, bool(full) or resources.training_sharded
        return gpus, megabytes, resources.training_sharded

    # ---- initializers --------------------------------------------------------------------------

    def auxiliaries_of(self, initializer: str, kind: type[Kind]) -> dict[str, Kind]:
        """The auxiliaries of one kind that an initializer reads, by name."""
        entry = self.initializers.get(initializer)
        entries = {name: self.auxiliary[name] for name in entry.auxiliary.values()} if entry else {}
        return {name: entry for name, entry in entries.items() if isinstance(entry, kind)}

    def used_auxiliaries(self) -> list[str]:
        """The auxiliaries that the initializers of cells read."""
        entries = (self.initializers.get(name) for name in self.used("initializers"))
        return sorted({name for entry in entries if entry for name in entry.auxiliary.values()})

    def language_option(self, initializer: str, language: str) -> dict[str, str]:
        """The option `language` of an initializer that distinguishes languages.

        Empty for other initializers. Raises a UserError if it does not know the language.
        """
        entry = self.initializers.get(initializer)
        if entry is None or entry.languages is None:
            return {}
        code = entry.options.get("language") or self.languages[language].code
        if code not in entry.languages:
            problem = f"'{language}' has code '{code}'" if code else f"'{language}' is a group"
            raise UserError(
                f"initializers.{initializer}.languages: {problem}, but the method only supports "
                f"{', '.join(entry.languages)}; leave the language out of the initializer's "
                "cells, or set options.language in a separate entry"
            )
        return {"language": code}

    # ---- tasks ---------------------------------------------------------------------------------

    def task_kind(self, task: str) -> TaskKind:
        """The declaration of the kind of a task."""
        return task_kind(self.tasks[task].kind)

    @once
    def task_settings(self, task: str) -> Settings:
        """The settings that the kind of a task declares; a UserError if they are invalid."""
        values = self.tasks[task].model_extra
        return validate(self.task_kind(task).settings, values, f"tasks.{task}")

    def examples(self, task: str) -> Any:
        """The examples of a task, as its kind declares them (`TrainingExamples`, `OwnTests`)."""
        return self.tasks[task].examples

    def tested_language(self, task: str, language: str) -> str:
        """The language whose texts a task uses: the one that it names, otherwise the cell's."""
        named = self.tasks[task].language
        return named.get(language, language) if isinstance(named, Mapping) else named or language

    def checkpoints(self, task: str, strategy: str) -> range:
        """Numbers of the checkpoints on which a task is run, without the last, the trained cell."""
        selected = self.run_tasks[task].checkpoints
        return range(1, self.strategies[strategy].checkpoints if selected else 1)

    @once
    def tests(self, task: str, language: str) -> dict[str, str]:
        """The tests of a cell in a task with tests of its own: name of the test -> language code.

        Each language of a group by its name, and English as `english` if the task has tests in it.
        Only languages in which lm-evaluation-harness has the task. Empty for other tasks.
        """
        kind, examples = self.task_kind(task), self.examples(task)
        texts: Any = self.tasks[task].harness
        if kind.fine_tunes or (kind.generates and examples):
            texts = examples.test or ()
        elif kind.tests != "benchmark":
            return {}
        members = self.members(self.tested_language(task, language))
        codes = {name: self.languages[name].code for name in members}
        if kind.generates and not kind.every_language:
            return codes
        known = codes_of(texts)
        codes = {ENGLISH if code == "en" else name: code for name, code in codes.items()}
        if "en" in known:
            codes.setdefault(ENGLISH, "en")
        is_benchmark = kind.tests == "benchmark"
        return {name: code for name, code in codes.items() if code in known or not is_benchmark}

    def example_parts(self, task: str, language: str) -> dict[str, dict[str, str]]:
        """The parts of a task's examples that cells of a language read: name -> part, by use.

        Of a task that generates, `tests` and `shots`; if it has none, its corpus or the tests are
        used instead. Of a task that fine-tunes, `learned` and `tests`. Empty for other tasks.
        """
        kind, examples = self.task_kind(task), self.examples(task)
        if kind.fine_tunes:
            learned = {part: part for part in LEARNED_PARTS if getattr(examples, part)}
            return {"learned": learned, "tests": self.tests(task, language)}
        codes = self.tests(task, language) if kind.generates else {}
        return {
            use: {name: f"{part}-{code}" for name, code in codes.items()}
            for use, part in TEST_SETS.items()
            if codes and getattr(examples, part, None)
        }

    def example_settings(self, task: str, part: str) -> dict[str, Any]:
        """Settings of the job that reads one part of a task's examples."""
        kind, examples = self.task_kind(task), self.examples(task)
        key, _, code = part.rpartition("-")
        if part in LEARNED_PARTS:
            text = plain(getattr(examples, part))
        else:
            text = text_in(getattr(examples, key or "test"), code)
        columns = text.get("columns") or getattr(examples, "columns", None) or kind.columns
        location = {
            name: value
            for name, value in text.items()
            if name not in ("languages", "columns", "labels", "repair")
        }
        if kind.fine_tunes:
            labels = text.get("labels") or examples.labels
            return {"rows": kind.rows, "columns": columns, "labels": labels, "text": location}
        settings: dict[str, Any] = {"rows": kind.rows, "text": location}
        if "repair" in text:
            settings["repair"] = text["repair"]
        return settings | ({"columns": columns} if kind.columns else {})

    def benchmark(self, task: str, code: str) -> tuple[str, dict[str, Any]]:
        """Name of a benchmark, and settings of the job that prepares it for one language.

        It is named after the harness's task, plus a digest of its data if the task's entry defines
        some, so that one name stands for one setting.
        """
        text, data = text_in(self.tasks[task].harness, code), self.tasks[task].data
        settings = {"task": text["task"], "folder": text["folder"], "data": data}
        if data is None:
            return settings["task"], settings
        digest = sha256(json.dumps([settings["folder"], data]).encode()).hexdigest()
        return f"{settings['task']}-{digest[:8]}", settings

    def benchmarks(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Task, name and settings of each benchmark of the study."""
        for task in self.run_tasks:
            if self.task_kind(task).tests == "benchmark":
                for code in codes_of(self.tasks[task].harness):
                    yield task, *self.benchmark(task, code)

    # ---- where jobs run and write --------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """Environment variables of jobs: prefix, hub cache, plug-ins, settings of the machine."""
        folders = {PREFIX: self.settings.prefix, "HF_HUB_CACHE": self.settings.hub_cache}
        paths = {name: str(Path(path).expanduser()) for name, path in folders.items() if path}
        plugins = {PLUGINS: json.dumps(self.settings.plugins or [])}
        return paths | plugins | job_environment(plain(self.settings.machine))

    @cached_property
    def metrics_python(self) -> str:
        """The Python of learned metrics: in the working folder, otherwise in the repository."""
        python = self.settings.metrics_python
        return python if Path(python).exists() else in_repository(python)

    @cached_property
    def path_variables(self) -> dict[str, str]:
        """The variables of paths in rules, such as `<results>`.

        None has wildcards: Snakemake 9.27 does not constrain wildcards in variables.
        """
        return {
            "results": self.results,
            "logs": f"{self.results}/logs",
            "packages": self.settings.packages_folder.rstrip("/"),
            "study": self.name,
        }

    @once
    def card_path(self, rule: str) -> str:
        """The card that a rule writes, with its wildcards in braces."""
        return re.sub(r"<(\w+)>", lambda name: self.path_variables[name[1]], rules()[rule].card)

    def card(self, rule: str, **wildcards: Any) -> str:
        """The card of a job, which marks its output as complete."""
        return self.card_path(rule).format(**wildcards)

    def folder(self, rule: str, **wildcards: Any) -> str:
        """The folder in which a job writes its card and other files."""
        return self.card(rule, **wildcards).rpartition("/")[0]


def corpus_of(entry: Any) -> str | None:
    """The language whose text a vocabulary or an auxiliary names; None for that of the cell."""
    return getattr(entry, "corpus", None)


def codes_of(texts: Iterable[Any]) -> set[str]:
    """The codes of the languages of some texts of a task."""
    return {code for text in texts for code in text.languages}


def text_in(texts: Iterable[Any], code: str) -> dict[str, Any]:
    """The first text of a task in a language, with `{code}` replaced by the text's name for it."""
    text = next(text for text in texts if code in text.languages)
    name = text.languages[code] if isinstance(text.languages, Mapping) else code

    def replace_code(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{code}", name)
        return [replace_code(part) for part in value] if isinstance(value, list) else value

    return {key: replace_code(value) for key, value in plain(text).items()}


def in_repository(path: str) -> str:
    """A path in the repository: relative if that is the working folder."""
    return path if Path.cwd() == PIPELINE else str(PIPELINE / path)
