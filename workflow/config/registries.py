"""Read a study's config and the registries, and resolve them before any job.

Only plain Python and pydantic, since the Snakefile is parsed again in every job.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lexigraft.cells import NAME, differ_in_case
from lexigraft.errors import UserError, refuse_secret, unknown
from lexigraft.plugins import load_plugins
from lexigraft.report.items import Item, check_items, read_items, records_read
from lexigraft.settings import plain, validate
from lexigraft.training.settings import Strategy
from lexigraft.yaml_files import read_yaml
from workflow.config.checks import RESERVED, check_study
from workflow.config.initializers import InitializerConfig, auxiliary_model
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
    "auxiliary": auxiliary_model(),
    "initializers": InitializerConfig,
    "strategies": Strategy,
    "tasks": AnyTask,
    "metrics": MetricConfig,
}
# Amounts by registry: keys of an entry, and of mappings nested in it.
_LANGUAGE = ("train_sentences", "train_characters", "read_characters")
_SAMPLES = ("pairs", "questions")
_STRATEGY = ("sentences", "tokens", "tokens_per_language")
_READERS = ("vocabularies", "auxiliary", "initializers")
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

    The `config` of the result has under each registry's name every entry, complete, and `titles`:
    registry -> name -> label. Raises a UserError that names the first wrong key and explains how to
    correct it.
    """
    config = with_base(config)
    settings: dict[str, Any] = plain(validate(StudyConfig, config, "config"))
    load_plugins(settings.get("plugins", ()))
    _refuse_secrets(config, "config")
    for key in ("results", "packages_folder"):
        settings[key] = posixpath.join(settings["prefix"] or "", settings[key])
    settings["titles"] = {}
    shared = _entries_of_studies(settings.pop("entries_of", ()))
    for kind in REGISTRIES:
        # From the original config: in plain data, all names have become text.
        own = shared[kind] | config.get(kind, {})
        _refuse_secrets(registries[kind], kind)
        settings[kind], titles = _entries(kind, own, registries[kind])
        if titles:
            settings["titles"][kind] = titles
    for entry in settings["initializers"].values():
        entry["auxiliary"] = by_role(entry["auxiliary"])
    resolve_corpora(settings)
    apply_budget(settings)
    study = Study(settings)
    if check:
        check_study(study)
    items = read_items(settings["report"]["items"])
    members = {name for group in study.used("languages") for name in study.members(group)}
    check_items(items, study.blocks, study.run_tasks, settings["fragmentation"], members)
    papers_compared(study.name, items)
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
    merged = _merged(inherited, config)
    if "items" in merged["report"]:
        merged["report"]["items"] = [
            named.get(item, item)
            if isinstance(item, str)
            else _merged(named.get(item.get("name", item["item"]), {}), item)
            for item in merged["report"]["items"]
        ]
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
    """All entries of one registry with their defaults, independent of a study."""
    entries, _ = _entries(kind, {}, load_registries()[kind])
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


def by_role(auxiliary: str | dict[str, str] | None) -> dict[str, str]:
    """The auxiliaries of an initializer by role; a single one has the role `target`."""
    return {"target": auxiliary} if isinstance(auxiliary, str) else auxiliary or {}


def _entries(
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
    model = auxiliary_model() if kind == "auxiliary" else REGISTRIES[kind]  # with plug-ins

    def validated(name: str, own: Mapping[str, Any]) -> dict[str, Any]:
        entry: dict[str, Any] = plain(
            validate(model, _with_base(kind, name, registry, own), f"{kind}.{name}")
        )
        return entry

    entries = {name: validated(name, {}) for name in registry}
    for name in own:
        entry = validated(name, own)
        other = entries.get(name, entry)
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
        entries[name] = entry
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


def resolve_corpora(study: dict[str, Any]) -> None:
    """Replace each `{loader: corpus, corpus: …, code: …}` of a language by its data set.

    Raises a UserError if there is no such corpus.
    """
    corpora = study["corpora"]
    for name, language in study["languages"].items():
        for key in ("text", "english"):
            text = language.get(key)
            if text and text["loader"] == "corpus":
                if text["corpus"] not in corpora:
                    raise unknown(f"languages.{name}.{key}.corpus", text["corpus"], corpora)
                language[key] = data_set(corpora[text["corpus"]], text["code"])


def data_set(corpus: Mapping[str, Any], code: str, place: str | None = None) -> dict[str, Any]:
    """The settings of the loader `datasets` for one language of a corpus.

    Its files are given by URL, since the library rejects data sets that also have a loading script.
    `place` is a folder with a copy of the files.
    """
    files = corpus["data_files"].replace("{code}", code)
    revision = f"@{corpus['revision']}" if "revision" in corpus else ""
    hub = f"hf://datasets/{corpus['name']}{revision}"
    return {
        "loader": "datasets",
        "name": "parquet" if files.endswith(".parquet") else "json",
        "split": "train",
        "data_files": [f"{place or hub}/{files}"],
        "column": corpus["column"],
        **({"line_break": corpus["line_break"]} if "line_break" in corpus else {}),
    }


def apply_budget(study: dict[str, Any]) -> None:
    """Scale all amounts of a resolved study, and put its results into a separate folder.

    Amounts are those of text that is trained on or learned from. Held-out text, test sets and
    numbers of epochs are not scaled; the text of an epoch shrinks. A name stands for one setting in
    a results folder, so results with a budget cannot be stored next to those of the whole study.
    """
    if "budget" not in study:
        return
    budget = study["budget"]
    for language in study["languages"].values():
        _scale(language, _LANGUAGE, budget)
        for samples in language["samples"].values():
            _scale(samples, _SAMPLES, budget)
    for strategy in study["strategies"].values():
        _scale(strategy, _STRATEGY, budget)
        for phase in strategy["phases"]:
            _scale(phase, _STRATEGY, budget)
    for kind in _READERS:
        for entry in study[kind].values():
            if amount := entry.get("text"):
                _scale(amount, tuple(amount), budget)
    study["results"] = posixpath.join(study["results"], f"budget-{budget:g}")


def _scale(entry: dict[str, Any], keys: tuple[str, ...], budget: float) -> None:
    for key in keys:
        if entry.get(key) is not None:
            entry[key] = max(1, round(entry[key] * budget))
