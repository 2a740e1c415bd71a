"""What is asked by a task of the harness, as texts to look for in training text."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from lexigraft.evaluation.harness.data import handing_out
from lexigraft.evaluation.harness.prepare import DATA
from lexigraft.evaluation.harness.tasks import load_task


def longest_texts(folder: str | Path) -> list[str]:
    """The longest text of each example that a benchmark asks, as its data set has it.

    What is the question, and what are only its choices, each data set names in its own way; and a
    prompt has words of the harness in it, which no training text has. The longest text of an
    example is the one that stands nowhere else by chance: the passage of a question, the question
    of an exam, the beginning of a story.

    Parameters
    ----------
    folder
        Of a benchmark that was prepared.
    """
    folder = Path(folder)
    card = json.loads((folder / "card.json").read_text("utf-8"))
    found = []
    with handing_out(folder / DATA):
        for task in load_task(card["task"], card["definition"])["tasks"].values():
            split = task.config.test_split if task.has_test_docs() else task.config.validation_split
            columns = task.dataset[split].column_names
            found += [longest(example, columns) for example in task.eval_docs]
    return found


def longest(example: Mapping[str, Any], columns: Collection[str]) -> str:
    """The longest text in some columns of an example; empty where there is none."""
    texts = (value for name, value in example.items() if name in columns)
    return max((text for text in texts if isinstance(text, str)), key=len, default="")
