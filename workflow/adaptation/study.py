"""The study of `lexigraft adapt`, as a YAML file that reproduces the adaptation."""

from collections.abc import Mapping
from typing import Any

import yaml

from lexigraft.cells import NO_INITIALIZER, SOURCE_VOCABULARY, Cell
from workflow.adaptation.choices import NO_TRAINING, Budget, Choices
from workflow.adaptation.request import ResolvedRequest

STUDY, STRATEGY, UNTRAINED = "adapt", "adapt", "untrained"
_CURVE_SENTENCES = 32  # for every model, so that the report's curves are comparable
REPORT_ITEMS = [
    "results", "perplexity", "fragmentation", "initializers", "learning_curves",
    "new_tokens",
]  # fmt: skip
# Interface messages in English, from a package that also contains fonts for figures.
KOLIBRI = {"loader": "catalogue", "package": "kolibri", "locale": "en"}
_HEAD = """\
# Written by `lexigraft adapt`, whose results it reproduces. For a grid, add names to the lists
# under `cells`; finished steps are not repeated.
#
#   lexigraft plan {file}
#   lexigraft run {file}
"""


def cells_of_adaptation(resolved: ResolvedRequest, chosen: Choices) -> dict[str, Cell]:
    """The unchanged source, LAPT if baselines are requested, and the adapted model."""
    strategy = STRATEGY if chosen.budget else UNTRAINED

    def cell(vocabulary: str, initializer: str, strategy: str) -> Cell:
        return Cell(resolved.source, resolved.name, vocabulary, initializer, strategy, seed=0)

    found = {"source": cell(SOURCE_VOCABULARY, NO_INITIALIZER, UNTRAINED)}
    if resolved.baselines and chosen.budget:
        found["LAPT"] = cell(SOURCE_VOCABULARY, NO_INITIALIZER, strategy)
    return found | {"adapted": cell(_vocabulary(chosen), chosen.initializer, strategy)}


def study_of_adaptation(resolved: ResolvedRequest, chosen: Choices) -> dict[str, Any]:
    """The study, as plain data."""
    english = resolved.english or KOLIBRI
    study: dict[str, Any] = {
        "study": STUDY,
        "title": f"{resolved.model} adapted to {resolved.language}",
        "sources": dict(resolved.sources),
        "languages": {
            resolved.name: {
                "name": resolved.language,
                "code": resolved.code,
                "script": resolved.script,
                "text": dict(resolved.text),
                "english": dict(english),
                **({"license": resolved.text_license} if resolved.text_license else {}),
                **chosen.sizes,
            }
        },
        "run_tasks": {"perplexity": {}},
        "cells": [_block(cell) for cell in cells_of_adaptation(resolved, chosen).values()],
        "vocabularies": {_vocabulary(chosen): {"mode": "expand", "new_tokens": chosen.new_tokens}},
        "strategies": {
            UNTRAINED: {
                "base": NO_TRAINING,
                "title": NO_TRAINING,
                "curve": {"sentences": _CURVE_SENTENCES, "points": 0},
            },
        },
        "report": {"items": REPORT_ITEMS, **({} if english is KOLIBRI else {"fonts": None})},
    }
    if chosen.budget:
        study["strategies"][STRATEGY] = _strategy(chosen, chosen.budget)
    return study


def _vocabulary(chosen: Choices) -> str:
    return f"expand-{chosen.new_tokens}"


def _block(cell: Cell) -> dict[str, Any]:
    return {
        "sources": [cell.source],
        "languages": [cell.language],
        "vocabularies": [cell.vocabulary],
        "initializers": [cell.initializer],
        "strategies": [cell.strategy],
        "seeds": [cell.seed],
    }


def _strategy(chosen: Choices, budget: Budget) -> dict[str, Any]:
    """The registry's strategy with this budget."""
    return {
        "base": chosen.strategy,
        "title": chosen.strategy,
        "sentences": budget.sentences,
        "epochs": budget.epochs,
        "batch_sequences": budget.batch_sequences,
        "learning_rate": budget.learning_rate,
        "gradient_checkpointing": chosen.on_gpu,
        "curve": {"sentences": _CURVE_SENTENCES, "points": 6},
        **({"phases": chosen.phases} if chosen.phases else {}),
    }


def study_text(study: Mapping[str, Any], name: str) -> str:
    """The text of a study file with the given name."""
    return _HEAD.format(file=name) + yaml.safe_dump(
        dict(study), allow_unicode=True, sort_keys=False, width=100, default_flow_style=None
    )
