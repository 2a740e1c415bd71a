"""The study of `lexigraft adapt`: what the user requests, what is chosen, and the file of both."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lexigraft.cells import NO_INITIALIZER, PLURALS, SOURCE_VOCABULARY, Cell
from lexigraft.errors import unknown
from lexigraft.installation import PIPELINE
from lexigraft.yaml_files import read_yaml
from workflow.adaptation.text import UNDETERMINED, TextFacts, language_of, script_name
from workflow.commands.texts import check_code, check_hub_name, check_texts, source_name
from workflow.config.checks import MODEL, check_folder
from workflow.config.registries import load_registries

NO_TRAINING = "none"  # a strategy of the registry
_STUDY, _STRATEGY, _UNTRAINED = "adapt", "adapt", "untrained"
_CURVE_SENTENCES = 32  # for every model, so that the report's curves are comparable
_REPORT_ITEMS = [
    "results", "perplexity", "fragmentation", "initializers", "learning_curves",
    "new_tokens",
]  # fmt: skip
# Interface messages in English, from a package that also contains fonts for figures.
_KOLIBRI = {"loader": "catalogue", "package": "kolibri", "locale": "en"}
_HEAD = """\
# Written by `lexigraft adapt`, whose results it reproduces. For a grid, add names to the lists
# under `cells`; finished steps are not repeated.
#
#   lexigraft plan {file}
#   lexigraft run {file}
"""


@dataclass(frozen=True)
class Request:
    """The user's request; options that are None are chosen. A changed request is a new adaptation.

    `text` and `english` are files and folders, `field` their key in JSON Lines or tables.
    `dataset` replaces `text`: the name of a data set and its configuration, `name:config`.
    `reading` are keys of a language that change what is read of a text.
    """

    model: str
    text: list[str]
    field: str
    language: str | None
    new_tokens: int | None
    initializer: str
    strategy: str | None
    minutes: float
    tokens: int | None
    english: str | None
    text_license: str | None
    dataset: str | None = None
    reading: dict[str, Any] = dataclasses.field(default_factory=dict)

    def check(self) -> None:
        """Raise a `UserError` if a name is unknown or a file is missing."""
        registries = load_registries()
        source_entry(self.model, registries["sources"])
        if self.initializer not in registries["initializers"]:
            raise unknown("--initializer", self.initializer, registries["initializers"])
        if self.strategy and self.strategy not in registries["strategies"]:
            raise unknown("--strategy", self.strategy, registries["strategies"])
        if self.language is not None:
            check_code(self.language)
        check_texts(self.text, "--text")
        if self.english:
            check_texts([self.english], "--english")

    def text_settings(self) -> dict[str, Any]:
        """The `text` of the language: files and folders, or a data set."""
        if self.dataset is None:
            return {"loader": "text", "paths": self.text, "field": self.field}
        name, _, config = self.dataset.partition(":")
        settings = {"loader": "datasets", "name": name, "split": "train", "column": self.field}
        return settings | ({"config": config} if config else {})


@dataclass(frozen=True)
class Choices:
    """What is chosen for a request, and why: `reasons` are subject, choice and explanation.

    `strategy` is a name in the registry, and `training` what the study changes of it; None if
    nothing is trained. `sizes` are the sizes of the parts of the text.
    """

    new_tokens: int
    strategy: str
    training: dict[str, Any] | None
    sizes: dict[str, int | None]
    reasons: list[list[str]]


class Adaptation:
    """The names of a request in its study: `source`, `code`, `language`, `cells` and entries."""

    def __init__(self, request: Request, facts: TextFacts, baselines: bool):
        self.request, self.baselines, self.reading = request, baselines, facts.reading
        self.source, self.sources = source_entry(request.model, load_registries()["sources"])
        folder = self.sources.get(self.source, {}).get("folder")
        self.model = Path(folder).name if folder else request.model
        self.code, self.script = request.language or language_of(facts), facts.script
        names = read_yaml(PIPELINE / "config/prompts/names.yaml")["names"]
        if self.code == UNDETERMINED:
            names = {UNDETERMINED: f"{script_name(facts.script)}-script text"}
        self.language = names.get(self.code, self.code)

    def cells(self, choices: Choices) -> dict[str, Cell]:
        """The unchanged source, LAPT if baselines are requested, and the adapted model."""
        strategy = _STRATEGY if choices.training else _UNTRAINED
        entry, vocabulary = f"my-{self.code}", f"expand-{choices.new_tokens}"
        unchanged = (self.source, entry, SOURCE_VOCABULARY, NO_INITIALIZER)
        cells = {"source": Cell(*unchanged, _UNTRAINED, seed=0)}
        if self.baselines and choices.training:
            cells["LAPT"] = Cell(*unchanged, strategy, seed=0)
        adapted = (self.source, entry, vocabulary, self.request.initializer)
        return cells | {"adapted": Cell(*adapted, strategy, seed=0)}

    def study(self, choices: Choices, file: str) -> str:
        """The text of a study file with this name."""
        cells, own_english = self.cells(choices), self.request.english
        license = {"license": self.request.text_license} if self.request.text_license else {}
        curve = {"sentences": _CURVE_SENTENCES, "points": 0}
        strategies = {_UNTRAINED: {"base": NO_TRAINING, "title": NO_TRAINING, "curve": curve}}
        if choices.training:
            named = {"base": choices.strategy, "title": choices.strategy}
            strategies[_STRATEGY] = named | choices.training | {"curve": curve | {"points": 6}}
        study = {
            "study": _STUDY,
            "title": f"{self.model} adapted to {self.language}",
            "sources": self.sources,
            "languages": {
                f"my-{self.code}": {
                    "name": self.language,
                    "code": self.code,
                    "script": self.script,
                    "text": self.request.text_settings(),
                    "english": self.text_settings([own_english]) if own_english else _KOLIBRI,
                    **license,
                    **self.reading,
                    **choices.sizes,
                }
            },
            "run_tasks": {"perplexity": {}},
            "cells": [
                {plural: [getattr(cell, axis)] for axis, plural in PLURALS.items()}
                for cell in cells.values()
            ],
            "vocabularies": {
                cells["adapted"].vocabulary: {"mode": "expand", "new_tokens": choices.new_tokens}
            },
            "strategies": strategies,
            "report": {"items": _REPORT_ITEMS} | ({"fonts": None} if own_english else {}),
        }
        return _HEAD.format(file=file) + yaml.safe_dump(
            study, allow_unicode=True, sort_keys=False, width=100, default_flow_style=None
        )

    def text_settings(self, paths: Sequence[str]) -> dict[str, Any]:
        """The `text` of a language: files and folders."""
        return {"loader": "text", "paths": list(paths), "field": self.request.field}


def source_entry(model: str, known: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a source model in the study, and its `sources`, empty for registry entries.

    Raises a `UserError` if it is neither in the registry nor a model folder nor a name on the hub.
    """
    if model in known:
        return model, {}
    folder = Path(model).expanduser()
    name = source_name(model, known)
    if folder.is_dir():
        check_folder(str(folder), "--model", MODEL)
        return name, {name: {"folder": str(folder.resolve())}}
    check_hub_name(model, known)
    return name, {name: {"hub": model}}
