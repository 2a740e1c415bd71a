"""The study of `lexigraft adapt`, as a YAML file that repeats and extends what it does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lexigraft.cells import NO_INITIALIZER, SOURCE_VOCABULARY, Cell
from workflow.adaptation.choices import Budget, Choices
from workflow.adaptation.request import Asked

STUDY, STRATEGY, UNTRAINED = "adapt", "adapt", "none"
REPORT_ITEMS = [
    "results", "perplexity", "fragmentation", "initializers", "learning_curves",
    "new_tokens",
]  # fmt: skip
# Interface messages in English, of a package that also brings fonts for figures.
KOLIBRI = {"loader": "catalogue", "package": "kolibri", "locale": "en"}
_HEAD = """\
# Written by `lexigraft adapt`. It repeats what that did. To make a grid of it, add names to the
# lists under `cells`: what is finished is not done again.
#
#   lexigraft plan {file}
#   lexigraft run {file}
"""


def cells_of_adaptation(asked: Asked, chosen: Choices) -> dict[str, Cell]:
    """The source as it is, LAPT where baselines are wanted, and the adapted model."""
    strategy = STRATEGY if chosen.budget else UNTRAINED

    def cell(vocabulary: str, initializer: str, strategy: str) -> Cell:
        return Cell(asked.source, asked.name, vocabulary, initializer, strategy, seed=0)

    found = {"source": cell(SOURCE_VOCABULARY, NO_INITIALIZER, UNTRAINED)}
    if asked.baselines and chosen.budget:
        found["LAPT"] = cell(SOURCE_VOCABULARY, NO_INITIALIZER, strategy)
    return found | {"adapted": cell(_vocabulary(chosen), chosen.initializer, strategy)}


def study_of_adaptation(asked: Asked, chosen: Choices | None) -> dict[str, Any]:
    """The study, as plain data; before anything is chosen, of the source as it is."""
    english = asked.english or KOLIBRI
    study: dict[str, Any] = {
        "study": STUDY,
        "title": f"{asked.model} adapted to {asked.language}",
        "sources": dict(asked.sources),
        "languages": {
            asked.name: {
                "name": asked.language,
                "code": asked.code,
                "script": asked.script,
                "text": dict(asked.text),
                "english": dict(english),
                **({"license": asked.text_license} if asked.text_license else {}),
                **(chosen.sizes if chosen else {}),
            }
        },
        "run_tasks": {"perplexity": {}},
        "report": {"items": REPORT_ITEMS, **({} if english is KOLIBRI else {"fonts": None})},
    }
    if not chosen:
        only = Cell(asked.source, asked.name, SOURCE_VOCABULARY, NO_INITIALIZER, UNTRAINED, 0)
        study["cells"] = [_block(only)]
        return study
    study["cells"] = [_block(cell) for cell in cells_of_adaptation(asked, chosen).values()]
    study["vocabularies"] = {
        _vocabulary(chosen): {"mode": "expand", "new_tokens": chosen.new_tokens}
    }
    if chosen.budget:
        study["strategies"] = {STRATEGY: _strategy(chosen, chosen.budget)}
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
        "curve": {"sentences": 32, "points": 6},
        **({"phases": chosen.phases} if chosen.phases else {}),
    }


def write_study(study: Mapping[str, Any], file: Path) -> bool:
    """Write a study to a file; returns whether that changed the file."""
    text = _HEAD.format(file=file.name) + yaml.safe_dump(
        dict(study), allow_unicode=True, sort_keys=False, width=100, default_flow_style=None
    )
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return False
    file.write_text(text, encoding="utf-8")
    return True
