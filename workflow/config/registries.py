"""Read a study's config and the registries, and resolve them before any job.

Only plain Python and pydantic, since the Snakefile is parsed again in every job.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from lexigraft.cells import NAME, differ_in_case
from lexigraft.errors import UserError, refuse_secret, unknown
from lexigraft.plugins import load_plugins
from lexigraft.report.items import Item, check_items, records_read
from lexigraft.settings import plain, validate
from lexigraft.training.settings import Strategy
from lexigraft.yaml_files import read_yaml
from workflow.config.checks import RESERVED, check_study
from workflow.config.initializers import Auxiliary, InitializerConfig
from workflow.config.languages import LanguageConfig
from workflow.config.sources import (
    CorpusConfig,
    FileConfig,
    PackageConfig,
    SourceConfig,
    TokenizerConfig,
)
from workflow.config.study import StudyConfig
from workflow.config.tasks import AnyTask, MetricConfig
from workflow.config.texts import CorpusText, Text
from workflow.config.vocabularies import Vocabulary
from workflow.study import Study

ROOT = Path(__file__).resolve().parent.parent.parent
PUBLISHED = "config/published"  # numbers of papers, one file each
STUDIES = ROOT / "config/studies"
# The model of the entries of each registry.
REGISTRIES: dict[str, Any] = {
    "packages": PackageConfig,
    "sources": SourceConfig,
    "tokenizers": TokenizerConfig,
    "corpora": CorpusConfig,
    "files": FileConfig,
    "languages": LanguageConfig,
    "vocabularies": Vocabulary,
    "auxiliary": Auxiliary,
    "initializers": InitializerConfig,
    "strategies": Strategy,
    "tasks": AnyTask,
    "metrics": MetricConfig,
}
# Keys with an amount of text that a budget scales.
_AMOUNTS = (
    "train_sentences", "train_characters", "read_characters", "read_sentences",  # of a language
    "pairs", "questions",  # of samples
    "sentences", "sentences_per_language", "tokens", "tokens_per_language",
    "target_tokens_per_language",
)  # fmt: skip
# The key of an entry that does not affect results: it may be changed without a new name.
WITHOUT_EFFECT = "resources"
# Keys of a study that hold names of entries.
_OF_NAMES = ("cells", "aliases", "run_tasks", "report")
# Keys of every entry in addition to those of its model.
BASE, TITLE = "base", "title"


def load_registries(folder: Path = ROOT / "config") -> dict[str, dict[str, Any]]:
    """Read `config/<registry>.yaml` for every registry: name -> settings, not yet validated."""
    registries = {}
    for kind in REGISTRIES:
        file = folder / f"{kind}.yaml"
        content = read_yaml(file)
        if not isinstance(content, dict) or not isinstance(content.get(kind, ""), dict | None):
            raise UserError(f"{file}: has no mapping '{kind}'; put the entries below `{kind}:`")
        registries[kind] = content[kind] or {}
    return registries


def resolve(
    config: dict[str, Any], registries: dict[str, dict[str, Any]], check: bool = True
) -> Study:
    """Validate a study's config and the registries, and fill in defaults.

    `config` is the study (cells, tasks, report items, and its own registry entries), `registries`
    the result of `load_registries`. Local files need not exist: a run checks them before its first
    job (`check_local_files`). A job of a run may skip the checks that entries fit together, which
    its main process has done, with `check=False`: they create initializers, which takes seconds.

    Raises a UserError that names the first wrong key and explains how to correct it.
    """
    config = with_base(config)
    settings = validate(StudyConfig, config, "config")
    load_plugins(settings.plugins or ())
    _refuse_secrets(config, "config")
    folders = {key: getattr(settings, key) for key in ("results", "packages_folder")}
    if settings.prefix:
        folders = {key: posixpath.join(settings.prefix, path) for key, path in folders.items()}
    entries: dict[str, dict[str, Any]] = {}
    titles: dict[str, dict[str, str]] = {}
    shared = _entries_of_studies(settings.entries_of or ())
    for kind in REGISTRIES:
        # From the original config: in validated settings, all names have become text.
        own = shared[kind] | config.get(kind, {})
        _refuse_secrets(registries[kind], kind)
        entries[kind], titles_of_kind = read_entries(kind, own, registries[kind])
        if titles_of_kind:
            titles[kind] = titles_of_kind
    entries["languages"] = with_data_sets(entries["languages"], entries["corpora"])
    if settings.budget:
        entries = with_budget(entries, settings.budget)
        folders["results"] = posixpath.join(folders["results"], f"budget-{settings.budget:g}")
    study = Study(settings.model_copy(update=folders), entries, titles)
    if check:
        check_study(study)
    members = {name for group in study.used("languages") for name in study.members(group)}
    fragmentation = vars(study.settings.fragmentation)
    check_items(study.items, study.blocks, study.run_tasks, fragmentation, members)
    papers_compared(study.name, study.items)
    return study


def open_study(config: str) -> Study:
    """The study of a config file."""
    return resolve(read_yaml(Path(config)), load_registries())


def with_base(config: dict[str, Any]) -> dict[str, Any]:
    """A study's config, completed by that of the study that is its `base`.

    `replace` maps names in the cells, aliases, tasks and report of the base to the names that stand
    for them here: one, several or none. Other keys of the config override those of the base;
    mappings are merged. In `report.items`, the name of an item of the base stands for this item,
    and keys of an item with its name override its keys.
    """
    if BASE not in config:
        return config
    base = with_base(_read_study(config[BASE], "config.base"))
    replaced = config.get("replace") or {}
    inherited = {
        key: _renamed(base[key], replaced) if key in _OF_NAMES else base[key]
        for key in base
        if key not in (*REGISTRIES, "replace")
    }
    items = inherited.setdefault("report", {}).get("items", ())
    named = {item.get("name", item["item"]): item for item in items}
    merged = deepcopy(_merged(inherited, config))
    for number, item in enumerate(merged["report"].get("items", ())):
        name = item if isinstance(item, str) else item.get("name", item["item"])
        of_base = named.get(name, item)
        if isinstance(item, str):
            merged["report"]["items"][number] = of_base
        elif of_base["item"] == item["item"]:
            merged["report"]["items"][number] = _merged(of_base, item)
    entries_of = [config[BASE], *base.get("entries_of", ()), *config.get("entries_of", ())]
    return merged | {"entries_of": list(dict.fromkeys(entries_of))}


def _renamed(value: Any, replaced: Mapping[str, str | list[str]]) -> Any:
    """A part of a study with other names of entries."""

    def names(name: Any) -> list[Any]:
        new = replaced.get(name, name)
        return new if isinstance(new, list) else [new]

    if isinstance(value, Mapping):
        return {
            # The kind of a report item may have the name of a task.
            new: content if key in ("item", "name", "title") else _renamed(content, replaced)
            for key, content in value.items()
            for new in names(key)
        }
    if isinstance(value, list):
        if all(isinstance(item, str) for item in value):
            return list(dict.fromkeys(new for item in value for new in names(item)))
        parts = [
            _renamed({"item": item} if isinstance(item, str) else item, replaced) for item in value
        ]
        # Left out: blocks of cells, models of a row and items with nothing left of a list.
        return [part for part in parts if not (isinstance(part, dict) and [] in part.values())]
    return names(value)[0] if isinstance(value, str) and names(value) else value


def _merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Two mappings, of which the second overrides the first, in nested mappings too."""
    both = base.keys() & given.keys()
    nested = [key for key in both if isinstance(base[key], dict) and isinstance(given[key], dict)]
    return {**base, **given, **{key: _merged(base[key], given[key]) for key in nested}}


def _read_study(name: str, where: str) -> dict[str, Any]:
    """The config of a study of the repository."""
    known = [path.stem for path in sorted(STUDIES.glob("*.yaml"))]
    if name not in known:
        raise unknown(where, name, known, "in config/studies")
    config: dict[str, Any] = read_yaml(STUDIES / f"{name}.yaml")
    return config


def _refuse_secrets(value: Any, where: str) -> None:
    """Check that no text is an address with a login or token: jobs, cards and logs repeat it."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            _refuse_secrets(entry, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for number, entry in enumerate(value):
            _refuse_secrets(entry, f"{where}[{number}]")
    elif isinstance(value, str):
        refuse_secret(value, where, "download the file yourself and give its path")


def papers_compared(study: str, items: Sequence[Item]) -> list[str]:
    """The papers with whose numbers a study's report items compare: files of `PUBLISHED`."""
    known = [path.stem for path in sorted((ROOT / PUBLISHED).glob("*.csv"))]
    found: dict[str, None] = {}
    for number, item in enumerate(items):
        if "published" in records_read([item]):
            for name in item.option("compare") or (study,):
                if name not in known:
                    where = f"report.items[{number}].compare"
                    raise unknown(where, name, known, f"in {PUBLISHED}")
                found[name] = None
    return list(found)


def entries_of(kind: str) -> dict[str, Any]:
    """All entries of one registry, independent of a study."""
    entries, _ = read_entries(kind, {}, load_registries()[kind])
    return entries


def _entries_of_studies(names: Sequence[str]) -> dict[str, dict[Any, Any]]:
    """The own entries of other studies by registry; entries with the same name must be equal."""
    shared: dict[str, dict[Any, Any]] = {kind: {} for kind in REGISTRIES}
    for study in names:
        config = _read_study(study, "config.entries_of")
        for kind in REGISTRIES:
            for name, entry in config.get(kind, {}).items():
                if shared[kind].setdefault(name, entry) != entry:
                    raise UserError(
                        f"config.entries_of: {study} defines {kind}.{name} with other settings "
                        "than an earlier study; list only one of them"
                    )
    return shared


def read_entries(
    kind: str, own: dict[Any, Any], registry: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """All validated entries of one kind, and the titles of those that have one."""
    for name in (*registry, *own):
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            raise UserError(
                f"{kind}: {str(name)[:120]!r} is not a valid name; use at most 100 letters, "
                "digits, '.', '_' and '-', and begin with a letter or a digit"
            )
    if pair := differ_in_case((*registry, *own, *RESERVED.get(kind, ()))):
        raise UserError(
            f"{kind}: '{pair[0]}' and '{pair[1]}' differ only in case, so they "
            "would share one folder on some file systems; rename one of them"
        )

    def validated(name: str, own: Mapping[str, Any]) -> Any:
        entry = _with_base(kind, name, registry, own)
        return validate(REGISTRIES[kind], entry, f"{kind}.{name}")

    entries = {name: validated(name, {}) for name in registry}
    for name in own:
        entries[name] = validated(name, own)
        if name not in registry:
            continue
        entry, other = plain(entries[name]), plain(validated(name, {}))
        if differing := [
            key
            for key in dict.fromkeys([*entry, *other])
            if key != WITHOUT_EFFECT and entry.get(key) != other.get(key)
        ]:
            raise UserError(
                f"{kind}.{name}: the registry has an entry of this name with other settings "
                f"({', '.join(differing)}), but all results of one name must have the same "
                f"settings; use another name, with `base: {name}` and only the keys that differ"
                + (f" (only {WITHOUT_EFFECT} may differ)" if WITHOUT_EFFECT in entry else "")
            )
    titles: dict[str, str] = {}
    for name, entry in [*registry.items(), *own.items()]:
        if (title := entry.get(TITLE)) is not None:
            if not isinstance(title, str) or not title:
                raise UserError(f"{kind}.{name}.title: {title!r} is not text")
            titles[name] = title
    return entries, titles


def _with_base(
    kind: str,
    name: str,
    registry: Mapping[str, Any],
    own: Mapping[str, Any],
    above: tuple[str, ...] = (),
) -> dict[str, Any]:
    """An entry merged with the one that it is based on, whose keys it overrides."""
    entry = own.get(name, registry.get(name))
    if not isinstance(entry, Mapping):
        raise UserError(f"{kind}.{name}: {entry!r} is not a mapping of keys to values")
    given = {key: value for key, value in entry.items() if key not in (BASE, TITLE)}
    base, where, names = entry.get(BASE), f"{kind}.{name}.base", (*above, name)
    if name in own and name in registry and base in (None, name):
        # An entry with a name of the registry gives only the keys that it changes.
        return _with_base(kind, name, registry, {}, above) | given
    if base is None:
        return given
    if not isinstance(base, str):
        raise UserError(f"{where}: {base!r} is not text")
    if base in names:
        raise UserError(
            f"{where}: {' -> '.join([*names, base])} is circular; remove one of these bases"
        )
    if base not in own and base not in registry:
        raise unknown(where, base, [*registry, *own])
    return _with_base(kind, base, registry, own, names) | given


# ---- corpora and budget ------------------------------------------------------------------------


def with_data_sets(
    languages: Mapping[str, LanguageConfig], corpora: Mapping[str, CorpusConfig]
) -> dict[str, LanguageConfig]:
    """The languages with data sets in place of `{loader: corpus, corpus: …, code: …}`.

    Raises a UserError if there is no such corpus.
    """
    resolved = dict(languages)
    for name, language in languages.items():
        for key in ("text", "english"):
            text, where = getattr(language, key), f"languages.{name}.{key}"
            if isinstance(text, CorpusText):
                if text.corpus not in corpora:
                    raise unknown(f"{where}.corpus", text.corpus, corpora)
                found = validate(Text, data_set(corpora[text.corpus], text.code), where)
                resolved[name] = resolved[name].model_copy(update={key: found})
    return resolved


def data_set(corpus: CorpusConfig, code: str, folder: str | None = None) -> dict[str, Any]:
    """The settings of the loader `datasets` for one language of a corpus.

    Its files are given by URL, since the library rejects data sets that also have a loading script.
    `folder` has a copy of the files.
    """
    files = corpus.data_files.replace("{code}", code)
    revision = f"@{corpus.revision}" if corpus.revision else ""
    line_break = {"line_break": corpus.line_break} if corpus.line_break else {}
    return {
        "loader": "datasets",
        "name": "parquet" if files.endswith(".parquet") else "json",
        "split": "train",
        "data_files": [f"{folder or f'hf://datasets/{corpus.name}{revision}'}/{files}"],
        "column": corpus.column,
        **line_break,
    }


def with_budget(entries: Mapping[str, Any], budget: float) -> dict[str, Any]:
    """The entries of a study with a `budget`, by which all amounts of text are scaled.

    Amounts are those of text that is trained on or learned from. Held-out text, test sets and
    numbers of epochs are not scaled; the text of an epoch shrinks. A name stands for one setting in
    a results folder, so results with a budget cannot be stored next to those of the whole study.
    """

    def scaled(entry: Any, **nested: Any) -> Any:
        amounts = {key: getattr(entry, key, None) for key in _AMOUNTS}
        update = {key: max(1, round(n * budget)) for key, n in amounts.items() if n is not None}
        return entry.model_copy(update=update | nested)

    languages = {
        name: scaled(entry, samples={key: scaled(value) for key, value in entry.samples.items()})
        for name, entry in entries["languages"].items()
    }
    strategies = {
        name: scaled(entry, phases=tuple(map(scaled, entry.phases)))
        for name, entry in entries["strategies"].items()
    }
    readers = {
        kind: {
            name: entry.model_copy(update={"text": scaled(entry.text)})
            if getattr(entry, "text", None)
            else entry
            for name, entry in entries[kind].items()
        }
        for kind in ("vocabularies", "auxiliary", "initializers")
    }
    return {**entries, **readers, "languages": languages, "strategies": strategies}
