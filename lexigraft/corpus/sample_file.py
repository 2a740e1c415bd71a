"""The file of training samples, with a `prompt` and its `answer` per line, and ALMA's prompt.

Prompt and answer are concatenated into one text; their separator is part of the answer.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.corpus.lines import read_lines
from lexigraft.errors import UserError

SAMPLES = "samples.jsonl"
# Defined here so that tasks that read a test set do not depend on the code that prepares it.
TEST_SET = "test_set.jsonl"
ENGLISH = "English"
# The prompt of a translation from English, with the English sentence as a group.
_FROM_ENGLISH = re.compile(
    rf"Translate this from {ENGLISH} to (?P<language>[^\n]+):\n"
    rf"{ENGLISH}: (?P<sentence>[^\n]+)\n(?P=language):"
)


def translation_prompt(source: str, target: str, sentence: str) -> str:
    """The prompt of ALMA (Xu et al. 2024) for a translation, in training and in evaluation.

    `source` and `target` are the English names of the languages.
    """
    return f"Translate this from {source} to {target}:\n{source}: {sentence}\n{target}:"


def read_samples(file: str | Path) -> list[tuple[str, str]]:
    """(prompt, answer) of each line."""
    rows = (json.loads(line) for line in read_lines(file))
    return [(row["prompt"], row["answer"]) for row in rows]


def read_translations(file: str | Path) -> Iterator[tuple[str, str]]:
    """(English sentence, translation) of each sample whose prompt translates from English."""
    for prompt, answer in read_samples(file):
        if match := _FROM_ENGLISH.fullmatch(prompt):
            yield match["sentence"], answer.strip()


def write_samples(folder: str | Path, samples: Iterable[tuple[str, str]]) -> list[str]:
    """Write `samples.jsonl` to a folder and return its name for the card."""
    rows = [{"prompt": prompt, "answer": answer} for prompt, answer in samples]
    if not rows:
        raise UserError(f"{folder}: no samples are left; give more text")
    write_jsonl(Path(folder) / SAMPLES, rows)
    return [SAMPLES]
