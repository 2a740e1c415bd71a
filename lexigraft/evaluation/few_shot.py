"""Answered examples before a question: which ones, and as many of them as the model holds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.corpus.contamination import letters
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.sample_file import TEST_SET
from lexigraft.errors import UserError
from lexigraft.evaluation.texts import draw
from lexigraft.source.positions import positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

Row = dict[str, Any]

# An empty line ends an example; what a model writes ends with its first line already.
BETWEEN = "\n\n"


@dataclass(frozen=True)
class Prompts:
    """Prompts that begin with examples.

    Attributes
    ----------
    texts
        The prompts as a whole.
    queries
        What stands behind the examples.
    shots
        How many examples each prompt begins with: the last ones of `examples`.
    examples
        Each example as it stands in a prompt, the line feeds behind it included.
    """

    texts: list[str]
    queries: list[str]
    shots: list[int]
    examples: list[str]

    def details(self, ids: list[str]) -> dict[str, Any]:
        """Of a record: the examples, by which its predictions' `prompt` and `shots` are whole."""
        if not self.examples:
            return {}
        return {
            "examples": [
                {"id": name, "text": text} for name, text in zip(ids, self.examples, strict=True)
            ],
            "prompts_with_fewer_shots": sum(count < len(self.examples) for count in self.shots),
            "shots_per_prompt": sum(self.shots) / len(self.shots),
        }


def read_test_set(job: dict[str, Any], part: str, language: str | None = None) -> list[Row] | None:
    """The rows of a task's own `tests` or `shots`; None if it has none, and takes the corpus's.

    Parameters
    ----------
    language
        Whose; None where the task queries in one language only.
    """
    folders = job["inputs"].get("test_sets", {}).get(part)
    if not folders:
        return None
    folder = folders[language] if language else next(iter(folders.values()))
    return [json.loads(line) for line in read_lines(Path(folder) / TEST_SET)]


def examples_and_tests(
    job: dict[str, Any],
    tests: list[Row],
    pool: list[Row] | None,
    shots: int,
    texts: tuple[str, ...],
    language: str = "",
) -> tuple[list[Row], list[Row]]:
    """Draw the examples of a run, and leave out tests that have a text in common with one.

    All prompts of a run, and of all cells, begin with the same examples: differences between cells
    are then paired, and a model reads them once. Another run draws others.

    Parameters
    ----------
    tests
        Everything that can be asked.
    pool
        Where examples come from; None: from the tests.
    shots
        How many.
    texts
        Keys of a row's texts, by which two rows are alike; case, digits and punctuation aside.
    language
        Names the draw where a run has several.

    Raises
    ------
    UserError
        There are fewer examples than asked for, or no tests beside them.
    """
    if not shots:
        return [], tests
    where = f"config/tasks.yaml: task '{job['task']}': shots"
    every = tests if pool is None else pool
    if shots < 0 or len(every) < shots:
        raise UserError(f"{where} is {shots}, but there are {len(every)} examples; change it")
    drawn = draw(every, shots, job, f"shots {language}".strip())
    taken = {letters(row[key]) for row in drawn for key in texts}
    left = [row for row in tests if taken.isdisjoint(letters(row[key]) for key in texts)]
    if not left:
        raise UserError(
            f"{where}: beside {shots} examples nothing is left of {len(tests)} to test; lower it, "
            "or take the examples from a text of their own (examples.shots)"
        )
    return drawn, left


def prompt_limit(
    model: "PreTrainedModel", max_new_tokens: int, most: int | None = None
) -> int | None:
    """Tokens that a prompt may have beside the new ones, and `most` at most; None: any number."""
    positions = positions_of(model)
    limits = [most] if positions is None else [most, positions - max_new_tokens]
    return min((limit for limit in limits if limit is not None), default=None)


def few_shot_prompts(
    tokenizer: "PreTrainedTokenizerFast",
    queries: list[str],
    answered: Sequence[tuple[str, str]],
    limit: int | None,
) -> Prompts:
    """Prompts that begin with examples, without the first ones where they would not fit.

    Parameters
    ----------
    queries
        Prompts without examples.
    answered
        Examples: the prompt of each, and its answer, which is brought onto one line.
    limit
        Tokens that a prompt may have, special ones included. A prompt that exceeds it without any
        example is left as it is.
    """
    examples = [f"{query} {' '.join(answer.split())}{BETWEEN}" for query, answer in answered]
    shots = [len(examples)] * len(queries)
    texts = ["".join(examples) + query for query in queries]
    if examples and limit is not None:
        for at, ids in enumerate(tokenizer(texts, verbose=False)["input_ids"]):
            length = len(ids)
            while length > limit and shots[at]:
                shots[at] -= 1
                texts[at] = "".join(examples[len(examples) - shots[at] :]) + queries[at]
                length = len(tokenizer(texts[at], verbose=False)["input_ids"])
    return Prompts(texts, queries, shots, examples)
